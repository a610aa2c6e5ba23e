"""The GID table of a NIC changed while the job ran."""

from nccl_insight.facts.fabric.links import devices_of
from nccl_insight.facts.said.course import left_in_order
from nccl_insight.rules._outside import loud_besides
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    run = ctx.run
    found = ctx.lines()
    if found is None:
        return
    devices = devices_of(run, found.rows)
    names = ", ".join(sorted({d.split("/", 1)[1] for d in devices})[:4])
    harmless = left_in_order(run) and not loud_besides(run, (ctx.name,))
    yield from ctx.tells("found", rows=found, devices=devices, names=names, harmless=harmless)

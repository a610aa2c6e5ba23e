"""InfiniBand packets were not acknowledged in spite of all retries."""

from nccl_insight.facts.fabric.links import devices_of
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def _one_peer(run: Run, found: Trouble) -> tuple[str, ...] | None:
    """The host that several hosts name, and no other, which has no such error itself: its end is the suspect."""
    known = places(run)
    peers = known.hosts_at(found.rows)
    alone = next(iter(peers)) if len(peers) == 1 else None
    if alone is None or alone not in known.machines or alone in found.hosts or len(found.hosts) < 2:
        return None
    return (alone,)


def check(ctx: Context) -> Hits:
    """One finding for all completions, with the peers named."""
    found = ctx.lines()
    if found is None:
        return
    peers = sorted(found.rows["peer"].drop_nulls().str.split("<").list.first().unique())
    one = _one_peer(ctx.run, found)
    yield from ctx.tells("found", whom=one, devices=devices_of(ctx.run, found.rows), peers=peers)

"""The inputs are not one job."""

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import plural
from nccl_insight.facts.who.parts import part_run, parts
from nccl_insight.rules._notes import noted
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding each for logs and for traces, with the first line or trace of each job as evidence."""
    run = ctx.run
    yield from _logs(ctx)
    texts, _ = noted(run, ctx.name)
    if not texts:
        return
    info = run.table("trace_info")
    firsts = (
        info.filter(pl.col("job").is_not_null())
        .sort("job", "input_id")
        .unique("job", keep="first", maintain_order=True)
    )
    yield ctx.says(
        "found",
        tuple(
            Ref(i, 0, f"a trace of a job of {'an unknown number of' if w is None else w} ranks")
            for i, w in firsts.select("input_id", "world_size").head(5).iter_rows()
        ),
        texts=texts,
        firsts=firsts,
    )


def _logs(ctx: Context) -> Hits:
    last = [p for p in parts(ctx.run) if p.judged]
    if len(last) < 2:
        return
    sizes = [part_run(ctx.run, p).table("communicators")["nranks"].max() for p in last]
    known = [plural(n, "rank") for n in sizes if isinstance(n, int)]
    shown = ", ".join(known[:4]) + (f" and {len(known) - 4} more" if len(known) > 4 else "")
    yield ctx.says("logs", tuple(p.begins for p in last if p.begins is not None)[:5], last=last, shown=shown)

"""GPUDirect RDMA is probably broken on these hosts."""

import polars as pl

from nccl_insight.facts.said.errors import present
from nccl_insight.facts.said.mentions import mentions
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Stated by plugin or NCCL, else memory access errors, else flushes without a cause."""
    run = ctx.run
    if ctx.lines() is not None:
        yield from ctx.tells("stated")
        return
    net = run.table("connections").filter(pl.col("transport").cast(pl.String) == "NET")
    if net.height and not net["gdr"].any():
        return
    access, flushed = trouble(run, "ib-completion-local-prot"), trouble(run, "ib-completion-flush")
    if access is not None:
        yield from ctx.tells("access", rows=access, acs=not mentions(run, "acs-on").is_empty())
    elif flushed is not None and present(run).isdisjoint(ctx.names("unless")):
        yield from ctx.tells("flushed", rows=flushed)

"""Two ranks of one communicator use the same GPU."""

import polars as pl

from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """NCCL's own complaint, else equal bus ids in one communicator."""
    found = ctx.lines()
    if found is not None:
        device = found.value("bus_id")
        first, second = found.value("rank"), found.value("other_rank")
        both = {int(r) for r in (first, second) if r}
        who = f"ranks {first} and {second}" if first and second else "ranks"
        yield from ctx.tells("found", whom=(*found.ranks, *both, *found.hosts), quiet=None, who=who, device=device)
        return
    made = ctx.run.table("communicators").filter(~pl.col("comm_id_made").fill_null(True)).select("comm_id")
    ranks = (
        ctx.run.table("ranks")
        .drop_nulls(["comm_id", "host", "bus_id", "rank", "pid"])
        .join(made, on="comm_id", how="semi")
        .filter(~pl.col("init_complete").fill_null(False))
        .unique(["comm_id", "host", "bus_id", "rank"], keep="first", maintain_order=True)
        .filter(pl.len().over("comm_id", "host", "bus_id") > 1)
    )
    if ranks.height:
        yield ctx.says("same-bus", ranks, ranks=ranks)

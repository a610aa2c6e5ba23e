"""One rank number appears twice in a communicator."""

import polars as pl

from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs
from nccl_insight.facts.who.members import comms
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for each communicator, else one for NCCL's message."""
    run = ctx.run
    real = [c.comm_id for c in comms(run) if c.comm_id and not c.made]
    doubled = (
        run.lazy("ranks")
        .filter(pl.col("comm_id").is_in(real) & pl.col("pid").is_not_null() & pl.col("host").is_not_null())
        .unique(["comm_id", "nranks", "rank", "host", "pid"], keep="first", maintain_order=True)
        .filter(pl.len().over("comm_id", "nranks", "rank") > 1)
        .collect(engine="in-memory")
    )
    # The rest of a torn line glued to a host name is the same process, not a second one.
    glued = doubled.join(doubled, on=["comm_id", "nranks", "rank", "pid"], how="inner", suffix="_other").filter(
        (pl.col("host") != pl.col("host_other"))
        & (pl.col("host").str.ends_with(pl.col("host_other")) | pl.col("host").str.starts_with(pl.col("host_other")))
    )
    doubled = doubled.join(glued, on=["comm_id", "nranks", "rank", "pid", "host"], how="anti").filter(
        pl.len().over("comm_id", "nranks", "rank") > 1
    )
    torn = bool(run.table("inputs").get_column("torn_lines").sum())
    stated = mentions(run, "rank-twice")
    for _, rows in doubled.group_by("comm_id", maintain_order=True):
        ranks = ranks_of(rows)
        yield ctx.says(
            "found",
            (*refs(rows, 3), *refs(stated, 1)),
            whom=(*ranks, *hosts_of(rows)),
            rows=rows,
            torn=torn and stated.is_empty(),
        )
    if doubled.is_empty() and stated.height:
        yield ctx.says("found-rank-joined", refs(stated, 2), whom=stated)

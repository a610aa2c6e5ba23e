"""Ranks take turns on one GPU."""

from typing import Final

import polars as pl

from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.readers.kernels import COMPUTE
from nccl_insight.rules._gains import mended
from nccl_insight.rules._traces import input_of_rank, trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run, fact

_SHORT_NS: Final = 500_000
"""A GPU gives each process some milliseconds: a longer kernel may be interrupted by those of others."""
_BESIDE: Final = 0.01
_ROUNDS: Final = 5
_USUAL: Final = 0.8
_MOST: Final = 16


@fact
def shared_gpu(run: Run) -> tuple[int, ...]:
    """The ranks of one host and one device of which no two ever compute at the same time, empty where there are none.

    Between two collectives all compute, now one first and now another; so none of them waits for another.
    """
    work = run.table("gpu_work").filter(pl.col("kind") == COMPUTE, pl.col("rank").is_not_null())
    met = run.table("collectives").filter(pl.col("match_id").is_not_null())
    if met.is_empty() or work.is_empty() or met["op"].cast(pl.String).is_in(["Send", "Recv"]).any():
        return ()
    hosts = run.table("trace_info").select("input_id", "host")
    # What runs between two collectives of all is one round.
    ends = met.select("rank", "match_id", at=pl.col("start_ns") + pl.col("duration_ns")).sort("at")
    rows = work.join(hosts, on="input_id").with_columns(at="start_ns").sort("at")
    rows = (
        rows.join_asof(ends, on="at", by="rank", check_sortedness=False).drop_nulls("match_id").sort("rank", "start_ns")
    )
    groups = (part for _, part in rows.group_by("host", "device", maintain_order=True))
    return tuple(sorted(r for part in groups if _take_turns(part) for r in part["rank"].unique()))


def _take_turns(rows: pl.DataFrame) -> bool:
    """Whether no two of all ranks compute at the same time, and their order changes from round to round."""
    ranks = rows["rank"].unique()
    begun = rows.group_by("match_id", "rank").agg(pl.col("start_ns").min()).sort("start_ns")
    orders = begun.group_by("match_id").agg("rank").filter(pl.col("rank").list.len() == ranks.len())
    if not 1 < ranks.len() <= _MOST or orders.height < _ROUNDS:
        return False
    usual = orders.group_by("rank").len()["len"].max()
    short = rows.filter(pl.col("end_ns") - pl.col("start_ns") < _SHORT_NS).sort("start_ns")
    others = (pl.when(pl.col("rank") != r).then("end_ns").cum_max().forward_fill().alias(str(r)) for r in ranks)
    until = short.select("rank", "start_ns", *others).unpivot(index=["rank", "start_ns"])
    own = until.filter(pl.col("variable") == pl.col("rank").cast(pl.String))
    beside = own.select((pl.col("start_ns") < pl.col("value")).mean()).item()
    return int(str(usual)) <= _USUAL * orders.height and (beside or 0.0) < _BESIDE


def check(ctx: Context) -> Hits:
    """One finding for the ranks."""
    if ranks := shared_gpu(ctx.run):
        inputs = input_of_rank(ctx.run)
        seen = trace_refs((inputs.get(r), f"rank {r} computes in turn with the others") for r in ranks)
        yield ctx.says("found", seen, whom=with_hosts(ctx.run, ranks), late=bool(mended(ctx.run, LATE)))

"""What the bandwidth model predicts for the recorded communication, beside what was measured."""

import polars as pl

from nccl_insight.facts.figures.overlap import step_summary
from nccl_insight.facts.lateness.wire import transfers
from nccl_insight.rules._links import expected_busbw
from nccl_insight.rules._traces import trace_refs
from nccl_insight.rules.context import Context, Hits

_LEAST = 5


def check(ctx: Context) -> Hits:
    """One finding for the group that moves most."""
    run = ctx.run
    rows = _once_each(
        transfers(run).filter(
            pl.col("busbw_gbps").is_not_null() & (pl.col("source") == "kernel") & pl.col("src").is_null()
        )
    )
    steps = step_summary(run)
    if rows.height < _LEAST or steps.is_empty():
        return
    groups = rows.with_columns(
        members=pl.coalesce("group_ranks", "ranks"),
        n=pl.coalesce("group_size", pl.col("ranks").list.len().cast(pl.Int32)),
        # busbw x time = bytes on the wire of one rank
        moved=pl.col("busbw_gbps") * pl.col("wire_ns"),
    )
    sums = (
        groups.group_by("members", "n", maintain_order=True)
        .agg(pl.col("moved").sum(), pl.col("wire_ns").sum(), pl.len().alias("count"), pl.col("input_id").first())
        .sort("moved", descending=True)
    )
    top = sums.row(0, named=True)
    expected = expected_busbw(run, tuple(top["members"]), int(top["n"]))
    if expected is None:
        return
    most = steps.select(pl.col("duration_ns", "exposed_comm_ns").max().fill_null(0).cast(pl.Int64))
    total, exposed = most.row(0)
    yield ctx.says(
        "found",
        trace_refs([(top["input_id"], f"{top['count']} collectives, {top['moved'] / 1e9:.2f} GB on the wire")]),
        expected_said=expected,
        top=top,
        model=top["moved"] / expected.gbps,
        exposed=exposed,
        total=total,
        hidden_ns=total - exposed,
    )


def _once_each(rows: pl.DataFrame) -> pl.DataFrame:
    """Unmatched rows of a group only from the rank that has most of them: the others show the same collectives."""
    lone = rows.filter(~pl.col("matched"))
    most = (
        lone.group_by("process_group", "group_ranks", "rank")
        .len()
        .sort("len", "rank", descending=[True, False])
        .unique(["process_group", "group_ranks"], keep="first", maintain_order=True)
    )
    kept = lone.join(most, on=["process_group", "group_ranks", "rank"], how="semi", nulls_equal=True)
    matched = rows.filter("matched").select("process_group", "group_ranks").unique()
    kept = kept.join(matched, on=["process_group", "group_ranks"], how="anti", nulls_equal=True)
    return pl.concat([rows.filter("matched"), kept])

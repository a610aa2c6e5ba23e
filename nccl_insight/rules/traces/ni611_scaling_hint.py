"""What the bandwidth model predicts for the recorded communication, beside what was measured.

What it finds
-------------
Traces with known sizes and links: the time that the steps' collectives would take at the expected bus bandwidth.

Why it matters
--------------
It tells how much better links, less data or better overlap could give at most, before anyone tries.

How it decides
--------------
t = bytes x factor / expected bus bandwidth, factor 2(N-1)/N for AllReduce and (N-1)/N for the gathering operations,
summed over the traced collectives whose size and links are known; information only. Each collective counts once, and
only where all its ranks were traced is the shortest duration over ranks (without waiting) called transfer.

What to do
----------
Compare the three figures: model, transfer, exposed. Transfer far above the model: slow links. Exposed far above the
transfer: waiting for late ranks. Exposed near zero: leave it.

False positives
---------------
None: a figure, not a fault. Small messages take longer than the model says, by their latency.

References
----------
nccl-tests doc/PERFORMANCE.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.overlap import step_summary
from nccl_insight.facts.wire import transfers
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._links import expected_busbw
from nccl_insight.rules._traces import trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_gbps, format_ns, plural

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.NONE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("collectives",)
SOURCES = ("nccl-tests PERFORMANCE.md",)
_LEAST = 5


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for the group that moves most."""
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
        .agg(
            pl.col("moved").sum(),
            pl.col("wire_ns").sum(),
            pl.len().alias("count"),
            pl.col("input_id").first(),
        )
        .sort("moved", descending=True)
    )
    top = sums.row(0, named=True)
    expected = expected_busbw(run, tuple(top["members"]), int(top["n"]))
    if expected is None:
        return
    model = top["moved"] / expected.gbps
    total, exposed = int(steps["duration_ns"].max() or 0), int(steps["exposed_comm_ns"].max() or 0)  # type: ignore[arg-type]
    yield Hit(
        title=f"At {format_gbps(expected.gbps)} the {plural(top['count'], 'collective')} of {top['n']} ranks would "
        f"take {format_ns(model)}; measured {format_ns(top['wire_ns'])}, up to {format_ns(exposed)} exposed",
        explanation=f"Model: bytes x busbw factor / bandwidth, bandwidth from {expected.why}. Recorded time "
        f"{format_ns(total)}; without exposed communication it would be {format_ns(total - exposed)}.",
        observed=f"{format_ns(top['wire_ns'])} in collectives",
        expected=f"{format_ns(model)} at {format_gbps(expected.gbps)}",
        next_step="transfer far above the model: look at links; exposed far above transfer: look for late ranks",
        evidence=trace_refs(
            [(top["input_id"], f"{top['count']} collectives, {top['moved'] / 1e9:.2f} GB on the wire")]
        ),
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

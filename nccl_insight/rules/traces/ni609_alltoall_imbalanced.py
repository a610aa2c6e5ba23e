"""All-to-all messages differ strongly in size between ranks.

What it finds
-------------
All-to-all exchanges in which one part is much larger than the mean (hot experts of a mixture-of-experts model,
skewed embedding tables).

Why it matters
--------------
The exchange ends with its largest part; the other links idle.

How it decides
--------------
From the recorded split sizes of a rank, or from the sizes that the ranks of one matched all-to-all send: the largest
is at least 2 times the mean in half or more of at least 5 exchanges above 64 KiB.

What to do
----------
Balance experts (capacity factor, auxiliary loss, expert placement) or shard the tables by load.

False positives
---------------
Warm-up steps before routing has settled.

References
----------
torch.distributed.all_to_all_single split sizes; Kineto "In split size".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.thresholds import threshold
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._traces import hosts_of, ranks_of, trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("collectives",)
THRESHOLDS = {"ratio": 2.0, "share": 0.5, "least": 5.0, "least_bytes": 65536.0}
SOURCES = ("Kineto communication metadata: In split size",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all ranks."""
    table = run.table("collectives").filter(
        pl.col("op").cast(pl.String).is_in(["AllToAll", "AllToAllv"])
        & (
            pl.col("size_bytes")
            >= threshold(run, "alltoall-imbalanced", "least_bytes", THRESHOLDS["least_bytes"])
        )
    )
    ratio = threshold(run, "alltoall-imbalanced", "ratio", THRESHOLDS["ratio"])
    parts = [p for p in (_by_split(table), _by_rank(table)) if p.height]
    for rows in parts:
        bad = rows.filter(pl.col("ratio") >= ratio)
        least = threshold(run, "alltoall-imbalanced", "least", THRESHOLDS["least"])
        share = threshold(run, "alltoall-imbalanced", "share", THRESHOLDS["share"])
        if rows.height < least or bad.height < share * rows.height:
            continue
        worst = bad.sort("ratio", descending=True).row(0, named=True)
        typical = float(bad.select(pl.col("ratio").median()).item())
        ranks = ranks_of(bad)
        yield Hit(
            title=f"In {bad.height} of {rows.height} all-to-all exchanges the largest part is {ratio:.0f} times the "
            f"mean or more (median {typical:.1f} times)",
            explanation="The exchange lasts as long as its largest part.",
            observed=f"{worst['ratio']:.1f} times the mean at worst ({format_bytes(worst['size_bytes'] or 0)} in all)",
            expected=f"below {ratio:.0f} times",
            next_step="balance the routing (experts, tables) and compare split sizes over ranks",
            ranks=ranks,
            hosts=hosts_of(run, ranks),
            evidence=trace_refs(
                (i, f"rank {r}: {format_bytes(s or 0)}, largest part {x:.1f} times the mean")
                for i, r, s, x in bad.select("input_id", "rank", "size_bytes", "ratio").iter_rows()
            ),
        )
        return


def _by_split(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("split_max_share").is_not_null()).with_columns(ratio="split_max_share")


def _by_rank(table: pl.DataFrame) -> pl.DataFrame:
    """Largest over mean size of the ranks of one exchange; the row names the rank that sends most."""
    return (
        table.filter(pl.col("match_id").is_not_null())
        .sort("size_bytes", descending=True)
        .group_by("match_id", maintain_order=True)
        .agg(
            pl.col("input_id", "rank", "size_bytes").first(),
            ratio=pl.col("size_bytes").max() / pl.col("size_bytes").mean(),
        )
    )

"""Some transfers are clearly slower than others of the same operation and size.

What it finds
-------------
A group, a rank or some occasions whose transfer takes far longer than the others of the same size, although nobody
arrived late.

Why it matters
--------------
Equal work on equal links takes equal time; a slow pair, NIC, cable or a neighbour on the network shows up here.

How it decides
--------------
Waiting is removed first (shortest duration over the matched ranks, or time since the last arrival). Then, among GPU
collectives of one operation and size: groups whose median bus bandwidth is below 70 % of the other groups' median;
ranks that end more than half later than the others after the last arrival; occasions that take at least twice the
median and 100 us more, in 5 % or more of at least 20 collectives, costing 1 % of the recorded time.

What to do
----------
Group or rank named: check its NIC counters, links and slots (``ibqueryerrors``, ``nvidia-smi nvlink -e``). Occasions
only: look for other traffic on the fabric, adaptive routing or congestion counters (CNP, PFC).

False positives
---------------
Collectives that overlap with heavy compute at some occasions and not at others.

References
----------
nccl-tests doc/PERFORMANCE.md; TraceLens communication latency (minimum over ranks).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.wire import ends_after_last_arrival, transfers
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._traces import hosts_of, trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_gbps, format_ns, format_ranks

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("collectives",)
SOURCES = ("nccl-tests PERFORMANCE.md",)
_TOGETHER = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll", "AllToAllv")
_GROUP_SHARE = 0.7
_SLOW_FACTOR = 2.0
_RANK_FACTOR = 1.5
_LEAST_EXTRA_NS = 100_000
_LEAST = 20
_LEAST_PER_GROUP = 5
_OCCASIONS = 0.05
_COST = 0.01
_NEXT = "check link and NIC counters of the named ranks (nvidia-smi nvlink -e, ibqueryerrors), then congestion counters"


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """Groups first, then ranks, then occasions; the first that explains is reported."""
    rows = transfers(run).filter((pl.col("source") == "kernel") & pl.col("matched"))
    if rows.is_empty():
        return
    hits = [*_groups(run, rows), *_ranks(run)]
    yield from hits or _occasions(rows)


def _groups(run: Run, rows: pl.DataFrame) -> Iterator[Hit]:
    keys = ["op", "size_bytes", "dtype", "group_size"]
    medians = (
        rows.filter(pl.col("busbw_gbps").is_not_null())
        .group_by(*keys, "ranks", maintain_order=True)
        .agg(busbw=pl.col("busbw_gbps").median(), count=pl.len(), input_id=pl.col("input_id").first())
        .filter(pl.col("count") >= _LEAST_PER_GROUP)
        .with_columns(usual=pl.col("busbw").median().over(keys), groups=pl.len().over(keys))
        .filter((pl.col("groups") >= 3) & (pl.col("busbw") < _GROUP_SHARE * pl.col("usual")))
        .sort("size_bytes", descending=True)
        .unique("ranks", keep="first", maintain_order=True)
    )
    for row in medians.iter_rows(named=True):
        ranks = tuple(row["ranks"])
        yield Hit(
            title=f"{row['op']} of {format_bytes(row['size_bytes'])} reaches {format_gbps(row['busbw'])} on ranks "
            f"{format_ranks(ranks)}; the other {row['groups'] - 1} groups reach {format_gbps(row['usual'])}",
            explanation="Waiting for late ranks is left out; the transfer of this group is slow.",
            observed=f"{format_gbps(row['busbw'])} busbw",
            expected=f"{format_gbps(row['usual'])} as in the other groups",
            next_step=_NEXT,
            ranks=ranks,
            hosts=hosts_of(run, ranks),
            evidence=trace_refs([(row["input_id"], f"median of {row['count']} collectives")]),
        )


def _ranks(run: Run) -> Iterator[Hit]:
    """Ranks that finish late although everybody had arrived; needs a common clock."""
    ends = ends_after_last_arrival(run).filter((pl.col("source") == "kernel") & pl.col("op").is_in(_TOGETHER))
    if ends.is_empty():
        return
    slow = pl.col("after_ns") > _RANK_FACTOR * pl.col("usual_ns")
    extra = pl.col("after_ns") - pl.col("usual_ns")
    table = (
        ends.with_columns(usual_ns=pl.col("after_ns").median().over("match_id"))
        .group_by("rank")
        .agg(
            pl.len().alias("count"),
            (slow & (extra >= _LEAST_EXTRA_NS)).sum().alias("slow"),
            extra.median().alias("extra"),
            pl.col("usual_ns").median(),
            pl.col("input_id").first(),
        )
        .filter((pl.col("count") >= _LEAST) & (pl.col("slow") >= 0.5 * pl.col("count")))
        .sort("extra", descending=True)
    )
    for row in table.iter_rows(named=True):
        yield Hit(
            title=f"Rank {row['rank']} ends {format_ns(row['extra'])} after the others in {row['slow']} of "
            f"{row['count']} collectives, although nobody was late",
            explanation="Time is counted from the last arrival: this rank's own transfer is slow.",
            observed=f"{format_ns(row['usual_ns'] + row['extra'])} after the last arrival",
            expected=f"{format_ns(row['usual_ns'])} as the other ranks",
            next_step=_NEXT,
            ranks=(row["rank"],),
            hosts=hosts_of(run, (row["rank"],)),
            evidence=trace_refs([(row["input_id"], f"slow in {row['slow']} of {row['count']} collectives")]),
        )


def _occasions(rows: pl.DataFrame) -> Iterator[Hit]:
    """Single collectives that took far longer than the median of their kind."""
    keys = ["op", "size_bytes", "dtype", "ranks"]
    span = rows.select(pl.col("start_ns").max() - pl.col("start_ns").min()).item()
    # Without sizes, different messages would be compared with each other.
    marked = (
        rows.filter(pl.col("size_bytes").is_not_null())
        .with_columns(usual=pl.col("wire_ns").median().over(keys), count=pl.len().over(keys))
        .filter(pl.col("count") >= _LEAST)
    )
    slow = marked.filter(
        (pl.col("wire_ns") > _SLOW_FACTOR * pl.col("usual"))
        & (pl.col("wire_ns") - pl.col("usual") >= _LEAST_EXTRA_NS)
    )
    if slow.is_empty():
        return
    cost = int(slow.select((pl.col("wire_ns") - pl.col("usual")).sum()).item())
    if slow.height < _OCCASIONS * marked.height or not span or cost < _COST * span:
        return
    kinds = (
        slow.group_by(keys, maintain_order=True)
        .agg(
            pl.len().alias("slow"),
            pl.col("count").first(),
            wire=pl.col("wire_ns").median(),
            usual=pl.col("usual").first(),
            input_id=pl.col("input_id").first(),
        )
        .sort("slow", descending=True)
    )
    worst = kinds.row(0, named=True)
    size = format_bytes(worst["size_bytes"]) if worst["size_bytes"] is not None else "unknown size"
    yield Hit(
        title=f"{worst['slow']} of {worst['count']} {worst['op']} of {size} take {format_ns(worst['wire'])} on the "
        f"wire; the others take {format_ns(worst['usual'])}",
        explanation="All ranks had arrived: the transfer itself was slow at these occasions, and no rank is to "
        f"blame. It cost {format_ns(cost)} of {format_ns(span)}.",
        observed=f"{format_ns(worst['wire'])} in {worst['slow']} of {worst['count']}",
        expected=f"{format_ns(worst['usual'])}, the median",
        next_step="look for other traffic on the same links at these times (congestion counters, other jobs)",
        evidence=trace_refs(
            (i, f"{op} on ranks {format_ranks(r)}: {n} of {c} slow, {format_ns(w)} against {format_ns(u)}")
            for op, _, _, r, n, c, w, u, i in kinds.iter_rows()
        ),
    )

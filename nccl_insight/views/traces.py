"""Statistics of traces and benchmarks: durations, bandwidth, and what ranks take more than their peers."""

from collections import Counter
from collections.abc import Mapping, Sequence

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.figures.expected import efficiency, expected
from nccl_insight.facts.lateness.replay import what_if
from nccl_insight.rules._links import expected_busbw
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED

_SIZES = 40


@dataclass(frozen=True)
class Duration:
    """Quantiles of the durations of one operation and size, in nanoseconds: 5, 25, 50, 75 and 95%, and the longest."""

    op: str
    size_bytes: int | None
    count: int
    low_ns: float
    q1_ns: float
    median_ns: float
    q3_ns: float
    high_ns: float
    longest_ns: int


@dataclass(frozen=True)
class Durations:
    """Of ``total`` kinds of collectives those that take most time, and the one with the widest spread."""

    total: int
    kinds: tuple[Duration, ...]
    widest: Duration


@dataclass(frozen=True)
class Measured:
    """Bus bandwidth (GB/s, 1e9) of an operation and size; ``source``: ``benchmark`` or ``trace``."""

    op: str
    size_bytes: int
    median_gbps: float
    best_gbps: float
    count: int
    source: str


@dataclass(frozen=True)
class Expected:
    """The band of bus bandwidth that an operation should reach at a size, and what says so."""

    size_bytes: int
    busbw_gbps: float
    low_gbps: float
    high_gbps: float
    source: str


@dataclass(frozen=True)
class Peak:
    """What large messages should reach, GB/s; ``why`` is None where it is the NVLink that NCCL lists for one GPU."""

    gbps: float
    why: str | None


@dataclass(frozen=True)
class Bandwidth:
    """Medians by source, operation and size; what is expected of each operation, in the order of ``points``."""

    points: tuple[Measured, ...]
    expected: tuple[tuple[str, tuple[Expected, ...]], ...]
    peak: Peak | None

    @property
    def fastest(self) -> tuple[Measured, ...]:
        """The points, the highest median first."""
        return tuple(sorted(self.points, key=lambda p: -p.median_gbps))


@dataclass(frozen=True)
class Excess:
    """What ranks take more than their peers by themselves, in nanoseconds: of ``total`` ranks those with most of it.

    ``by_step``: by rank, in the order of ``steps``, none where it has no such step. ``named``: ranks that are late.
    """

    total: int
    steps: tuple[int, ...]
    whole: Mapping[int, int]
    by_step: Mapping[int, tuple[int | None, ...]]
    named: frozenset[int]


def durations(run: Run) -> Durations | None:
    """Durations by operation and size, None where no collective has one."""
    quantiles = ((0.05, "low_ns"), (0.25, "q1_ns"), (0.5, "median_ns"), (0.75, "q3_ns"), (0.95, "high_ns"))
    table = (
        run.lazy("collectives")
        .filter((pl.col("duration_ns") > 0) & pl.col("op").is_not_null())
        .group_by(pl.col("op").cast(pl.String), "size_bytes")
        .agg(
            pl.len().alias("count"),
            *(pl.col("duration_ns").quantile(q).alias(name) for q, name in quantiles),
            longest_ns=pl.col("duration_ns").max(),
            sum=pl.col("duration_ns").sum(),
        )
        .sort("sum", "op", "size_bytes", descending=[True, False, False])
        .drop("sum")
        .collect()
    )
    if table.is_empty():
        return None
    spread = pl.col("high_ns") / pl.max_horizontal("median_ns", 1)
    widest = table.row(int(table.select(spread.arg_max()).item()))
    return Durations(table.height, tuple(Duration(*r) for r in table.head(LISTED).iter_rows()), Duration(*widest))


def bandwidth(run: Run) -> Bandwidth | None:
    """Measured bus bandwidth beside what is expected, None where none was measured."""
    table = pl.concat([_medians(run, "benchmarks", "benchmark"), _medians(run, "collectives", "trace")])
    table = table.sort("source", "op", "size_bytes")
    if table.is_empty():
        return None
    curves = []
    for op in table["op"].unique(maintain_order=True):
        sizes = sorted(set(table.filter(pl.col("op") == op)["size_bytes"].to_list()))[:_SIZES]
        rows = efficiency(run).filter(pl.col("op").cast(pl.String) == op).drop_nulls("expected_gbps")
        rows = rows.unique("size_bytes", keep="first").sort("size_bytes")
        columns = ("size_bytes", "expected_gbps", "expected_low_gbps", "expected_high_gbps", "expected_from")
        curves.append(
            (op, tuple(Expected(*row) for row in rows.select(columns).iter_rows()) or _of_traces(run, op, sizes))
        )
    return Bandwidth(tuple(Measured(*row) for row in table.iter_rows()), tuple(curves), _peak(run))


def _medians(run: Run, name: str, source: str) -> pl.DataFrame:
    return (
        run.lazy(name)
        .filter(
            pl.col("busbw_gbps").is_finite()
            & (pl.col("busbw_gbps") > 0)
            & (pl.col("size_bytes") > 0)
            & pl.col("op").is_not_null()
        )
        .group_by(pl.col("op").cast(pl.String), "size_bytes")
        .agg(pl.col("busbw_gbps").median(), best=pl.col("busbw_gbps").max(), n=pl.len())
        .with_columns(source=pl.lit(source))
        .collect()
    )


def _of_traces(run: Run, op: str, sizes: Sequence[int]) -> tuple[Expected, ...]:
    groups = run.table("collectives")["group_size"].drop_nulls()
    nranks = groups.mode().sort().to_list()[-1] if groups.len() else None
    if not nranks:
        return ()
    hosts = run.table("communicators").filter(pl.col("nranks") == nranks)["n_nodes"].drop_nulls()
    nodes = int(hosts[0]) if hosts.len() else None
    bands = (expected(run, op, int(size), int(nranks), nodes) for size in sizes)
    return tuple(
        Expected(b.size_bytes, b.busbw_gbps, b.low_gbps, b.high_gbps, b.source) for b in bands if b is not None
    )


def _peak(run: Run) -> Peak | None:
    """Published results for the GPU or the NICs, else the GPU's NVLink."""
    for name in ("collectives", "ranks"):
        members = tuple(sorted(run.table(name)["rank"].drop_nulls().unique()))
        known = expected_busbw(run, members, len(members)) if members else None
        if known is not None:
            return Peak(known.gbps, known.why)
    links = run.lazy("topology_links").filter(
        (pl.col("link").cast(pl.String) == "NVL") & pl.col("src").str.starts_with("GPU")
    )
    table = links.group_by("host", "src").agg(pl.col("bw_gbps").sum()).collect()
    value = table["bw_gbps"].median() if table.height else None
    return Peak(float(str(value)), None) if value else None


def excess(run: Run) -> Excess | None:
    """What ranks take more than their peers, None where no rank is late by itself or nothing could be replayed."""
    found = what_if(run)
    if not found.excess or found.refused or not found.late:
        return None
    whole: Counter[int] = Counter()
    for (rank, _), more in found.excess.items():
        whole[rank] += more
    most = sorted(whole, key=lambda r: (-whole[r], r))[:LISTED]
    steps = tuple(sorted({step for _, step in found.excess}))
    return Excess(
        total=len(whole),
        steps=steps,
        whole={rank: whole[rank] for rank in most},
        by_step={rank: tuple(found.excess.get((rank, step)) for step in steps) for rank in most},
        named=frozenset(r for gain in found.late if len(gain.scenario.ranks) < len(whole) for r in gain.scenario.ranks),
    )

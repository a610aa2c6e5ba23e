"""Who arrives last in matched collectives, by how much, and whether that is more than chance.

The delay that a rank causes in one collective is what would be saved had it arrived with the second-last: its start
minus the second latest start. Where clocks cannot be compared the arrival is taken from the durations: members of a
synchronising collective end together, so the shortest arrived last.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.tables.run import Run

_ALPHA_STEPS: Final = 0.05
_ALPHA_COLLECTIVES: Final = 0.01
_ALPHA_SURE: Final = 1e-6
_MIN_STEPS: Final = 4
_FEW_STEPS: Final = 8
_DRAWS: Final = 20_000
_MIN_SHARE: Final = 0.4
_STRONG_SHARE: Final = 0.5
_OUTLIER_SHARE: Final = 0.7
_OUTLIER: Final = 3.0
_MIN_WINDOW_SHARE: Final = 0.01
_MIN_COMM_SHARE: Final = 0.05
_MIN_DELAY_NS: Final = 20_000
_SYNCHRONISING: Final = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll", "AllToAllv", "Barrier")


@dataclass(frozen=True)
class Straggler:
    """A rank that is late significantly often. ``p_value`` is corrected for the number of ranks tested."""

    rank: int
    times_last: int
    units: int
    unit: str
    expected_share: float
    p_value: float
    delay_ns: int
    delay_share: float
    window_share: float
    worst_delay_ns: int
    by_clock: bool


@dataclass(frozen=True)
class Arrivals:
    """Arrival statistics of a run.

    ``ranks``: ``rank, collectives, times_last, times_first, delay_ns, worst_delay_ns, mean_wait_ns``, most delay
    first. ``delay_ns`` is what the rank cost the others, ``mean_wait_ns`` what it waited itself.
    ``stragglers`` are the ranks that pass the test; ``wait_share`` is the mean waiting time over the window.
    """

    ranks: pl.DataFrame
    stragglers: tuple[Straggler, ...]
    collectives: int
    by_clock: bool
    window_ns: int
    wait_share: float
    cpu_only: bool


def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """Probability of at least ``successes`` in ``trials`` independent trials."""
    if successes <= 0 or chance >= 1:
        return 1.0
    if chance <= 0:
        return 0.0
    terms = [
        math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        + k * math.log(chance) + (trials - k) * math.log1p(-chance)
        for k in range(successes, trials + 1)
    ]  # fmt: skip
    top = max(terms, default=-math.inf)
    return min(1.0, math.exp(top) * sum(math.exp(t - top) for t in terms)) if terms else 0.0


def arrivals(run: Run) -> Arrivals | None:
    """Arrival statistics over all matched collectives; None when fewer than two ranks were matched."""
    return run.memo("views.straggler.arrivals", _arrivals)


@dataclass(frozen=True)
class LateHost:
    """A host whose ranks together arrive last significantly often; ``test.rank`` is an index of no meaning."""

    host: str
    ranks: tuple[int, ...]
    test: Straggler


def late_hosts(run: Run) -> tuple[LateHost, ...]:
    """Hosts (of two or more ranks, among at least two hosts) that pass the same test as single ranks do.

    A host arrives with its last rank. Empty where a rank's host is unknown.
    """
    return run.memo("views.straggler.late_hosts", _late_hosts)


def _late_hosts(run: Run) -> tuple[LateHost, ...]:
    rows, by_clock = _rows(run)
    clocks = run.table("trace_clocks")
    if rows.is_empty() or "host" not in clocks.columns or clocks["host"].null_count():
        return ()
    hosts = clocks.group_by("host").agg(pl.col("rank").sort()).sort("host").with_row_index("index")
    if hosts.height < 2 or int(hosts.select(pl.col("rank").list.len().min()).item()) < 2:
        return ()
    index = hosts.explode("rank").select("rank", index=pl.col("index").cast(pl.Int32))
    arrived = (
        rows.join(index, on="rank")
        .group_by("match_id", rank="index")
        .agg(pl.col("at").max(), pl.col("step").min(), pl.col("start_ns").min(), pl.col("duration_ns").max())
        .filter(pl.len().over("match_id") > 1)
    )
    if arrived.is_empty():
        return ()
    comm = float(rows.group_by("rank").agg(pl.col("duration_ns").sum())["duration_ns"].mean() or 0)  # type: ignore[arg-type]
    cpu_only = rows["source"].unique().to_list() == ["cpu_op"]
    found = _test(_events(arrived), hosts.height, _window(rows), comm, by_clock, cpu_only)
    names, ranks = hosts["host"].to_list(), hosts["rank"].to_list()
    return tuple(LateHost(names[f.rank], tuple(ranks[f.rank]), f) for f in found)


def _rows(run: Run) -> tuple[pl.DataFrame, bool]:
    """Members of matched synchronising collectives with ``at``, their arrival, and whether a clock gave it."""
    table = run.table("collectives")
    if "match_id" not in table.columns:
        return pl.DataFrame(), False
    rows = table.filter(
        pl.col("match_id").is_not_null() & pl.col("op").cast(pl.String).is_in(_SYNCHRONISING)
    ).select(
        "rank", "match_id", "step", "start_ns", "duration_ns", "skew_ns", source=pl.col("source").cast(pl.String)
    )  # fmt: skip
    by_clock = rows["skew_ns"].null_count() == 0
    longest = pl.col("duration_ns").max().over("match_id")
    return rows.with_columns(at=pl.col("skew_ns") if by_clock else longest - pl.col("duration_ns")), by_clock


def _arrivals(run: Run) -> Arrivals | None:
    rows, by_clock = _rows(run)
    if rows.is_empty():
        return None
    events = _events(rows)
    window = _window(rows)
    waits = rows.with_columns(wait=pl.col("at").max().over("match_id") - pl.col("at"))
    ranks = _rank_table(waits, events)
    comm = float(rows.group_by("rank").agg(pl.col("duration_ns").sum())["duration_ns"].mean() or 0)  # type: ignore[arg-type]
    cpu_only = rows["source"].unique().to_list() == ["cpu_op"]
    found = _test(events, rows["rank"].n_unique(), window, comm, by_clock, cpu_only)
    mean_wait = float(waits.group_by("rank").agg(pl.col("wait").sum())["wait"].mean() or 0)  # type: ignore[arg-type]
    return Arrivals(
        ranks, found, events.height, by_clock, window, mean_wait / window if window else 0.0, cpu_only
    )


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per collective: ``last, first, delay_ns, members, step, start_ns`` in order of time."""
    ordered = rows.sort("match_id", "at", "rank")
    return (
        ordered.group_by("match_id", maintain_order=True)
        .agg(
            last=pl.col("rank").last(),
            first=pl.col("rank").first(),
            delay_ns=pl.col("at").last() - pl.col("at").slice(-2, 1).first(),
            members=pl.len(),
            step=pl.col("step").min(),
            start_ns=pl.col("start_ns").min(),
        )
        .sort("start_ns", "match_id")
    )


def _window(rows: pl.DataFrame) -> int:
    """Longest time between the first start and the last end of a rank."""
    spans = rows.group_by("rank").agg(
        span=(pl.col("start_ns") + pl.col("duration_ns")).max() - pl.col("start_ns").min()
    )
    return int(spans["span"].max() or 0)  # type: ignore[arg-type]


def _rank_table(waits: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    last = events.group_by(rank="last").agg(
        times_last=pl.len(), delay_ns=pl.col("delay_ns").sum(), worst_delay_ns=pl.col("delay_ns").max()
    )
    first = events.group_by(rank="first").agg(times_first=pl.len())
    counts = waits.group_by("rank").agg(collectives=pl.len(), mean_wait_ns=pl.col("wait").mean())
    return (
        counts.join(last, on="rank", how="left")
        .join(first, on="rank", how="left")
        .with_columns(pl.col("times_last", "times_first", "delay_ns", "worst_delay_ns").fill_null(0))
        .sort(["delay_ns", "rank"], descending=[True, False])
    )


def _test(
    events: pl.DataFrame, n: int, window: int, comm: float, by_clock: bool, on_cpu: bool
) -> tuple[Straggler, ...]:
    total = int(events["delay_ns"].sum())
    if not total or not window:
        return ()
    steps = events["step"].drop_nulls().n_unique()
    by_step = steps >= _MIN_STEPS
    units = _step_tops(events) if by_step else events
    limit = _OUTLIER * max(float(units["delay_ns"].median() or 0), _MIN_DELAY_NS)  # type: ignore[arg-type]
    outliers = units.filter(pl.col("delay_ns") > limit)
    found: list[Straggler] = []
    sums = events.group_by("last").agg(pl.col("delay_ns").sum(), worst=pl.col("delay_ns").max())
    for rank, delay, worst in sums.sort("delay_ns", descending=True).iter_rows():
        if (delay < _MIN_WINDOW_SHARE * window and delay < _MIN_COMM_SHARE * comm) or worst < _MIN_DELAY_NS:
            continue
        once = events.filter(pl.col("last") != rank)["delay_ns"].max()
        shares = delay / total, delay / (total - int(once or 0))  # type: ignore[arg-type]
        verdict = _verdict(events, units, outliers, rank, shares, n, by_step, on_cpu)
        if verdict is None:
            continue
        times, trials, p_value, chance, unit = verdict
        found.append(
            Straggler(rank, times, trials, unit, chance, p_value, int(delay), delay / total, delay / window, int(worst),
                      by_clock)
        )  # fmt: skip
    return tuple(found)


def _step_tops(events: pl.DataFrame) -> pl.DataFrame:
    """Per step the rank that delayed most: collectives of one step are not independent of each other."""
    sums = events.filter(pl.col("step").is_not_null()).group_by("step", "last").agg(pl.col("delay_ns").sum())
    members = events.group_by("step").agg(pl.col("members").max())
    return (
        sums.sort(["step", "delay_ns", "last"], descending=[False, True, False])
        .unique("step", keep="first", maintain_order=True)
        .join(members, on="step")
    )


def _verdict(
    events: pl.DataFrame, units: pl.DataFrame, outliers: pl.DataFrame, rank: int, shares: tuple[float, float], n: int,
    by_step: bool, on_cpu: bool,
) -> tuple[int, int, float, float, str] | None:  # fmt: skip
    """(times last, trials, corrected p, chance, unit) of the first test that the rank passes.

    ``shares`` of all delay: as it is, and without the longest single delay by another rank. The second decides where
    chance is out of the question: a profiler that starts late on one rank can exceed all other delays together.
    Successive collectives of CPU processes are not independent (the scheduler favours one for a while), so single
    ones are counted against the strict level.
    """
    unit = "steps" if by_step else "collectives"
    alpha = _ALPHA_STEPS if by_step else _ALPHA_SURE if on_cpu else _ALPHA_COLLECTIVES
    share, without_longest = shares
    times, chance = _tally(units, rank)
    p_value = min(1.0, n * binomial_tail(times, units.height, chance))
    sure = p_value <= _ALPHA_SURE and without_longest >= _MIN_SHARE
    if sure or (p_value <= alpha and share >= _MIN_SHARE):
        return times, units.height, p_value, chance, unit
    if by_step and units.height < _FEW_STEPS and share >= _STRONG_SHARE:
        p_value = min(1.0, n * _chance_of_delay(events, rank))
        if p_value <= _ALPHA_STEPS:
            return times, units.height, p_value, chance, unit
    times, chance = _tally(outliers, rank)
    if outliers.height >= 3 and times >= _OUTLIER_SHARE * outliers.height:
        p_value = min(1.0, n * binomial_tail(times, outliers.height, chance))
        if p_value <= _ALPHA_COLLECTIVES:
            return times, outliers.height, p_value, chance, f"outlying {unit}"
    return None


def _chance_of_delay(events: pl.DataFrame, rank: int) -> float:
    """Probability that one rank drawn anew in each step has caused as much delay in sum as this rank did.

    For few steps this says more than counting them, because it weighs how long the delays were. Exact up to
    ``_DRAWS`` combinations, drawn with a fixed seed beyond.
    """
    sums = events.filter(pl.col("step").is_not_null()).group_by("step", "last").agg(pl.col("delay_ns").sum())
    sizes = dict(events.group_by("step").agg(pl.col("members").max()).iter_rows())
    observed = int(sums.filter(pl.col("last") == rank)["delay_ns"].sum())
    steps: list[list[int]] = []
    for (step,), part in sums.group_by("step", maintain_order=True):
        delays = part["delay_ns"].to_list()
        steps.append(delays + [0] * max(0, sizes[step] - len(delays)))
    total = math.prod(len(step) for step in steps)
    if total <= _DRAWS:
        return sum(sum(drawn) >= observed for drawn in itertools.product(*steps)) / total
    draw = random.Random(0)
    hits = sum(sum(draw.choice(step) for step in steps) >= observed for _ in range(_DRAWS))
    return (hits + 1) / (_DRAWS + 1)


def _tally(units: pl.DataFrame, rank: int) -> tuple[int, float]:
    """How often the rank is the last, and how often any one member would be by chance."""
    if units.is_empty():
        return 0, 1.0
    chance = units.select((1.0 / pl.col("members")).mean()).item()
    return int((units["last"] == rank).sum()), float(chance)

"""Delays of matched collectives, and what is said about ranks that cause them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

ALPHA_COLLECTIVES: Final = 0.01
MIN_STEPS: Final = 4
MIN_SHARE: Final = 0.4
OUTLIER_SHARE: Final = 0.7
OUTLIER: Final = 3.0
MIN_WINDOW_SHARE: Final = 0.01
MIN_COMM_SHARE: Final = 0.05
PIPELINE_SHARE: Final = 0.05
"""Stages of a pipeline do different work, as experts do that get unequal numbers of tokens: small differences say
nothing."""
MIN_DELAY_NS: Final = 20_000


@dataclass(frozen=True)
class Straggler:
    """Ranks that are late significantly often: mostly one. ``p_value`` is corrected for the number of ranks tested.

    ``group`` and ``group_ranks`` name the process group in which they cost most; ``groups`` is how many show it.
    ``steps``, of ``of_steps``, are those in which the rank is late, where it is not late in all.
    """

    ranks: tuple[int, ...]
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
    group: str | None = None
    group_ranks: tuple[int, ...] = ()
    groups: int = 1
    inherited_ns: int = 0
    steps: tuple[int, ...] = ()
    of_steps: int = 0

    @property
    def rank(self) -> int:
        """The first of the ranks."""
        return self.ranks[0]


@dataclass(frozen=True)
class Once:
    """A rank that was late in one or two steps, which make up most of the delay in its group."""

    rank: int
    steps: tuple[int, ...]
    at_ns: tuple[int, ...]
    delay_ns: int
    delay_share: float
    window_share: float
    usual_ns: int
    first: bool
    group: str | None
    group_ranks: tuple[int, ...]


@dataclass(frozen=True)
class Scale:
    """What delays are compared with: the recorded time, the communication of a rank, the number of ranks tested."""

    window: int
    comm: float
    ranks: int
    by_clock: bool
    on_cpu: bool
    pipeline: bool = False
    """Whether those compared do unequal work: stages of a pipeline, experts with unequal tokens."""


def events_of(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per collective: ``last, first, delay_ns, members, step, start_ns`` in order of time."""
    ordered = rows.sort("match_id", "own_ns", "rank")
    others = pl.col("limit_ns").slice(0, pl.len() - 1).max()
    return (
        ordered.group_by("match_id", maintain_order=True)
        .agg(
            last=pl.col("rank").last(),
            first=pl.col("rank").first(),
            delay_ns=pl.max_horizontal(pl.col("own_ns").last() - others, 0),
            members=pl.len(),
            step=pl.col("step").min(),
            start_ns=pl.col("start_ns").min(),
            since=pl.col("since").first(),
        )
        .sort("start_ns", "match_id")
        .with_columns(delay_ns=growth(pl.col("delay_ns"), ["since", "last"]))
    )


def within_exposed(events: pl.DataFrame, exposed: pl.DataFrame) -> pl.DataFrame:
    """The events with delays by a rank that sum to no more than ``exposed`` (``step, last, exposed_ns``) in each step.

    That is the least communication of the step that another member could not hide. Collectives behind each other in a
    stream show one lateness again and again while the others compute, which costs nothing.
    """
    if exposed.is_empty() or events["step"].null_count():
        return events
    return (
        events.join(exposed, on=["step", "last"], how="left", maintain_order="left")
        .with_columns(whole=pl.col("delay_ns").sum().over("step", "last"))
        .with_columns(
            delay_ns=pl.when(pl.col("exposed_ns") < pl.col("whole"))
            .then((pl.col("delay_ns") * (pl.col("exposed_ns") / pl.col("whole"))).round().cast(pl.Int64))
            .otherwise("delay_ns")
        )
        .drop("whole", "exposed_ns")
    )


def growth(delay: pl.Expr, by: list[str]) -> pl.Expr:
    """Arrivals that count from the same moment show one lateness again and again: only its growth counts."""
    return pl.max_horizontal(delay - delay.cum_max().shift(1).over(by).fill_null(0), 0)


def material(delay: int, worst: int, scale: Scale) -> bool:
    """Whether a delay is worth a word at all."""
    if worst < MIN_DELAY_NS:
        return False
    if scale.pipeline:
        return delay >= PIPELINE_SHARE * scale.window or delay >= MIN_SHARE * scale.comm
    return delay >= MIN_WINDOW_SHARE * scale.window or delay >= MIN_COMM_SHARE * scale.comm


def step_tops(events: pl.DataFrame) -> pl.DataFrame:
    """Per step the rank that delayed most: collectives of one step are not independent of each other.

    ``step, last`` (the rank), ``delay_ns`` (its sum over the step), ``members`` (of the largest group).
    """
    sums = events.filter(pl.col("step").is_not_null()).group_by("step", "last").agg(pl.col("delay_ns").sum())
    members = events.group_by("step").agg(pl.col("members").max())
    return (
        sums.sort(["step", "delay_ns", "last"], descending=[False, True, False])
        .unique("step", keep="first", maintain_order=True)
        .join(members, on="step")
    )

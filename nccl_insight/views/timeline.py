"""The collectives of each rank over time, and the times without any."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED

_SLICES = 1200
_RANKS = 32
_GPUS = 4


@dataclass(frozen=True)
class Slice:
    """A collective of a rank (of a GPU where no rank is known); ``at_ns``: since the first that is shown."""

    rank: int
    op: str
    at_ns: int
    duration_ns: int
    exposed_ns: int
    size_bytes: int | None


@dataclass(frozen=True)
class Communication:
    """Sums of a rank over the part of the trace that is shown."""

    rank: int
    collectives: int
    comm_ns: int
    exposed_ns: int
    longest_ns: int


@dataclass(frozen=True)
class Timeline:
    """Of ``collectives`` the first of the ranks ``shown``, of the middle step where there are steps.

    ``ranks``: sums of those with a collective in it; ``comm_ns, exposed_ns``: of all together. ``exposed_known``: the
    trace tells what no computation covers.
    """

    by_device: bool
    step: int | None
    collectives: int
    shown: tuple[int, ...]
    slices: tuple[Slice, ...]
    ranks: tuple[Communication, ...]
    comm_ns: int
    exposed_ns: int
    exposed_known: bool


@dataclass(frozen=True)
class Gap:
    """A time without a collective on a GPU; ``at_ns``: since the trace's first one."""

    device: int
    at_ns: int
    duration_ns: int
    after: str
    before: str


@dataclass(frozen=True)
class Idle:
    """The idle part of a GPU's whole time."""

    device: int
    idle_ns: int
    whole_ns: int


@dataclass(frozen=True)
class Gaps:
    """Times between collectives; of ``total`` the longest."""

    total: int
    median_ns: float
    longest: tuple[Gap, ...]
    idle: tuple[Idle, ...]


def timeline(run: Run) -> Timeline | None:
    """The timeline of a trace, None where no collective has a time and a place."""
    table = _timed(run)
    by_device = table["rank"].null_count() == table.height
    by = "device" if by_device else "rank"
    table = table.drop_nulls(by).with_columns(pl.col(by).alias("rank"))
    if table.is_empty():
        return None
    every = table.height
    ranks = sorted(set(table["rank"]))[:_RANKS]
    table = table.filter(pl.col("rank").is_in(ranks))
    step = None
    if table["step"].drop_nulls().n_unique() > 1:
        known = sorted(table["step"].drop_nulls().unique())
        step = known[len(known) // 2]
        table = table.filter(pl.col("step") == step)
    shown = table.sort("start_ns", "rank").head(_SLICES)
    slices = shown.select(
        "rank",
        pl.col("op").cast(pl.String).fill_null("Other"),
        pl.col("start_ns") - pl.col("start_ns").min(),
        "duration_ns",
        pl.col("exposed_ns").fill_null(0).clip(0),
        "size_bytes",
    )
    totals = (
        table.group_by("rank")
        .agg(
            pl.len().alias("n"),
            pl.col("duration_ns").sum().alias("comm"),
            pl.col("exposed_ns").sum(),
            longest=pl.col("duration_ns").max(),
        )
        .sort("rank")
    )
    return Timeline(
        by_device=by_device,
        step=step,
        collectives=every,
        shown=tuple(ranks),
        slices=tuple(Slice(*row) for row in slices.iter_rows()),
        ranks=tuple(Communication(*row) for row in totals.iter_rows()),
        comm_ns=int(totals["comm"].sum()),
        exposed_ns=int(totals["exposed_ns"].sum()),
        exposed_known=table["exposed_ns"].drop_nulls().len() > 0,
    )


def gaps(run: Run) -> Gaps | None:
    """Times between the collectives of each GPU of a trace without ranks, None where there are none."""
    table = _timed(run)
    if table.is_empty() or table["rank"].null_count() < table.height:
        return None
    ends = (
        table.drop_nulls("device")
        .sort("device", "start_ns")
        .with_columns(
            end=(pl.col("start_ns") + pl.col("duration_ns")).cum_max().shift(1).over("device"),
            after=pl.col("op").cast(pl.String).shift(1).over("device"),
        )
    )
    between = ends.with_columns(gap=pl.col("start_ns") - pl.col("end")).filter(pl.col("gap") > 0)
    if between.is_empty():
        return None
    longest = between.sort("gap", "device", descending=[True, False]).head(LISTED)
    origin = int(str(table["start_ns"].min()))
    steps = run.table("steps").drop_nulls("device").head(_GPUS).select("device", "idle_ns", "duration_ns")
    return Gaps(
        total=between.height,
        median_ns=float(str(between["gap"].median())),
        longest=tuple(
            Gap(device, end - origin, gap, str(after), str(op))
            for device, end, gap, after, op in longest.select(
                "device", "end", "gap", "after", pl.col("op").cast(pl.String)
            ).iter_rows()
        ),
        idle=tuple(Idle(*row) for row in steps.iter_rows() if row[2] and row[1] is not None),
    )


def _timed(run: Run) -> pl.DataFrame:
    return run.table("collectives").filter(pl.col("start_ns").is_not_null() & (pl.col("duration_ns") > 0))

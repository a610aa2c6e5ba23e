"""The steps of the job as its program prints them: how long each took, when they changed, and when they stopped."""

import itertools
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
from nccl_insight.facts.lateness.steps import slower_from
from nccl_insight.facts.said.clock import with_time
from nccl_insight.facts.said.course import course
from nccl_insight.facts.said.errors import causes
from nccl_insight.tables.run import Run, fact

_LEAST: Final = 12
# A pause that shows in every n-th step: so many times, so much longer, and at most this share of all.
_TIMES: Final = 4
_LONGER: Final = 1.5
_SHARE: Final = 1 / 3
_REGULAR: Final = 0.8
# Each quarter of a run that becomes slower little by little is slower than the one before.
_RISES: Final = 1.05
# Silence after the last step: so many usual intervals, and so many seconds; more where a pause was announced.
_STEPS: Final = 5
_INTERVALS: Final = 10.0
_QUIET_S: Final = 120.0
_PAUSE_S: Final = 1800.0


@dataclass(frozen=True)
class Series:
    """One process's counter since it last began, in reading order.

    ``cost``: time of one step in seconds where ``timed``, else the inverse of the rate that is printed. ``rows``:
    ``line, counter, time_s, cost, pause`` (what came between the row before and this one).
    """

    input_id: int
    rank: int | None
    unit: str
    timed: bool
    total: int | None
    rows: pl.DataFrame

    def at(self, n: int) -> str:
        """``step 120``; of an epoch with its fraction."""
        return f"{'step' if self.unit == 'it' else self.unit} {self.rows['counter'][n]:,g}"

    def ref(self, n: int) -> Ref:
        """The line of a row."""
        return Ref(self.input_id, int(self.rows["line"][n]))


@dataclass(frozen=True)
class Shift:
    """A series that is slower from row ``row`` on; ``gradual``: it became so little by little."""

    series: Series
    row: int
    before: float
    after: float
    gradual: bool


@dataclass(frozen=True)
class Periodic:
    """Every ``every``-th count of a series takes ``slow`` instead of ``usual`` (``cost``), ``share`` of all its time.

    ``pause``: what the program says that it does there; empty where it does not say.
    """

    series: Series
    every: int
    slow: float
    usual: float
    share: float
    rows: tuple[int, ...]
    pause: str


@dataclass(frozen=True)
class Stalled:
    """Steps came every ``usual_s`` and then none for ``quiet_s``, although the log goes on; None: nothing goes on.

    ``pause``: what the program says that it began after the last step.
    """

    series: Series
    usual_s: float
    quiet_s: float | None
    pause: str


@fact
def longest(run: Run) -> Series | None:
    """The counter of the program with most counts; None where nothing was counted twice."""
    return max(_series(run), key=lambda s: s.rows.height, default=None)


def _series(run: Run) -> Iterator[Series]:
    if not run.has("progress"):
        return
    table = with_time(run, run.table("progress").sort("input_id", "line"), "timestamp")
    pauses = table.filter(pl.col("pause").is_not_null()).select("input_id", "pause", _met="line", line="line")
    counted = table.filter(pl.col("counter").is_not_null() & pl.col("pause").is_null())
    per_rate = 1 / pl.col("rate").replace(0.0, None)
    passed = pl.col("time_s").diff() / pl.col("counter").diff()
    for rows in counted.partition_by("input_id", "rank", "series", "unit", "total", maintain_order=True):
        begun = (rows["counter"].diff().fill_null(0) < 0).cum_sum()
        rows = rows.filter(begun == begun[-1]).unique("counter", keep="first", maintain_order=True)
        if rows.height < 2:
            continue
        first = rows.row(0, named=True)
        bar = first["unit"] == "it"
        said = next((c for c in ("duration_s", "rate") if rows[c].null_count() * 4 < rows.height), None)
        # A bar prints seconds per step or steps per second, whichever is above one.
        costs = {"duration_s": pl.col("duration_s"), "rate": per_rate, None: passed}
        cost = pl.coalesce("duration_s", per_rate) if bar else costs[said]
        rows = rows.with_columns(cost=cost, _last=pl.col("line").shift(1).fill_null(0)).drop("pause")
        own = pauses.filter(pl.col("input_id") == first["input_id"]).drop("input_id")
        rows = rows.join_asof(own, on="line", strategy="backward")
        rows = rows.with_columns(pause=pl.when(pl.col("_met") > pl.col("_last")).then("pause"))
        yield Series(
            int(first["input_id"]),
            first["rank"],
            str(first["unit"]),
            bar or said != "rate",
            first["total"],
            rows.select("line", "counter", "time_s", "cost", "pause"),
        )


def _costs(one: Series, warm: int) -> pl.DataFrame:
    """The rows of known cost, numbered, behind the first ``warm`` in which programs warm up."""
    rows = one.rows.with_row_index("n").filter(pl.col("cost").is_finite() & (pl.col("cost") > 0))
    return rows.slice(max(warm, rows.height // 20))


def shift(run: Run, least_ratio: float) -> Shift | None:
    """From when on the steps of the longest series stay slower; None where they do not, or too few are counted."""
    one = longest(run)
    if one is None:
        return None
    rows = _costs(one, 2).filter(pl.col("pause").is_null())
    costs: list[float] = rows["cost"].to_list()
    cut = slower_from(costs, least_ratio) if len(costs) >= _LEAST else None
    if cut is None:
        return None
    parts = [costs[n * len(costs) // 4 : (n + 1) * len(costs) // 4] for n in range(4)]
    quarters = [statistics.median(part) for part in parts]
    gradual = all(b > _RISES * a for a, b in itertools.pairwise(quarters))
    before = quarters[0] if gradual else statistics.median(costs[:cut])
    after = quarters[-1] if gradual else statistics.median(costs[cut:])
    return Shift(one, int(rows["n"][cut]), before, after, gradual)


def periodic(run: Run) -> Periodic | None:
    """Steps that stand out in equal intervals, in the longest series; None where there are none."""
    one = longest(run)
    rows = _costs(one, 2) if one is not None else pl.DataFrame()
    if one is None or rows.height < _LEAST:
        return None
    usual = statistics.median(rows["cost"].to_list())
    slow = rows.filter(pl.col("cost") > _LONGER * usual)
    if not _TIMES <= slow.height <= _SHARE * rows.height:
        return None
    gaps = slow["counter"].diff().drop_nulls().to_list()
    every, times = Counter(gaps).most_common(1)[0]
    if times < _REGULAR * len(gaps) or every <= statistics.median(rows["counter"].diff().drop_nulls().to_list()):
        return None
    pause, met = next(iter(Counter(slow["pause"].drop_nulls().to_list()).most_common(1)), ("", 0))
    costs: list[float] = slow["cost"].to_list()
    return Periodic(
        one,
        int(every),
        statistics.median(costs),
        usual,
        sum(cost - usual for cost in costs) / sum(rows["cost"].to_list()),
        tuple(slow["n"].to_list()),
        str(pause) if met * 2 >= slow.height else "",
    )


def stalled(run: Run, hung: bool) -> Stalled | None:
    """Whether steps stopped while the log, or the user who saw a hang (``hung``), goes on; None where they did not."""
    one, job = longest(run), course(run)
    if one is None or one.rows.height < _STEPS or job.completed:
        return None
    last = one.rows.row(-1, named=True)
    gaps = one.rows["time_s"].diff().drop_nulls().to_list() or (
        one.rows["cost"].drop_nulls().to_list() if one.timed else []
    )
    if not gaps or (one.total is not None and last["counter"] >= one.total):
        return None
    usual = statistics.median(gaps)
    rows = run.table("progress").filter(pl.col("input_id") == one.input_id)
    later = rows.filter((pl.col("line") > last["line"]) & pl.col("pause").is_not_null())["pause"]
    pause = str(later[-1]) if later.len() else ""
    # Lines before the last step that bear a later time have another clock.
    after = pl.col("input_id").is_in(list(job.inputs)) & (
        (pl.col("input_id") != one.input_id) | (pl.col("line") > last["line"])
    )
    told = causes(run).filter(after)["time_s"].drop_nulls().to_list()
    ended, at = max([*told, job.ended_s], key=lambda t: t or 0.0), last["time_s"]
    quiet = ended - at if ended is not None and at is not None else None
    if quiet is not None and quiet >= max(_INTERVALS * usual, _PAUSE_S if pause else _QUIET_S):
        return Stalled(one, usual, quiet, pause)
    return Stalled(one, usual, None, pause) if hung else None

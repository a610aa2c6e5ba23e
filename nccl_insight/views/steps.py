"""Where the time of steps goes."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.words import words
from nccl_insight.tables.run import Run

_SHOWN = 64
_MEANS = words("""duration_ns compute_ns comm_ns exposed_comm_ns memcpy_ns exposed_copy_ns other_comm_ns idle_ns
    idle_host_ns idle_kernel_ns queue_mean""")


@dataclass(frozen=True)
class Means:
    """The mean step of a rank (of a GPU where no rank is known), by column of the table ``steps``."""

    rank: int | None
    steps: int
    means: Mapping[str, float | None]


@dataclass(frozen=True)
class Steps:
    """The mean step of each rank or, ``by_device``, GPU; of ``total`` some; ``means``: over all of them."""

    by_device: bool
    ranks: tuple[Means, ...]
    total: int
    means: Mapping[str, float | None]


@dataclass(frozen=True)
class Spent:
    """The mean step of every rank, how the traces tell steps, and GPU time that belongs to none.

    ``sources``: values of ``trace_info.step_source``. ``stepped``: there are steps, not only whole traces.
    """

    ranks: tuple[Means, ...]
    stepped: bool
    sources: tuple[str, ...]
    outside_ns: int
    traces_outside: int


def steps(run: Run) -> Steps | None:
    """The mean steps, None where nothing of a step's time is known."""
    rows = run.table("steps")
    by_device = rows["rank"].null_count() == rows.height
    table = _means(rows.drop_nulls("device" if by_device else "rank"), "device" if by_device else "rank")
    if table.is_empty() or table["duration_ns"].is_null().all():
        return None
    shown = table.head(_SHOWN)
    if shown["compute_ns"].null_count() == shown.height and shown["comm_ns"].null_count() == shown.height:
        return None  # a trace of the CPU only: nothing to take apart
    whole = table.select(pl.col(_MEANS).mean()).row(0, named=True)
    return Steps(by_device, _listed(shown), table.height, whole)


def spent(run: Run) -> Spent | None:
    """What the steps of each rank spend their time on, None without steps on a GPU."""
    rows = run.table("steps").filter(pl.col("duration_ns") > 0)
    if rows.is_empty() or rows["compute_ns"].null_count() == rows.height:
        return None
    info = run.table("trace_info")
    outside = info.filter(pl.col("outside_steps_ns") > 0)
    return Spent(
        ranks=_listed(_means(rows, "rank")),
        stepped=rows["step"].null_count() < rows.height,
        sources=tuple(info["step_source"].drop_nulls().unique().sort().to_list()),
        outside_ns=int(outside["outside_steps_ns"].sum()),
        traces_outside=outside.height,
    )


def _means(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    grouped = rows.group_by(pl.col(by).alias("who"))
    return grouped.agg(pl.len().alias("n"), pl.col(_MEANS).mean()).sort("who", nulls_last=True)


def _listed(table: pl.DataFrame) -> tuple[Means, ...]:
    return tuple(Means(row["who"], row["n"], {c: row[c] for c in _MEANS}) for row in table.iter_rows(named=True))

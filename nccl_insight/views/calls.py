"""What the job called: collectives by operation and message size."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.views.listed import LISTED

SMALL_BYTES = 64 * 1024


@dataclass(frozen=True)
class CallSize:
    """Calls of one operation with one size."""

    op: str
    size_bytes: int
    calls: int


@dataclass(frozen=True)
class Operation:
    """An operation and its calls by the power of two below their size."""

    op: str
    calls: int
    by_power: Mapping[int, int]


@dataclass(frozen=True)
class Calls:
    """All calls, from the log, else from a trace.

    ``small``: calls below 64 KiB. ``operations`` and ``sizes``: the most frequent first; of ``n_sizes`` the first ones.
    """

    calls: int
    small: int
    powers: tuple[int, int]
    operations: tuple[Operation, ...]
    sizes: tuple[CallSize, ...]
    n_sizes: int


def calls(run: Run) -> Calls | None:
    """The calls of a run, None where no size of a call is known."""
    table = _sizes(run)
    if table.is_empty():
        return None
    power = (pl.col("size_bytes").cast(pl.Float64).clip(1).log(2) + 1e-9).floor().cast(pl.Int64)
    grouped = table.group_by("op", power.alias("power")).agg(pl.col("calls").sum()).sort("op", "power")
    totals = table.group_by("op").agg(pl.col("calls").sum()).sort("calls", "op", descending=[True, False])
    return Calls(
        calls=int(table["calls"].sum()),
        small=int(table.filter(pl.col("size_bytes") < SMALL_BYTES)["calls"].sum()),
        powers=(int(str(grouped["power"].min())), int(str(grouped["power"].max()))),
        operations=tuple(
            Operation(op, count, dict(grouped.filter(pl.col("op") == op).select("power", "calls").iter_rows()))
            for op, count in totals.iter_rows()
        ),
        sizes=tuple(CallSize(*row) for row in table.head(LISTED).iter_rows()),
        n_sizes=table.height,
    )


def _sizes(run: Run) -> pl.DataFrame:
    # A row of collectives may stand for several calls.
    kind = ["op", "size_bytes"]
    frames, weight = (
        (run.pieces("calls", *kind), pl.len())
        if run.has("calls")
        else (run.pieces("collectives"), pl.col("calls").fill_null(1).sum())
    )
    parts = [
        frame.drop_nulls(kind).group_by(pl.col("op").cast(pl.String), "size_bytes").agg(calls=weight.cast(pl.Int64))
        for frame in frames
    ]
    whole = pl.concat(parts).group_by(kind).agg(pl.col("calls").sum())
    return whole.sort("calls", "op", "size_bytes", descending=[True, False, False])

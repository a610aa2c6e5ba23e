"""The mix of collectives of a job: operations, types, sizes, groups, and how much of each."""

from typing import Final

import polars as pl

from nccl_insight.base.bandwidth import PER_RANK, dtype_size_expr
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import NotJudgedError
from nccl_insight.share.replay.groups import Shape, shapes
from nccl_insight.tables.run import Run

_ROOTED: Final = frozenset({"Broadcast", "Reduce", "Gather", "Scatter"})
_SOURCES: Final = ("kernel", "inspector", "cpu_op", "flight_recorder")
_KEY: Final = ("group", "op", "dtype", "red_op", "size_bytes")
_RANK: Final = ("group", "name", "host", "pid", "rank", "op", "dtype", "red_op", "size_bytes")
_NOT_TRACED: Final = {"red_op": pl.String, "host": pl.String, "pid": pl.Int64, "root": pl.Int32}


@dataclass(frozen=True)
class Pattern:
    """One kind of collective: what it is, how often, how much.

    ``size_bytes`` is the size as nccl-tests counts it (whole buffer of AllGather, ReduceScatter, AllToAll), the
    commonest one of its bucket ``[low_bytes, high_bytes]``. ``calls`` counts collectives, not ranks. ``root`` is the
    commonest root of operations that have one.
    """

    op: str
    dtype: str | None
    red_op: str | None
    shape: Shape
    size_bytes: int
    low_bytes: int
    high_bytes: int
    calls: int
    total_bytes: int
    share_calls: float
    share_bytes: float
    root: int | None = None


@dataclass(frozen=True)
class Mix:
    """All patterns of a job, the most bytes first, and what could not be taken over."""

    patterns: tuple[Pattern, ...]
    source: str
    calls: int
    nranks: int | None
    ranks_seen: int
    left_out: tuple[str, ...]


def mix_of(run: Run, source: str = "auto") -> Mix:
    """The mix, from the calls of a log or the collectives of a trace.

    Args:
        run: the run.
        source: ``log``, ``trace`` or ``auto`` (the log where it has calls).

    Raises:
        NotJudgedError: the run has no such rows; the message says how to get them.
    """
    if source in {"auto", "log"} and run.has("calls"):
        frame, taken = _from_calls(run), "calls in the log"
    elif source in {"auto", "trace"} and run.has("collectives"):
        frame, taken = _from_collectives(run)
    else:
        frame, taken = pl.DataFrame(), ""
    if frame.is_empty():
        raise NotJudgedError(
            "replay: no collective calls in the input; record them with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL,"
            " or give profiler traces of the job"
        )
    return _mix(run, frame, taken)


def _from_calls(run: Run) -> pl.DataFrame:
    """``group, rank, op, dtype, red_op, size_bytes, n`` (calls of that rank)."""
    element = dtype_size_expr(pl.col("dtype"))
    whole = (
        pl.when(pl.col("op").cast(pl.String).is_in(list(PER_RANK))).then(pl.col("nranks").cast(pl.UInt64)).otherwise(1)
    )
    own = (
        run.lazy("calls")
        .filter(pl.col("op").is_not_null() & (pl.col("op") != "Recv"))
        .with_columns(
            pl.col("op").cast(pl.String),
            size_bytes=pl.coalesce(pl.col("count") * element * whole, "size_bytes"),
            name=pl.coalesce("comm_id", "comm", pl.lit("?")),
            to=pl.coalesce("peer", "root"),
        )
        .with_columns(
            red_op=pl.when(pl.col("op") != "Send").then("red_op"),
            group=pl.format("{}/{}", "name", pl.col("nranks").fill_null(0)),
        )
        .group_by(*_RANK, maintain_order=True)
        .agg(pl.col("nranks").max(), _commonest("root"), n=pl.len(), peers=pl.col("to").n_unique())
        .collect()
    )
    # Sends to every other rank are an all-to-all, other sends a neighbour exchange.
    send = pl.col("op") == "Send"
    everyone = send & (pl.col("nranks") > 2) & (pl.col("peers") >= pl.col("nranks") - 1)
    rounds = (pl.col("n") // pl.col("peers").clip(1)).clip(1)
    return own.with_columns(
        n=pl.when(everyone).then(rounds).otherwise("n").cast(pl.UInt32),
        size_bytes=pl.when(everyone)
        .then(pl.col("size_bytes") * pl.col("nranks").cast(pl.UInt64))
        .otherwise("size_bytes"),
        op=pl.when(everyone).then(pl.lit("AllToAll")).when(send).then(pl.lit("SendRecv")).otherwise("op"),
    )


def _commonest(name: str) -> pl.Expr:
    return pl.col(name).drop_nulls().mode().sort().first().alias(name)


def _from_collectives(run: Run) -> tuple[pl.DataFrame, str]:
    frame = run.table("collectives").filter(pl.col("op").is_not_null())
    present = frame.get_column("source").cast(pl.String).unique().to_list()
    chosen = next((s for s in _SOURCES if s in present), None)
    if chosen is None:
        return pl.DataFrame(), ""
    size = pl.coalesce("group_size", pl.col("group_ranks").list.len().cast(pl.Int32))
    rows = (
        frame.filter((pl.col("source").cast(pl.String) == chosen) & (pl.col("op").cast(pl.String) != "Recv"))
        .with_columns(
            pl.col("op").cast(pl.String).replace("Send", "SendRecv"),
            pl.col("process_group").fill_null("?").alias("name"),
            pl.col("process_group").fill_null("?").alias("group"),
            *(pl.lit(None, kind).alias(name) for name, kind in _NOT_TRACED.items()),
            nranks=size,
        )
        .group_by(*_RANK, maintain_order=True)
        .agg(pl.col("nranks").max(), pl.col("root").first(), n=pl.len())
    )
    return rows, f"collectives in the traces ({chosen.replace('_', ' ')})"


def _mix(run: Run, frame: pl.DataFrame, taken: str) -> Mix:
    known = frame.filter(pl.col("size_bytes").is_not_null() & (pl.col("op") != "Other") & (pl.col("n") > 0))
    left_out = []
    unsized = int(frame.filter(pl.col("size_bytes").is_null())["n"].sum())
    if unsized:
        left_out.append(f"{unsized:,} calls without a size (traces need record_param_comms, logs need the count)")
    other = int(frame.filter(pl.col("op") == "Other")["n"].sum())
    if other:
        left_out.append(f"{other:,} calls of operations that nccl-tests does not have")
    groups = shapes(run, known)
    # A collective is one line on every rank: the most any rank of the group saw is how often it happened.
    happened = (
        known.group_by(*_KEY, "rank", maintain_order=True)
        .agg(pl.col("n").sum(), pl.col("root").first())
        .group_by(*_KEY, maintain_order=True)
        .agg(pl.col("n").max(), _commonest("root"))
    )
    size, index = pl.col("size_bytes"), {group: number for group, (number, _) in groups.items()}
    happened = happened.with_columns(
        shape=pl.col("group").replace_strict(index, default=None, return_dtype=pl.Int32),
        bucket=pl.when(size > 0).then(size.cast(pl.Float64).log(2).floor().cast(pl.Int32)).otherwise(-1),
        total_bytes=pl.col("n").cast(pl.UInt64) * size,
    )
    found = (
        happened.sort("total_bytes", "size_bytes", descending=True)
        .group_by("shape", "op", "dtype", "red_op", "bucket", maintain_order=True)
        .agg(
            size.first(),
            pl.col("total_bytes").sum(),
            pl.col("root").drop_nulls().first(),
            low_bytes=size.min(),
            high_bytes=size.max(),
            calls=pl.col("n").sum(),
        )
        .sort(["total_bytes", "calls", "op", "size_bytes", "shape"], descending=[True, True, False, True, False])
        .drop("bucket")
    )
    calls, volume = int(found["calls"].sum()), int(found["total_bytes"].sum())
    by_index = dict(groups.values())
    patterns = tuple(
        Pattern(
            **{
                **row,
                "shape": by_index[row["shape"]],
                "red_op": row["red_op"] if row["op"] in {"AllReduce", "Reduce", "ReduceScatter"} else None,
                "root": row["root"] if row["op"] in _ROOTED else None,
                "share_calls": row["calls"] / calls if calls else 0.0,
                "share_bytes": row["total_bytes"] / volume if volume else 0.0,
            }
        )
        for row in found.iter_rows(named=True)
    )
    sizes = [shape.nranks for shape in by_index.values()]
    world = run.table("communicators").get_column("nranks").max()
    return Mix(
        patterns=patterns,
        source=taken,
        calls=calls,
        nranks=max([*sizes, int(str(world)) if world is not None else 0], default=None) or None,
        ranks_seen=frame.select("host", "pid", "rank").n_unique(),
        left_out=tuple(left_out),
    )

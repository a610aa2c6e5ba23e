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
            pl.coalesce(pl.col("count") * element * whole, pl.col("size_bytes")).alias("size_bytes"),
            pl.col("comm_id").fill_null(pl.col("comm")).fill_null("?").alias("name"),
            pl.coalesce("peer", "root").alias("to"),
        )
        .with_columns(pl.when(pl.col("op") == "Send").then(None).otherwise(pl.col("red_op")).alias("red_op"))
        .with_columns(pl.format("{}/{}", "name", pl.col("nranks").fill_null(0)).alias("group"))
        .group_by(*_RANK, maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("to").n_unique().alias("peers"), pl.col("nranks").max(), _commonest("root"))
        .collect()
    )
    return _sends(own)


def _commonest(name: str) -> pl.Expr:
    return pl.col(name).drop_nulls().mode().sort().first().alias(name)


def _sends(frame: pl.DataFrame) -> pl.DataFrame:
    """Sends to every other rank are an all-to-all, other sends a neighbour exchange."""
    send = pl.col("op") == "Send"
    everyone = send & (pl.col("nranks") > 2) & (pl.col("peers") >= pl.col("nranks") - 1)
    rounds = (pl.col("n") // pl.col("peers").clip(1)).clip(1)
    return frame.with_columns(
        pl.when(everyone).then(rounds).otherwise(pl.col("n")).cast(pl.UInt32).alias("n"),
        pl.when(everyone)
        .then(pl.col("size_bytes") * pl.col("nranks").cast(pl.UInt64))
        .otherwise(pl.col("size_bytes"))
        .alias("size_bytes"),
        pl.when(everyone)
        .then(pl.lit("AllToAll"))
        .when(send)
        .then(pl.lit("SendRecv"))
        .otherwise(pl.col("op"))
        .alias("op"),
    )


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
            pl.lit(None, dtype=pl.String).alias("red_op"),
            pl.lit(None, dtype=pl.String).alias("host"),
            pl.lit(None, dtype=pl.Int64).alias("pid"),
            size.alias("nranks"),
            pl.lit(None, dtype=pl.Int32).alias("root"),
        )
        .group_by(*_RANK, maintain_order=True)
        .agg(pl.len().alias("n"), pl.col("nranks").max(), pl.col("root").first())
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
    happened = happened.with_columns(
        pl.col("group")
        .replace_strict({g: i for g, (i, _) in groups.items()}, default=None, return_dtype=pl.Int32)
        .alias("shape"),
        pl.when(pl.col("size_bytes") > 0)
        .then(pl.col("size_bytes").cast(pl.Float64).log(2).floor().cast(pl.Int32))
        .otherwise(-1)
        .alias("bucket"),
        (pl.col("n").cast(pl.UInt64) * pl.col("size_bytes")).alias("bytes"),
    )
    found = (
        happened.sort("bytes", "size_bytes", descending=True)
        .group_by("shape", "op", "dtype", "red_op", "bucket", maintain_order=True)
        .agg(
            pl.col("size_bytes").first(),
            pl.col("size_bytes").min().alias("low"),
            pl.col("size_bytes").max().alias("high"),
            pl.col("n").sum(),
            pl.col("bytes").sum(),
            pl.col("root").drop_nulls().first(),
        )
        .sort(["bytes", "n", "op", "size_bytes", "shape"], descending=[True, True, False, True, False])
    )
    calls, volume = int(found["n"].sum()), int(found["bytes"].sum())
    by_index = dict(groups.values())
    patterns = tuple(
        Pattern(
            op=row["op"],
            dtype=row["dtype"],
            red_op=row["red_op"] if row["op"] in {"AllReduce", "Reduce", "ReduceScatter"} else None,
            shape=by_index[row["shape"]],
            size_bytes=row["size_bytes"],
            low_bytes=row["low"],
            high_bytes=row["high"],
            calls=row["n"],
            total_bytes=row["bytes"],
            share_calls=row["n"] / calls if calls else 0.0,
            share_bytes=row["bytes"] / volume if volume else 0.0,
            root=row["root"] if row["op"] in _ROOTED else None,
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

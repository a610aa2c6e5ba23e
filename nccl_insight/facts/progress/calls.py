"""Collective and p2p calls of a log, numbered by their order within each rank of each communicator.

A log may have hundreds of millions of calls. They are looked at piece by piece, and what is kept grows with the ranks
and with the calls of one rank, not with lines. The few rows that a finding shows are looked up again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from nccl_insight.base.bandwidth import BULK
from nccl_insight.base.data import dataclass, field
from nccl_insight.facts.said.ended import torn
from nccl_insight.facts.who.members import completed
from nccl_insight.loading.assemble.places import rank_in_job
from nccl_insight.tables.notes import LOG_CUT, TORN
from nccl_insight.tables.run import Run, fact
from nccl_insight.tables.schema import OWNER, owner

POINT_TO_POINT = ("Send", "Recv", "SendRecv", "PutSignal", "WaitSignal", "Signal")
# What all ranks of a communicator have to agree on.
CALL: Final = ("op", "count", "dtype", "root")
_PROCESS: Final = ("comm_id", "host", "pid", "rank")
_LOOKED_AT: Final = (*_PROCESS, OWNER, *CALL, "size_bytes", "peer", "input_id", "line")
# Processes that print calls, to one that prints none.
_SPEAK: Final = 3
# So many rows of partial sums are put together; they grow with what differs, never with lines.
_LEAST: Final = 500_000
_SMALL: Final = (pl.col("calls", "small", "small_bytes").sum(),)


@dataclass(frozen=True)
class CallSums:
    """What one look at all calls gives.

    ``progress``: ``comm_id, rank, host, calls, last_op, input_id, line`` (of the last call), collectives only.
    ``differing``: ``comm_id, nth`` of the first collective that is not the same on all ranks that issued it. ``pairs``:
    ``comm_id, src, dst, sends, recvs, lines`` (the last three, structs of ``input_id, line``). ``speaking``:
    ``comm_id, rank`` of those that print sends or receives. ``small``: see :func:`small_calls`.
    """

    progress: pl.DataFrame
    differing: pl.DataFrame
    pairs: pl.DataFrame
    speaking: pl.DataFrame
    small: pl.DataFrame


@dataclass
class _Sum:
    """Partial sums of pieces, put together whenever they have grown; groups in order of appearance."""

    keys: Sequence[str]
    merged: Sequence[pl.Expr]
    parts: list[pl.DataFrame] = field(default_factory=list)
    rows: int = 0
    limit: int = _LEAST

    def add(self, part: pl.DataFrame) -> None:
        """Takes the sums of one piece: the keys, and the columns that ``merged`` gives."""
        self.parts.append(part)
        self.rows += part.height
        if self.rows > self.limit:
            whole = self.whole()
            self.parts, self.rows = [whole], whole.height
            self.limit = max(_LEAST, 2 * whole.height)

    def whole(self) -> pl.DataFrame:
        """The sums of all pieces."""
        return pl.concat(self.parts).group_by(self.keys, maintain_order=True).agg(self.merged)


class _Numbers:
    """Counts the collectives of each rank from piece to piece."""

    def __init__(self) -> None:
        self._seen = pl.DataFrame(schema={OWNER: pl.UInt64, "_before": pl.UInt32})

    def of(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with ``nth``, their number among those of their rank, process and communicator."""
        rows = rows.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).over(OWNER).alias("nth"))
        now = rows.group_by(OWNER).agg(pl.len().alias("_before"))
        rows = rows.join(self._seen, on=OWNER, how="left", maintain_order="left")
        rows = rows.with_columns(pl.col("nth") + pl.col("_before").fill_null(0)).drop("_before")
        self._seen = pl.concat([self._seen, now]).group_by(OWNER).agg(pl.col("_before").sum())
        return rows


@fact
def sums(run: Run) -> CallSums:
    """The sums over all calls, kept for the run."""
    last = (pl.col("last_op").last(), pl.col("input_id").last(), pl.col("line").last())
    progress = _Sum(("comm_id", "rank"), (pl.col("host").first(), pl.col("calls").sum(), *last))
    same = _Sum(("_nth",), (pl.col("comm_id", "nth").first(), pl.col("low").min(), pl.col("high").max()))
    pairs = _Sum(
        ("comm_id", "src", "dst"), (pl.col("sends").sum(), pl.col("recvs").sum(), pl.col("lines").explode().tail(3))
    )
    speaking = _Sum(("comm_id", "rank"), ())
    small = _Sum(_PROCESS, _SMALL)
    limit = _small_limit(run)
    numbers = _Numbers()
    for frame in _in_order(run):
        rows = numbers.of(_collective(frame))
        progress.add(_far(rows))
        same.add(_alike(rows))
        # NCCL prints the peer in the field of the root.
        transfers = frame.filter(pl.col("op").is_in(["Send", "Recv"])).with_columns(
            pl.col("op").cast(pl.String), peer=pl.coalesce("peer", "root")
        )
        transfers = transfers.drop_nulls(["comm_id", "rank", "peer"])
        pairs.add(_paired(transfers))
        speaking.add(transfers.select("comm_id", "rank").unique(maintain_order=True))
        small.add(_small(frame, limit))
    differing = same.whole().filter(pl.col("low") != pl.col("high"))
    return CallSums(
        progress.whole(),
        differing.group_by("comm_id").agg(pl.col("nth").min()).sort("comm_id"),
        pairs.whole(),
        speaking.whole(),
        small.whole(),
    )


def _alike(rows: pl.DataFrame) -> pl.DataFrame:
    """Smallest and largest hash of the n-th call of each communicator; ``_nth`` is a number for both."""
    # One number to group by: twice as fast as two columns.
    nth = pl.col("comm_id").hash() ^ pl.col("nth").hash()
    hashes = rows.select("comm_id", "nth", nth.alias("_nth"), pl.struct(CALL).hash().alias("_call"))
    return hashes.group_by("_nth").agg(
        pl.col("comm_id", "nth").first(), low=pl.col("_call").min(), high=pl.col("_call").max()
    )


def _in_order(run: Run) -> Iterator[pl.DataFrame]:
    """The calls in line order. Logs give them so; of what others give there is one piece."""
    pieces = run.pieces("calls", *_LOOKED_AT)
    first = next(pieces, None)
    second = next(pieces, None)
    if first is None:
        yield run.table("calls").clear().with_columns(owner()).select(_LOOKED_AT)
    elif second is None:
        # Millions of rows that are in order need not be sorted again.
        place = first.select(pl.col("input_id").cast(pl.UInt64) * (1 << 44) + pl.col("line")).to_series()
        yield first if place.is_sorted() else first.sort("input_id", "line", maintain_order=True)
    else:
        yield first
        del first
        yield second
        del second
        yield from pieces


def _collective(calls: pl.DataFrame) -> pl.DataFrame:
    wanted = pl.col("comm_id").is_not_null() & pl.col("rank").is_not_null() & pl.col("op").is_not_null()
    return calls.select(*_PROCESS, OWNER, *CALL, "input_id", "line").filter(
        wanted & ~pl.col("op").is_in(list(POINT_TO_POINT))
    )


def collectives_at(run: Run, wanted: Iterable[tuple[str, int]]) -> pl.DataFrame:
    """The calls that are the n-th (0-based) collective of a communicator on any rank, in line order.

    Columns: ``comm_id, rank, host, nth, op, count, dtype, root, input_id, line``. Calls whose rank or communicator is
    unknown are left out.
    """
    asked = pl.DataFrame(list(wanted), schema={"comm_id": pl.String, "nth": pl.UInt32}, orient="row")
    numbers = _Numbers()
    found = [
        numbers.of(_collective(frame)).join(asked, on=["comm_id", "nth"], how="semi", maintain_order="left")
        for frame in _in_order(run)
    ]
    named = pl.concat(found).with_columns(pl.col("op").cast(pl.String))
    return named.select("comm_id", "rank", "host", "nth", *CALL, "input_id", "line")


def _far(rows: pl.DataFrame) -> pl.DataFrame:
    """How far each rank of a piece comes."""
    key, place = ("comm_id", "rank"), ("input_id", "line")
    # By number first: millions of calls need not be grouped by names.
    each = rows.group_by(OWNER, maintain_order=True).agg(
        pl.col(*key, "host").first(),
        pl.len().alias("calls"),
        pl.col("op").last().alias("last_op"),
        pl.col(place).last(),
    )
    return each.group_by(key, maintain_order=True).agg(
        pl.col("host").first(),
        pl.col("calls").sum(),
        pl.col("last_op").cast(pl.String).sort_by(place).last(),
        pl.col(place).sort_by(place).last(),
    )


@fact
def _mute(run: Run) -> pl.DataFrame:
    """Ranks that print no collective of a communicator although their calls would be here: ``comm_id, rank, host,
    input_id, line``. Their process prints other calls, or nearly all processes print theirs."""
    key = ["comm_id", "rank"]
    made = completed(run).drop_nulls([*key, "host", "pid"])
    made = made.unique(key, keep="first", maintain_order=True).select(*key, "host", "pid", "input_id", "line")
    told = sums(run).progress.select(key)
    spoke = made.join(pl.concat([told, sums(run).speaking]), on=key, how="semi").select("host", "pid").unique()
    none = made.join(told, on=key, how="anti").join(spoke.with_columns(spoke=True), on=["host", "pid"], how="left")
    few = none.filter(pl.col("spoke").is_null()).select("host", "pid").n_unique() * _SPEAK <= spoke.height
    return none.filter(pl.col("spoke") | few).drop("pid", "spoke")


@fact
def progress(run: Run) -> pl.DataFrame:
    """How far each rank came: ``comm_id, rank, host, calls, last_op, input_id, line`` (of its last call)."""
    told = sums(run).progress
    none = _mute(run).join(told, on="comm_id", how="semi").with_columns(calls=0)
    return pl.concat([told, none], how="diagonal_relaxed")


@fact
def judgeable(run: Run) -> pl.DataFrame:
    """Communicators whose calls can be compared: ``comm_id, nranks, ranks``.

    Every rank that the log holds of them printed calls, and their init is in the log, so that counting starts
    at the first call. Where all ranks destroyed the communicator and yet differ in how many calls they made, lines are
    missing.
    """
    known = pl.col("rank").n_unique().alias("known")
    through = (pl.col("destroyed").cast(pl.String) == "destroyed").fill_null(False).all()
    made = run.table("ranks").group_by("comm_id").agg(known, pl.col("nranks").max(), through=through)
    called = (
        progress(run).group_by("comm_id").agg(ranks=pl.col("rank").n_unique(), uneven=pl.col("calls").n_unique() > 1)
    )
    return (
        called.join(made, on="comm_id", how="inner")
        .filter((pl.col("ranks") > 1) & (pl.col("ranks") == pl.col("known")) & ~(pl.col("through") & pl.col("uneven")))
        .select("comm_id", "nranks", "ranks")
    )


def _paired(transfers: pl.DataFrame) -> pl.DataFrame:
    send = pl.col("op") == "Send"
    return (
        transfers.with_columns(
            src=pl.when(send).then("rank").otherwise("peer"), dst=pl.when(send).then("peer").otherwise("rank")
        )
        .group_by("comm_id", "src", "dst", maintain_order=True)
        .agg(sends=send.sum(), recvs=(~send).sum(), lines=pl.struct("input_id", "line").tail(3))
    )


def small_calls(run: Run, limit: float) -> pl.DataFrame:
    """Calls of :data:`BULK` of known size, in total and those below ``limit`` bytes, by rank and communicator.

    Columns: ``comm_id, host, pid, rank, calls, small, small_bytes``.
    """
    # Logs that are cut or torn are not asked for the other sums, which take longer.
    return sums(run).small if limit == _small_limit(run) and run.knows(sums) else _small_of(run, limit)


def count_calls(run: Run) -> None:
    """Looks at all calls for those who will ask for :func:`sums` or, of a log that is cut, :func:`small_calls`."""
    if log_is_cut(run):
        small_calls(run, _small_limit(run))
    else:
        sums(run)


@fact
def _small_of(run: Run, limit: float) -> pl.DataFrame:
    found = _Sum(_PROCESS, _SMALL)
    for frame in _in_order(run):
        found.add(_small(frame, limit))
    return found.whole()


def _small_limit(run: Run) -> float:
    """What the diagnosis of small calls asks for: counted on the way."""
    return run.asked.shared("small_bytes", 64 << 10)


def _small(frame: pl.DataFrame, limit: float) -> pl.DataFrame:
    small = pl.col("size_bytes") < limit
    return (
        _sized(frame.select(*_PROCESS, OWNER, "op", "size_bytes"))
        .group_by(OWNER, maintain_order=True)
        .agg(
            pl.col(_PROCESS).first(),
            calls=pl.len(),
            small=small.sum(),
            small_bytes=pl.col("size_bytes").filter(small).sum(),
        )
        .drop(OWNER)
    )


def median_size(run: Run, rank: dict[str, object]) -> float | None:
    """Median of the sizes in bytes that :func:`small_calls` counts for one of its rows."""
    mine = pl.all_horizontal(pl.col(c).eq_missing(pl.lit(rank[c])) for c in _PROCESS)
    sizes = pl.concat(
        [_sized(frame).filter(mine)["size_bytes"] for frame in run.pieces("calls", *_PROCESS, "op", "size_bytes")]
    )
    middle = sizes.median()
    return float(middle) if isinstance(middle, (int, float)) else None


def first_small(run: Run, limit: float, count: int) -> pl.DataFrame:
    """The first ``count`` calls of fewer than ``limit`` bytes: ``size_bytes, input_id, line``."""
    found: list[pl.DataFrame] = []
    for frame in run.pieces("calls", "size_bytes", "input_id", "line"):
        found.append(frame.filter(pl.col("size_bytes") < limit).head(count))
        if sum(rows.height for rows in found) >= count:
            break
    return pl.concat(found).head(count)


def _sized(calls: pl.DataFrame) -> pl.DataFrame:
    return calls.filter(pl.col("op").is_in(BULK) & pl.col("size_bytes").is_not_null())


def log_is_cut(run: Run) -> bool:
    """Whether an input says that lines are missing, or one ends within a record."""
    if run.table("notes").filter(pl.col("kind").is_in([LOG_CUT, TORN])).height > 0:
        return True
    return torn(run) or _ends_within(run) == 1


def _ends_within(run: Run) -> int:
    """Inputs whose last line is a record that no rule knows and that stands nowhere else, as a cut one does.

    Several inputs that end so show a message of another release rather than a cut.
    """
    if not run.has("unknown"):
        return 0
    ends = run.table("inputs").select("input_id", pl.col("lines").alias("last"))
    alone = run.table("unknown").filter(pl.col("count") == 1).join(ends, on="input_id", how="inner")
    # A line of other text may follow, as the end of a quotation does.
    return int(alone.filter(pl.col("line") + 1 >= pl.col("last"))["input_id"].n_unique())


def closed(run: Run) -> pl.DataFrame:
    """The communicators (``comm_id``) that a rank closed."""
    return run.table("ranks").filter(pl.col("destroyed").cast(pl.String) == "destroyed").select("comm_id").unique()


@fact
def unmatched(run: Run) -> pl.DataFrame:
    """Rows of ``pairs`` (:class:`CallSums`) with more sends than receives or fewer, where the log holds both ranks."""
    pairs = sums(run).pairs
    if pairs.is_empty() or log_is_cut(run):
        return pairs.clear()
    known = completed(run).select("comm_id", "rank").unique()
    counts = pairs.join(closed(run), on="comm_id", how="anti").filter(pl.col("sends") != pl.col("recvs"))
    speaking = pl.concat([sums(run).speaking, _mute(run).select("comm_id", "rank")])
    for side in ("src", "dst"):
        for there in (known, speaking):
            counts = counts.join(there.rename({"rank": side}), on=["comm_id", side], how="semi")
    return counts.sort("comm_id", "src", "dst")


@fact
def unheld(run: Run) -> frozenset[frozenset[int]]:
    """The ranks of the job that issued calls together with some whose init the log does not hold: those of a
    communicator, and each one that sent to or received from such a rank."""
    made = completed(run).select("comm_id", "rank", "nranks").drop_nulls().unique()
    known = {(comm, rank) for comm, rank, _ in made.iter_rows()}
    lacks = {c for c, n, size in made.group_by("comm_id").agg(pl.len(), pl.col("nranks").max()).iter_rows() if n < size}
    told = sums(run).progress.filter(pl.col("comm_id").is_in(lacks)).select("comm_id", "rank")
    found = {(comm, -1): set(rows["rank"]) for (comm,), rows in told.partition_by("comm_id", as_dict=True).items()}
    for comm, src, dst in sums(run).pairs.select("comm_id", "src", "dst").iter_rows():
        for one, other in ((src, dst), (dst, src)):
            if comm in lacks and (comm, other) not in known:
                found.setdefault((comm, int(other)), set()).add(one)
    placed = ((rank_in_job(run, comm, int(r)) for r in ranks) for (comm, _), ranks in found.items())
    return frozenset(frozenset(r for r in ranks if r is not None) for ranks in placed)


def waits_for(run: Run, row: Mapping[str, Any]) -> tuple[int, int] | None:
    """Who waits for whom in a row of :func:`unmatched`; None where the log does not say which ranks of the job."""
    src, dst = (rank_in_job(run, row["comm_id"], row[side]) for side in ("src", "dst"))
    if src is None or dst is None:
        return None
    return (src, dst) if row["sends"] > row["recvs"] else (dst, src)

"""How far each rank of each communicator got: one row per rank, with the line of every step that its log shows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import polars as pl

from nccl_insight.tables.schema import OWNER, conform, empty, owner

_PROCESS: Final = ("host", "pid")
_RANK: Final = ("comm_id", "rank")
_KEY: Final = (*_RANK, *_PROCESS)
# Tables whose rows a rank prints only after the bootstrap of its communicator.
_AFTER_BOOTSTRAP: Final = ("ring_neighbours", "trees", "channel_counts", "init_timings", "connected")

Frames = Callable[[str], Iterable[pl.DataFrame]]
Calls = Callable[[], Iterable[pl.DataFrame] | None]


def _none() -> None:
    return None


class Milestones:
    """The table ``milestones``, put together from the other tables of its run when it is asked for."""

    streams = False

    def __init__(self, ranks: pl.DataFrame) -> None:
        self._ranks = conform("ranks", ranks)
        self._pieces: Frames | None = None
        self._calls: Calls = _none
        self.height = ranks.height

    def read_from(self, pieces: Frames, calls: Calls) -> None:
        """Says where the other tables are: ``pieces`` gives the frames of one by name, ``calls`` where calls stand.

        ``calls`` may give None, else frames as :func:`extent` makes them.
        """
        self._pieces = pieces
        self._calls = calls

    def frames(self, columns: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
        """All rows, in one frame, in the order of ``ranks``."""
        pieces = self._pieces
        yield empty("milestones") if pieces is None else milestone_rows(self._ranks, pieces, self._calls())

    def last(self) -> Iterator[pl.DataFrame]:
        """The same; lets go of the other tables."""
        yield from self.frames()
        self._pieces, self._calls = None, _none


def milestone_rows(ranks: pl.DataFrame, frames: Frames, calls: Iterable[pl.DataFrame] | None = None) -> pl.DataFrame:
    """One row per row of ``ranks``; steps are line numbers in the rank's own input, null where no line shows them."""
    if ranks.is_empty():
        return empty("milestones")
    lines = ("init_started_line", "init_completed_line", "destroyed_line")
    known = pl.col("init_complete", "init_started").fill_null(False)
    way = pl.col("destroyed").cast(pl.String).fill_null("no").alias("_way")
    rows = ranks.select("input_id", "line", *_KEY, *lines, known, way)
    launched = _lines(frames("processes"), _PROCESS, first="launched")
    handshake = _lines(frames("bootstrap_timings"), _PROCESS, first="_handshake")
    connected = _lines(frames("connected"), _KEY, first="_connected")
    links = _lines((_printed(f) for f in frames("connections")), _KEY, first="_link")
    extents = (extent(frame) for frame in frames("calls")) if calls is None else calls
    called = _calls(extents)
    rows = _add(rows, launched, _PROCESS)
    rows = _add(rows, handshake, _PROCESS)
    for table in _AFTER_BOOTSTRAP:
        rows = _add(rows, _lines(frames(table), _KEY, first=f"_{table}_at"), _KEY)
    rows = _add(_add(_add(rows, connected, _KEY), links, _KEY), called, _KEY)
    later = [pl.col(f"_{table}_at") for table in _AFTER_BOOTSTRAP]
    rows = rows.with_columns(
        bootstrapped=pl.coalesce("_handshake", *later, "init_completed_line"),
        connected=pl.coalesce("_connected", "_link"),
        init_started=pl.when("init_started").then(pl.coalesce("init_started_line", "line")),
        init_completed=pl.when("init_complete").then(pl.coalesce("init_completed_line", "line")),
        destroyed=pl.col("destroyed_line"),
    )
    begun = ("launched", "bootstrapped", "init_started", "init_completed", "connected")
    shown = ("input_id", "line", *_KEY, *begun, "first_call", "last_call", "destroyed", "end")
    return conform("milestones", rows.with_columns(_end()).select(shown))


def _end() -> pl.Expr:
    """How the log of a rank ends. Silent: others of its communicator got further, and it says nothing more."""
    gone = pl.col("_way") != "no"
    others_done = pl.col("init_complete").any().over("comm_id") & ~pl.col("init_complete")
    calls = pl.col("_calls").fill_null(0)
    behind = (calls < calls.max().over("comm_id")) & (calls.max().over("comm_id") > 0)
    left = gone.any().over("comm_id")
    return (
        pl.when(pl.col("_way") == "aborted")
        .then(pl.lit("aborted"))
        .when(gone)
        .then(pl.lit("destroyed"))
        .when(others_done | behind | left)
        .then(pl.lit("silent"))
        .otherwise(pl.lit("running"))
        .alias("end")
    )


def _printed(connections: pl.DataFrame) -> pl.DataFrame:
    """Connections by the rank that printed the line: its destination prints a [receive] line, its source all others."""
    if "src_rank" not in connections.columns:
        return connections.clear()
    receives = pl.col("direction").cast(pl.String) == "receive"
    return connections.with_columns(rank=pl.when(receives).then("dst_rank").otherwise("src_rank"))


def _lines(frames: Iterable[pl.DataFrame], key: tuple[str, ...], *, first: str) -> pl.DataFrame:
    """First line by key, over all pieces."""
    parts = [
        frame.group_by(key, maintain_order=True).agg(pl.col("line").min().alias(first))
        for frame in frames
        if frame.height and {*key, "line"} <= set(frame.columns)
    ]
    if len(parts) < 2:
        return parts[0] if parts else pl.DataFrame(schema={first: pl.UInt64})
    merged = pl.concat(parts, how="vertical_relaxed").group_by(key, maintain_order=True)
    return merged.agg(pl.col(first).min())


def extent(frame: pl.DataFrame) -> pl.DataFrame:
    """``comm_id, rank, host, pid, first, last, rows``: first and last line and number of rows by rank and process."""
    # One number for each group: millions of calls need not be grouped by their names.
    return (
        frame.select(*_KEY, "line", owner())
        .group_by(OWNER, maintain_order=True)
        .agg(
            pl.col(_KEY).first(),
            pl.col("line").min().alias("first"),
            pl.col("line").max().alias("last"),
            pl.len().cast(pl.Int64).alias("rows"),
        )
        .drop(OWNER)
    )


def _calls(extents: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """First and last call and their number by rank and process, over all pieces."""
    names = {"first": "first_call", "last": "last_call", "rows": "_calls"}
    parts = [frame.rename(names) for frame in extents if frame.height]
    if not parts:
        return pl.DataFrame(schema=dict.fromkeys(names.values(), pl.UInt64))
    return (
        pl.concat(parts, how="vertical_relaxed")
        .group_by(_KEY, maintain_order=True)
        .agg(pl.col("first_call").min(), pl.col("last_call").max(), pl.col("_calls").sum())
    )


def _add(rows: pl.DataFrame, found: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """The rows with the columns of ``found``, null where it has none."""
    if found.is_empty():
        return rows.with_columns(pl.lit(None, pl.UInt64).alias(c) for c in found.columns if c not in key)
    return rows.join(found, on=list(key), how="left", nulls_equal=True, maintain_order="left")

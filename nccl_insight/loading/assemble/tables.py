"""All tables of a run from the messages of all its logs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import polars as pl

from nccl_insight.base.words import pairs, words
from nccl_insight.language.syntax import Grammar
from nccl_insight.loading.assemble import memory
from nccl_insight.loading.assemble.attribute import Kinds, Owners
from nccl_insight.loading.assemble.base import POSITION, column, finish, stack
from nccl_insight.loading.assemble.comms import communicators, rank_rows
from nccl_insight.loading.assemble.connections import connection_rows
from nccl_insight.loading.assemble.feeds import PROCESS, THREAD, Feeds, details
from nccl_insight.loading.assemble.milestones import extent
from nccl_insight.loading.assemble.topology import topology_tables
from nccl_insight.loading.assemble.watchdog import watchdog_rows
from nccl_insight.readers.nccl_log.classify import DETAIL_TABLES
from nccl_insight.readers.nccl_log.log import LogPart
from nccl_insight.tables.declared import frame
from nccl_insight.tables.normalise.ends import UNEXPLAINED
from nccl_insight.tables.schema import FLOODS, OWNER, conform

# Tables whose rows belong to a communicator, which most messages do not name.
_OWNED: Final = words("""rings ring_neighbours trees connections channel_counts graphs connected tuning_choice
    init_timings calls errors nvls collnet mnnvl gdr tuning_model""")
# Tables that others need: read first.
_EARLY: Final = ("versions", "networks", "host")
# Questions to NCCL's model and its answers, of which the table `predicted` is made.
_MODEL_TALK: Final = "predictions"
# The predictions are made from their rows, too.
_SHARED: Final = ("tuning_choice", "tuning_model")
_API_LEVEL: Final = "CALL"
_THREAD: Final = ("_host", "_pid", "_tid", "_dev")
_OF_OWNER: Final = frozenset({"comm_id", "rank", OWNER})
_OWNER: Final = (*_THREAD, THREAD)
_ERROR_HEADS: Final = pairs("""_tid=tid _dev=dev _level=level _source=source _timestamp=timestamp _body=text
    _launcher=launcher _launcher_rank=launcher_rank""")
_NO_RANKS: Final = pl.DataFrame(
    schema=frame("""input_id u16, _host str, _pid i64, comm str, rank i32, comm_id str,
    _pos u64, nranks i32""")
)


def _versions(rows: pl.DataFrame | None) -> pl.DataFrame:
    schema = frame("_host str, _pid i64, nccl_version str, cuda_version str, library str, input_id u16, _pos u64")
    if rows is None or "nccl_version" not in rows.columns:
        return pl.DataFrame(schema=schema)
    return rows.filter(pl.col("nccl_version").is_not_null()).select(column(rows, n, t) for n, t in schema.items())


def _place_versions(versions: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Gives a version line without a head to the ranks 0 of its input: only a rank 0 prints one.

    Where the lines without head of an input disagree, they stay without a process.
    """
    bare = versions.filter(pl.col("_host").is_null() & pl.col("_pid").is_null())
    named = versions.filter(pl.col("_host").is_not_null() | pl.col("_pid").is_not_null())
    if not bare.height or not ranks.height:
        return versions
    told = pl.col("nccl_version", "cuda_version", "library", "_pos").first()
    several = pl.col("nccl_version").n_unique().alias("_n")
    agreed = bare.group_by("input_id", maintain_order=True).agg(told, several).filter(pl.col("_n") == 1)
    zeros = ranks.filter(pl.col("rank") == 0).select("input_id", "_host", "_pid").unique(maintain_order=True)
    zeros = zeros.filter(pl.col("_host").is_not_null() | pl.col("_pid").is_not_null())
    placed = zeros.join(agreed, on="input_id", maintain_order="left").select(versions.columns)
    placed = placed.join(named, on=["_host", "_pid"], how="anti", nulls_equal=True)
    rest = bare.join(placed.select("input_id").unique(), on="input_id", how="anti")
    rest = rest.join(
        agreed.select("input_id").join(named.select("input_id").unique(), on="input_id"), on="input_id", how="anti"
    )
    return pl.concat([named, placed, rest]).sort("_pos")


def _processes(heads: pl.DataFrame, versions: pl.DataFrame, rows: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    key = ["_host", "_pid"]
    base = heads.group_by(key, maintain_order=True).agg(
        pl.col("input_id").first(), pl.col("_line").first(), pl.col("_launcher_rank").drop_nulls().first()
    )
    known = versions.group_by(key, maintain_order=True).agg(
        pl.col("nccl_version", "cuda_version", "library").drop_nulls().first()
    )
    base = base.join(known, on=key, how="left", nulls_equal=True, maintain_order="left")
    for table, name in (("networks", "network"), ("host", "driver_version")):
        frame = rows.get(table)
        if frame is not None and name in frame.columns:
            values = (
                frame.filter(pl.col(name).is_not_null()).group_by(key, maintain_order=True).agg(pl.col(name).last())
            )
            base = base.join(values, on=key, how="left", nulls_equal=True, maintain_order="left")
    anonymous = pl.col("_host").is_null() & pl.col("_pid").is_null()
    facts = [c for c in ("nccl_version", "network", "driver_version") if c in base.columns]
    empty = pl.all_horizontal(pl.col(c).is_null() for c in facts)
    base = base.filter(~(anonymous & empty))
    if "library" in base.columns:
        base = base.with_columns(pl.col("library").fill_null("nccl"))
    return base.rename({"_launcher_rank": "launcher_rank"})


def _ring_rows(rings: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Marks rings that show fewer ranks than their communicator has."""
    sizes = ranks.group_by("comm_id").agg(pl.col("nranks").max().alias("_nranks"))
    seen = pl.len().over("input_id", "_line", "_sub")
    out = rings.join(sizes, on="comm_id", how="left", nulls_equal=False, maintain_order="left")
    return out.with_columns(truncated=pl.col("truncated") | (seen < pl.col("_nranks")).fill_null(False))


def _named_devices(devices: pl.DataFrame) -> pl.DataFrame:
    """Devices that have a line of their own print their name and speed under other words."""
    name, speed = column(devices, "hca_name", pl.String), column(devices, "speed_mbps", pl.Int64)
    return devices.with_columns(
        name=pl.coalesce(column(devices, "name", pl.String), name),
        speed_gbit=pl.coalesce(column(devices, "speed_gbit", pl.Int64), speed // 1000),
    )


def _told_twice(name: str, feeds: Feeds) -> bool:
    """Whether calls may be told by two lines each, which only all of them together show."""
    return name == "calls" and _API_LEVEL in (levels := feeds.levels(name)) and len(levels) > 1


def _without_api_calls(calls: pl.DataFrame) -> pl.DataFrame:
    """At level TRACE one call prints a CALL line and a COLL line: the CALL lines go where COLL lines are."""
    api = pl.col("_level") == _API_LEVEL
    both = api.any().over("_host", "_pid") & (~api).any().over("_host", "_pid")
    return calls.filter(~(api & both).fill_null(False))


class LogTable:
    """A table that is put together from the lines of the logs when it is asked for."""

    streams = False

    def __init__(self, build: Callable[[bool], Iterator[pl.DataFrame]], height: int) -> None:
        self._build = build
        self.height = height

    def frames(self, columns: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
        """All rows in reading order, in frames of the same columns."""
        return self._build(False)

    def last(self) -> Iterator[pl.DataFrame]:
        """The same, for the last time."""
        return self._build(True)


class FloodTable:
    """A table of which a line is a row, in pieces; whole only for those who ask for all of it."""

    streams = True

    def __init__(
        self, name: str, feeds: Feeds, owners: Owners, build: Callable[[bool], Iterator[pl.DataFrame]]
    ) -> None:
        self._name = name
        self._feeds = feeds
        self._owners = owners
        self._build = build
        self._kinds: dict[int, Kinds | None] = {}
        self.height = feeds.height(name)

    def frames(self, columns: Sequence[str] = ()) -> Iterator[pl.DataFrame]:
        """The rows in reading order, in frames of the same columns; with ``columns``, others may be missing."""
        if columns:
            yield from self._narrow(columns)
            return
        made = self._rows(self._feeds.sample(self._name, _OWNER))
        for number, piece in enumerate(self._feeds.pieces(self._name, _OWNER)):
            rows = self._rows(piece, self._kinds_of(number, piece))
            missing = (pl.lit(None, dtype).alias(n) for n, dtype in made.schema.items() if n not in rows.columns)
            same = rows.schema == made.schema
            yield rows if same else rows.with_columns(*missing).select(made.columns).cast(made.schema)

    def _narrow(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Rows without what only other columns need: words, heads, owners."""
        owned = not _OF_OWNER.isdisjoint(columns)
        fields = () if owned or {"host", "pid"}.isdisjoint(columns) else PROCESS
        for number, group in enumerate(self._feeds.groups(self._name)):
            if owned and number not in self._kinds:
                self._kinds_of(number, self._feeds.rows(group, _OWNER, captured=("comm",)))
            kinds = self._kinds[number] if owned else None
            if owned and kinds is None:
                rows = self._feeds.rows(group, _OWNER, wanted={*columns, "comm", "rank"})
                yield finish(self._owners.attribute(rows))
                continue
            rows = self._feeds.rows(group, fields, wanted={*columns, "rank"})
            if kinds is None:
                yield finish(rows)
                continue
            named = {"rank", "host", "pid"} & set(rows.columns)
            rows = finish(self._owners.attribute(rows.hstack(kinds.processes[kinds.numbers]), kinds))
            yield rows.with_columns(kinds.hashed()) if OWNER in columns and not named else rows

    def last(self) -> Iterator[pl.DataFrame]:
        """All rows in one frame, for the last time."""
        return self._build(True)

    def extents(self) -> Iterator[pl.DataFrame]:
        """``comm_id, rank, host, pid, first, last, rows`` by rank and process of each piece: lines and their number."""
        if self._feeds.has(self._name, "rank"):
            yield from (extent(frame) for frame in self.frames())
            return
        for number, piece in enumerate(self._feeds.pieces(self._name, _OWNER, captured=("comm",))):
            kinds = self._kinds_of(number, piece)
            if kinds is None:
                yield extent(finish(self._owners.attribute(piece)))
                continue
            found = (
                piece.select(kinds.numbers.alias("_kind"), "_host", "_pid", "_line")
                .group_by("_kind", maintain_order=True)
                .agg(
                    pl.col("_host", "_pid").first(),
                    pl.col("_line").min().alias("first"),
                    pl.col("_line").max().alias("last"),
                    pl.len().cast(pl.Int64).alias("rows"),
                )
            )
            yield (
                kinds.owners[found["_kind"]]
                .hstack(found.drop("_kind"))
                .rename({"_own_rank": "rank", "_host": "host", "_pid": "pid"})
            )

    def _kinds_of(self, number: int, piece: pl.DataFrame) -> Kinds | None:
        # Several ask for the same pieces: who their rows are of is found out once.
        if number not in self._kinds:
            self._kinds[number] = self._owners.kinds(piece)
        return self._kinds[number]

    def _rows(self, piece: pl.DataFrame, kinds: Kinds | None = None) -> pl.DataFrame:
        return conform(self._name, finish(self._owners.attribute(piece, kinds)))


def _build(
    name: str, feeds: Feeds, owners: Owners, ranks: pl.DataFrame, versions: pl.DataFrame, last: bool = False
) -> Iterator[pl.DataFrame]:
    """The rows of a table in reading order, in one frame. ``last``: what they are made from is not needed again."""
    fields = _THREAD if name in _OWNED else PROCESS
    whole = feeds.whole(name, fields) if _told_twice(name, feeds) else None
    done: list[pl.DataFrame] = []
    pieces = feeds.pieces(name, fields, last and name not in _SHARED)
    for rows in pieces if whole is None else (_without_api_calls(whole),):
        if name in _OWNED:
            rows = owners.attribute(rows)
        if name == "rings" and ranks.height:
            rows = _ring_rows(rows, ranks)
        if name == "net_devices":
            rows = _named_devices(rows)
        if name == "connections":
            rows = connection_rows(rows, versions)
        rows = finish(rows)
        # Columns that no line gave are added once to all rows, where they take no memory.
        done.append(conform(name, rows).select(pl.col(c) for c in rows.columns))
    yield conform(name, stack(done))


def _predicted(
    feeds: Feeds,
    owners: Owners,
    tuning_model: Callable[[], Iterator[pl.DataFrame]],
    choices: LogTable | FloodTable | None,
    comms: pl.DataFrame,
    last: bool,
) -> Iterator[pl.DataFrame]:
    """The rows of ``predicted``, in reading order, in one frame."""
    from nccl_insight.loading.assemble import predicted

    parts: list[pl.DataFrame] = []
    asked = feeds.whole(_MODEL_TALK, _THREAD)
    if asked is not None:
        parts.append(conform("predicted", finish(owners.attribute(predicted.answers(asked)))))
    asked_for: list[pl.DataFrame] = []
    for chosen in choices.frames() if choices is not None else ():
        parts.append(conform("predicted", predicted.choices(chosen)))
        if comms.height and feeds.height("tuning_model"):
            asked_for = [predicted.asked(stack([*asked_for, chosen]))]
    if asked_for:
        model = predicted.worked_out(asked_for[0], next(tuning_model()), conform("communicators", comms))
        parts += [conform("predicted", model)] if model.height else []
    yield stack(parts)


def _memory(feeds: Feeds, owners: Owners, last: bool) -> Iterator[pl.DataFrame]:
    """The rows of ``nccl_memory``; ``last``: as in :func:`_build`, of no use here, since ``memory`` needs the rows."""
    rows = feeds.whole("memory", _THREAD)
    assert rows is not None
    yield conform("nccl_memory", finish(memory.allocations(owners.attribute(rows))))


def _error_rows(known: pl.DataFrame | None, loud: Sequence[pl.DataFrame]) -> pl.DataFrame | None:
    """WARN, ABORT and DIAG records, failing result traces and lines of torch's watchdog: a warning is never lost.

    Rows in reading order, with ``diagnosis`` and ``role`` filled and ``function`` taken out of ``_source``.

    A row of ``known`` without a diagnosis reports nothing (``=> -`` in the grammar) and is left out. A WARN that no
    grammar rule knows is still a row (``message`` null, ``diagnosis`` ``unexplained-failure``). ``family`` is the older
    name of ``diagnosis``, with ``other`` where it had none.
    """
    if known is not None and "diagnosis" in known.columns:
        known = known.filter(pl.col("diagnosis").is_not_null())
    parts = [known] if known is not None else []
    parts += [frame.with_columns(POSITION) for frame in loud]
    if not parts:
        return None
    rows = pl.concat(parts, how="diagonal_relaxed").sort("_pos", maintain_order=True)
    function = pl.coalesce(column(rows, "function", pl.String), pl.col("_source").str.extract(r"\(([^()]*)\)$"))
    diagnosis = column(rows, "diagnosis", pl.String).fill_null(UNEXPLAINED)
    return rows.with_columns(
        diagnosis=diagnosis,
        family=pl.when(diagnosis == UNEXPLAINED).then(pl.lit("other")).otherwise(diagnosis),
        role=column(rows, "role", pl.String).fill_null("root"),
        function=function,
        _source=pl.col("_source").str.replace(r" \([^()]*\)$", ""),
    )


def _trouble(parts: Sequence[LogPart], feeds: Feeds, owners: Owners) -> Iterator[tuple[str, pl.DataFrame]]:
    """``errors``, and ``watchdog`` where torch's watchdog is among them."""
    rows = _error_rows(feeds.whole("errors"), [p.loud for p in parts if p.loud.height])
    if rows is None:
        return
    errors, again = finish(owners.attribute(rows), _ERROR_HEADS), feeds.whole("restarts")
    yield "errors", errors
    told = watchdog_rows(errors, None if again is None else finish(again))
    if told is not None:
        yield "watchdog", told


def assemble(
    parts: Sequence[LogPart], grammar: Grammar
) -> tuple[dict[str, pl.DataFrame], dict[str, LogTable | FloodTable]]:
    """Tables by name (some contract tables still to be conformed), and those that are made when asked for.

    The order of rows is reading order.
    """
    feeds = Feeds(parts, grammar)
    comms = feeds.whole("comms", (*_THREAD, "_launcher_rank"))
    early = {name: rows for name in _EARLY if (rows := feeds.whole(name)) is not None}
    ranks = rank_rows(comms) if comms is not None else _NO_RANKS
    owners = Owners(ranks)
    versions = _place_versions(_versions(early.get("versions")), ranks)
    out: dict[str, pl.DataFrame] = {}
    out.update(_trouble(parts, feeds, owners))
    if ranks.height:
        process_versions = versions.group_by("_host", "_pid", maintain_order=True).agg(pl.col("nccl_version").first())
        out["communicators"] = communicators(ranks, process_versions)
        out["ranks"] = finish(ranks.drop("comm_id_made").rename({"_tid": "tid"}))
    processes = [p.processes for p in parts if p.processes.height]
    if processes:
        out["processes"] = finish(_processes(pl.concat(processes, how="diagonal_relaxed"), versions, early))
    dumps = feeds.whole("topology_lines")
    if dumps is not None:
        out.update(topology_tables(dumps))
    out.update({name: finish(frame) for name, frame in early.items()})
    later: dict[str, LogTable | FloodTable] = {}
    for name in feeds.tables():
        height = feeds.height(name)
        if name in DETAIL_TABLES:
            later[name] = LogTable(partial(details, feeds, name), height)
        elif name not in {"comms", "errors", "topology_lines", _MODEL_TALK, *_EARLY}:
            build = partial(_build, name, feeds, owners, ranks, versions)
            streams = name in FLOODS and not _told_twice(name, feeds)
            later[name] = FloodTable(name, feeds, owners, build) if streams else LogTable(build, height)
    names = feeds.tables()
    if _MODEL_TALK in names or feeds.has("tuning_choice", "time_us") or {"tuning_choice", "tuning_model"} <= set(names):
        model = partial(_build, "tuning_model", feeds, owners, ranks, versions)
        comms_of = out.get("communicators", pl.DataFrame())
        table = partial(_predicted, feeds, owners, model, later.get("tuning_choice"), comms_of)
        later["predicted"] = LogTable(table, feeds.height(_MODEL_TALK) or feeds.height("tuning_choice"))
    if "memory" in names:
        later["nccl_memory"] = LogTable(partial(_memory, feeds, owners), feeds.height("memory"))
    return out, later

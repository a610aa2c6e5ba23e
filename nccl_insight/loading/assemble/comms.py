"""Communicators and their ranks.

A communicator is known by the commId that NCCL prints (2.16+). A split (2.23+) prints none: it is named after its
parent, the split's number and the colour. Before 2.16 there is no id at all: the k-th time that a rank
number of a communicator size completes its init, it belongs to the k-th communicator of that size. Pointers are
only ever compared within one process, and in line order, because they are reused.
"""

from functools import cache, partial
from typing import Final, Literal, TypeAlias

import polars as pl

from nccl_insight.loading.assemble.base import column
from nccl_insight.tables.declared import frame

_PROCESS: Final = ("input_id", "_host", "_pid")
_OWNER: Final = ("_scope", "_host", "_pid")
_DTYPES: Final = frame("""comm str, parent_comm str, comm_id str, api str, rank i32, nranks i32, cuda_dev i32,
    nvml_dev i32, bus_id str, n_nodes i32, local_rank i32, local_ranks i32, color i64, split_count i64,
    abort_kind str, event str, mnnvl i32""")
Strategy: TypeAlias = Literal["backward", "forward"]
_INIT: Final = ("init_start", "init_complete")


def _instances(events: pl.DataFrame) -> pl.DataFrame:
    """Numbers the lives of a pointer within its process: a new one begins at a start, or a second completion."""
    starts = pl.col("event") == "init_start"
    done = pl.col("event") == "init_complete"
    had_start = starts.cum_sum().over("_key")
    had_done = done.cum_sum().over("_key")
    life = pl.when(starts.any().over("_key")).then(had_start).otherwise(had_done)
    events = events.with_columns(_key=pl.struct(*_OWNER, "comm", "rank").hash())
    told = (events.filter(event)["_key"] for event in (starts, done))
    if not any(keys.is_duplicated().any() for keys in told):
        return events.with_columns(_life=pl.lit(1, pl.Int64)).drop("_key")
    return events.with_columns(_life=life.cast(pl.Int64).clip(1)).drop("_key")


def rank_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per rank of a communicator, with ``_pos`` (first line), ``_begin`` and the ``ranks`` columns."""
    events = (
        rows.with_columns(column(rows, name, dtype) for name, dtype in _DTYPES.items())
        .sort("_pos")
        .filter(pl.col("comm").is_not_null() & pl.col("rank").is_not_null())
    )
    # The same process may be told twice (its output and its own file): only a nameless one is tied to its input.
    events = events.with_columns(_scope=pl.when(pl.col("_host").is_null()).then("input_id"))
    events = _instances(events)
    key = [*_OWNER, "comm", "rank", "_life"]
    place = ("comm_id", "api", "nranks", "cuda_dev", "nvml_dev", "bus_id", "n_nodes", "local_rank", "local_ranks")
    of_split = ("parent_comm", "color", "split_count", "mnnvl")
    first = [pl.col(c).drop_nulls().first() for c in (*place, *of_split)]
    event = pl.col("event")
    ends = event.is_in(["destroyed"])
    ranks = events.group_by(key, maintain_order=True).agg(
        *first,
        pl.col("_tid").filter(event.is_in(_INIT)).first().alias("_init_tid"),
        pl.col("_tid").first().alias("_any_tid"),
        pl.col("_dev").first(),
        pl.col("input_id").first(),
        pl.col("_line").first(),
        pl.col("_launcher_rank").drop_nulls().first(),
        pl.col("_pos").first(),
        (event == "init_start").any().alias("init_started"),
        (event == "init_complete").any().alias("init_complete"),
        pl.col("_pos").filter(event == "init_complete").first().alias("_done"),
        pl.col("_line").filter(event == "init_start").first().alias("init_started_line"),
        pl.col("_line").filter(event == "init_complete").first().alias("init_completed_line"),
        pl.col("_line").filter(ends).first().alias("destroyed_line"),
        pl.when(~ends.any())
        .then(pl.lit("no"))
        .when((pl.col("abort_kind") == "Abort").fill_null(False).any())
        .then(pl.lit("aborted"))
        .otherwise(pl.lit("destroyed"))
        .alias("destroyed"),
    )
    ranks = ranks.with_columns(
        _tid=pl.coalesce("_init_tid", "_any_tid"), init_started=pl.col("init_started") | pl.col("init_complete")
    )
    return _identify(ranks.sort("_pos"))


def _identify(ranks: pl.DataFrame) -> pl.DataFrame:
    """Fills ``comm_id`` where NCCL printed none, marks it in ``comm_id_made``, and adds ``parent_comm_id``."""
    printed = pl.col("comm_id").is_not_null()
    ranks = ranks.with_columns(comm_id_made=~printed)
    split = ranks.filter(~printed & pl.col("parent_comm").is_not_null())
    plain = ranks.filter(~printed & pl.col("parent_comm").is_null())
    known = _tell_splits_apart(ranks.filter(printed))
    if plain.height:
        plain = plain.with_columns(_nth=_number(plain))
        plain = plain.with_columns(comm_id=pl.format("made-n{}-{}", pl.col("nranks").fill_null(0), "_nth")).drop("_nth")
        known = pl.concat([known, plain]).sort("_pos")
    # A split of a split needs its parent's name first; nesting is shallow in practice.
    for _ in range(8):
        if not split.height:
            break
        split, named = _name_splits(split, known)
        if not named.height:
            break
        known = pl.concat([known, named.select(known.columns)]).sort("_pos")
    if split.height:
        orphan = pl.format(
            "made-orphan-{}-{}", pl.col("nranks").fill_null(0), pl.int_range(pl.len()).over("nranks", "rank")
        )
        known = pl.concat([known, split.with_columns(comm_id=orphan).select(known.columns)]).sort("_pos")
    parents = resolve(
        known.filter(pl.col("parent_comm").is_not_null()).select(*_PROCESS, "_pos", "parent_comm", "comm", "rank"),
        known,
        "parent_comm",
    )
    if parents.height:
        named = parents.select(*_PROCESS, "comm", "rank", "_pos", parent_comm_id="comm_id")
        return known.join(named, on=[*_PROCESS, "comm", "rank", "_pos"], how="left", nulls_equal=True)
    return known.with_columns(parent_comm_id=pl.lit(None, pl.String))


def _number(plain: pl.DataFrame) -> pl.Series:
    """The number among communicators of its size of each rank's: the same rank of two is of two communicators.

    Where each host has every rank as often as any other, each communicator is of one host: those of two hosts may come
    in another order on each.
    """
    size = pl.col("nranks")
    often = plain.group_by("nranks", "_host", "rank").len()
    alike = often.group_by("nranks", "_host").agg(
        whole=(pl.len() == size.first()) & (pl.col("len").n_unique() == 1) & pl.col("_host").is_not_null().all()
    )
    inside = alike.group_by("nranks").agg(_inside=pl.col("whole").all() & (pl.len() > 1))
    rows = plain.select("nranks", "rank", "_host").join(inside, on="nranks", how="left", nulls_equal=True)
    rows = rows.with_row_index("_at").with_columns(
        _nth=pl.int_range(pl.len()).over("nranks", "rank"), _own=pl.int_range(pl.len()).over("nranks", "rank", "_host")
    )
    begun = pl.col("_at").min().over("nranks", "_host", "_own")
    order = begun.rank("dense").over("nranks").cast(pl.Int64) - 1
    number = pl.when(pl.col("_inside").fill_null(False)).then(order).otherwise("_nth")
    return rows.select(number.alias("_nth")).to_series()


def _tell_splits_apart(known: pl.DataFrame) -> pl.DataFrame:
    """2.21-2.22 hash a split's id from parent and colour only, so later splits of a parent repeat ids.

    Splits of one id and different sizes, or with a rank that comes again, are different communicators.
    """
    child = pl.col("parent_comm").is_not_null()
    size = (pl.col("nranks") != pl.col("nranks").first().over("comm_id")) & child
    again = pl.when(child).then(pl.int_range(pl.len()).over("comm_id", "nranks", "rank")).otherwise(0)
    named = known.with_columns(_size=size.fill_null(False), _again=again)
    plain = ~pl.col("_size") & (pl.col("_again") == 0)
    suffixed = pl.format("{}#n{}.{}", "comm_id", "nranks", "_again")
    return named.with_columns(comm_id=pl.when(plain).then("comm_id").otherwise(suffixed)).drop("_size", "_again")


def _name_splits(split: pl.DataFrame, known: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    parents = resolve(split.with_row_index("_row"), known, "parent_comm", "parent_id")
    named = parents.filter(pl.col("parent_id").is_not_null())
    if not named.height:
        return split, named
    # 2.23 prints no number of the split: count the splits of a parent within each process.
    nth = pl.int_range(pl.len()).over(*_PROCESS, "parent_comm", "color", "_tid")
    number = pl.coalesce(pl.col("split_count"), nth.cast(pl.Int64))
    named = named.with_columns(
        comm_id=pl.format("{}/{}.{}", pl.col("parent_id"), number, pl.col("color").fill_null(-1))
    )
    rest = split.with_row_index("_row").join(named.select("_row"), on="_row", how="anti").drop("_row")
    return rest, named.drop("_row", "parent_id")


class Pointers:
    """Which communicator a pointer meant at a line: the latest one of the process at or before it.

    A second try looks without the input (a log that was rotated), a third after the row.
    """

    _TRIES: Final[tuple[tuple[tuple[str, ...], Strategy], ...]] = (
        (_PROCESS, "backward"),
        (("_host", "_pid"), "backward"),
        (_PROCESS, "forward"),
    )

    def __init__(self, ranks: pl.DataFrame, pointer: str) -> None:
        self._pointer = pointer
        known = ranks.filter(pl.col("comm_id").is_not_null())
        lookup = known.select(*_PROCESS, pl.col("comm").alias(pointer), "_pos", "comm_id")
        self._tables = [cache(partial(keyed, lookup, [*by, pointer])) for by, _ in self._TRIES]

    def resolve(self, rows: pl.DataFrame, name: str = "comm_id") -> pl.DataFrame:
        """The rows with the communicator in the column ``name``; null where none is known."""
        out = rows.drop("comm_id", strict=False) if name == "comm_id" else rows
        columns = ["_row", "_pos", *_PROCESS, self._pointer]
        asked = out.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias("_row"))[columns]
        # No communicator is without a pointer, so rows without one need not be looked up; often that is all of them.
        missing, bare = parted(asked, asked[self._pointer].is_not_null())
        found = [bare.select("_row", pl.lit(None, pl.String).alias("comm_id"))]
        for (by, strategy), table in zip(self._TRIES, self._tables, strict=True):
            if not missing.height:
                break
            joined = asof(missing, table(), [*by, self._pointer], strategy)
            known, unknown = parted(joined, joined["comm_id"].is_not_null())
            found.append(known[["_row", "comm_id"]])
            missing = unknown[columns]
        named = pl.concat([*found, missing.select("_row", pl.lit(None, pl.String).alias("comm_id"))])
        return out.hstack([named.sort("_row")["comm_id"].alias(name)])


def resolve(rows: pl.DataFrame, ranks: pl.DataFrame, pointer: str, name: str = "comm_id") -> pl.DataFrame:
    """:class:`Pointers` for one frame."""
    return Pointers(ranks, pointer).resolve(rows, name)


def keyed(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """The right side of :func:`asof`: ``_by``, a hash of the group, instead of its columns."""
    kept = [name for name in rows.columns if name not in (*by, *_PROCESS)]
    ordered = rows.select(*kept, pl.struct(by).hash().alias("_by")).sort("_pos", maintain_order=True)
    return ordered.unique(["_by", "_pos"], keep="first", maintain_order=True)


def asof(left: pl.DataFrame, right: pl.DataFrame, by: list[str], strategy: Strategy = "backward") -> pl.DataFrame:
    """As-of join on ``_pos`` with groups in which nulls are equal to each other; ``right`` is :func:`keyed`."""
    rows = left if left["_pos"].is_sorted() else left.sort("_pos", maintain_order=True)
    hashed = rows.with_columns(pl.struct(by).hash().alias("_by"))
    joined = hashed.join_asof(right, on="_pos", by="_by", strategy=strategy, check_sortedness=False)
    return joined[[name for name in joined.columns if name != "_by"]]


def parted(rows: pl.DataFrame, wanted: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows that are wanted, and the others; often they are all or none, and nothing need be looked up."""
    if wanted.all():
        return rows, rows.clear()
    if not wanted.any():
        return rows.clear(), rows
    return rows.filter(wanted), rows.filter(~wanted)


def communicators(ranks: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """One row per communicator. ``versions`` has ``_host, _pid, nccl_version`` of the processes."""
    joined = ranks.join(versions, on=["_host", "_pid"], how="left", nulls_equal=True)
    grouped = joined.group_by("comm_id", maintain_order=True).agg(
        pl.col("input_id").first(),
        pl.col("_line").first().alias("line"),
        pl.col("comm_id_made").any(),
        pl.col("nranks").max(),
        pl.col("rank").unique().sort().alias("_ranks"),
        pl.col("n_nodes").max(),
        pl.col("_host").drop_nulls().unique().sort().alias("hosts"),
        pl.col("parent_comm_id").drop_nulls().first(),
        pl.col("api").drop_nulls().first(),
        pl.col("nccl_version").drop_nulls().unique().sort().alias("nccl_versions"),
        pl.col("init_complete").all(),
        pl.col("_pos").first(),
    )
    everyone = pl.int_ranges(0, pl.col("nranks").clip(0, 1_000_000).fill_null(0), dtype=pl.Int32)
    return (
        grouped.with_columns(
            ranks_seen=pl.col("_ranks").list.len().cast(pl.Int32),
            missing_ranks=everyone.list.set_difference(pl.col("_ranks")).list.sort(),
        )
        .with_columns(init_complete=pl.col("init_complete") & (pl.col("missing_ranks").list.len() == 0))
        .sort("_pos")
        .drop("_ranks", "_pos")
    )

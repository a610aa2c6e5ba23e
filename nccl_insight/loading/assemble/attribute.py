"""Which communicator does a line without a communicator belong to?

Lines of one thread belong to the init that the thread is in: from its Init START (2.18+), or, where older versions
print only Init COMPLETE, from the thread's previous completion on. A line of a thread that never ran an init
belongs to the latest init of the same process and device, then of the process.
"""

from functools import cache, cached_property, partial
from typing import Final, cast

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.loading.assemble.comms import Pointers, asof, keyed, parted
from nccl_insight.loading.assemble.feeds import THREAD
from nccl_insight.tables.schema import owner

_KEYS: Final = (
    ["input_id", "_host", "_pid", "_tid", "_dev"],
    ["input_id", "_host", "_pid", "_tid"],
    ["input_id", "_host", "_pid", "_dev"],
    ["input_id", "_host", "_pid"],
    ["_host", "_pid"],
)
# From so many lines on it is asked whether they can be attributed together.
_MANY: Final = 1000
_NOBODY: Final = (pl.lit(None, pl.String).alias("comm_id"), pl.lit(None, pl.Int32).alias("_rank"))

# Owners by thread and pointer, before any was asked for.
_NONE_KNOWN: Final = pl.DataFrame(schema={"_key": pl.UInt64, "comm_id": pl.String, "_own_rank": pl.Int32})


@dataclass(frozen=True)
class Kinds:
    """Lines by thread and pointer: ``numbers`` tells which row of ``owners`` (``comm_id, _own_rank``) each has.

    ``processes``: ``_host, _pid`` of each row of ``owners``.
    """

    numbers: pl.Series
    owners: pl.DataFrame
    processes: pl.DataFrame

    def hashed(self) -> pl.Series:
        """The column :data:`OWNER` of the lines, where their messages name no rank, host or process themselves."""
        names = {"_own_rank": "rank", "_host": "host", "_pid": "pid"}
        each = self.owners.hstack(self.processes).rename(names).select(owner()).to_series()
        return each.gather(self.numbers)


class Owners:
    """The lives of all ranks, ready to be asked for the owner of a line; built once for all tables."""

    def __init__(self, ranks: pl.DataFrame) -> None:
        self._any = ranks.height > 0
        self._ranks = ranks
        self._lives = [cache(partial(_intervals, ranks, by)) for by in _KEYS]
        self._pointers = Pointers(ranks, "comm")
        # Owners by thread and pointer that were asked for among lines between two changes.
        self._known: dict[int, pl.DataFrame] = {}

    @cached_property
    def _single(self) -> pl.DataFrame:
        """A process is one rank of most of its communicators; where it is several, the thread's init decides."""
        return (
            self._ranks.filter(pl.col("comm_id").is_not_null())
            .group_by("_host", "_pid", "comm_id")
            .agg(pl.col("rank").n_unique().alias("_ranks"), pl.col("rank").first().alias("_single_rank"))
            .filter(pl.col("_ranks") == 1)
            .select(_member_of(), "_single_rank")
        )

    @cached_property
    def _changes(self) -> pl.Series:
        """Lines from which on a thread or a pointer may belong to another communicator."""
        begins = [lives()["_pos"] for lives in self._lives]
        changes: pl.Series = pl.concat([*begins, self._ranks["_pos"].cast(pl.UInt64)]).unique().sort()
        return changes

    def attribute(self, rows: pl.DataFrame, kinds: Kinds | None = None) -> pl.DataFrame:
        """Adds ``comm_id`` and, where the message has none, ``rank`` (of the process that printed the line).

        ``kinds``: what :meth:`kinds` said of these rows, for those who ask several times.
        """
        if not self._any:
            out = rows.with_columns(comm_id=pl.lit(None, pl.String), _own_rank=pl.lit(None, pl.Int32))
            return out if "rank" in out.columns else out.rename({"_own_rank": "rank"})
        kinds = kinds or self.kinds(rows)
        if kinds is None:
            out = self._each(rows)
        else:
            out = rows.drop("comm_id", strict=False).hstack(kinds.owners[kinds.numbers])
        own = out.drop_in_place("_own_rank")
        return (
            out.with_columns(rank=pl.coalesce("rank", own))
            if "rank" in out.columns
            else out.hstack([own.alias("rank")])
        )

    def _epoch(self, rows: pl.DataFrame) -> int | None:
        """Before how many lines at which an owner changes all these stand; None where one is among them.

        Among lines of an epoch all of a thread and pointer have one owner.
        """
        if rows.height < _MANY:
            return None
        before = self._changes.search_sorted(cast(int, rows["_pos"].min()), "left")
        through = self._changes.search_sorted(cast(int, rows["_pos"].max()), "right")
        return before if before == through else None

    def kinds(self, rows: pl.DataFrame) -> Kinds | None:
        """The owners of lines among which none changes, asked once for each thread and pointer; else None."""
        epoch = self._epoch(rows) if self._any else None
        if epoch is None:
            return None
        thread = [THREAD] if THREAD in rows.columns else list(_KEYS[0])
        key = pl.struct(*thread, *(["comm"] if "comm" in rows.columns else [])).hash().alias("_key")
        keys = rows.select(key)
        firsts = keys["_key"].arg_unique()
        kinds = keys[firsts].with_row_index("_kind")
        numbers = keys.join(kinds, on="_key", how="left", maintain_order="left")["_kind"]
        known = self._known.get(epoch, _NONE_KNOWN)
        found = kinds["_key"].is_in(known["_key"].implode())
        if not found.all():
            more = firsts.filter(~found)
            asked = self._each(rows[more]).select(keys["_key"].gather(more), "comm_id", "_own_rank")
            known = self._known[epoch] = pl.concat([known, asked])
        owners = kinds.join(known, on="_key", how="left", maintain_order="left")
        return Kinds(numbers.shrink_dtype(), owners.select("comm_id", "_own_rank"), rows[firsts][["_host", "_pid"]])

    def _each(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the owner of each: ``comm_id`` and ``_own_rank``."""
        has_pointer = "comm" in rows.columns
        base = rows.drop("comm_id", strict=False)
        missing = rows.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("_row"), "_pos", *_KEYS[0])
        found: list[pl.DataFrame] = []
        for by, lives in zip(_KEYS, self._lives, strict=True):
            if not missing.height:
                break
            joined = asof(missing, lives(), by)
            known, unknown = parted(joined, joined["comm_id"].is_not_null())
            found.append(known[["_row", "comm_id", "_rank"]])
            missing = unknown[missing.columns]
        owned = pl.concat([*found, missing.select("_row", *_NOBODY)], how="vertical_relaxed")
        owned = owned.sort("_row")
        out = base.hstack([owned["comm_id"], owned["_rank"].alias("_own_rank")])
        if has_pointer:
            pointed = self._pointers.resolve(out.select("input_id", "_host", "_pid", "_pos", "comm"))
            out = out.with_columns(comm_id=pl.coalesce(pointed["comm_id"], pl.col("comm_id")))
            single = out.select(_member_of()).join(self._single, on="_member", how="left", maintain_order="left")
            out = out.with_columns(_own_rank=pl.coalesce(single["_single_rank"], "_own_rank"))
        return out


def _member_of() -> pl.Expr:
    """A process in a communicator, as one number."""
    return pl.struct("_host", "_pid", "comm_id").hash().alias("_member")


def _intervals(ranks: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Where each rank's life begins for lines of a key: its start, or behind the previous completion."""
    key = pl.struct(by).hash()
    ordered = ranks.sort("_pos").sort(key, maintain_order=True)
    previous = pl.when(key == key.shift(1)).then(pl.col("_done").shift(1)).fill_null(0) + 1
    started = pl.col("init_started") & (pl.col("_done").is_null() | (pl.col("_done") > pl.col("_pos")))
    begin = pl.when(started).then(pl.col("_pos")).otherwise(previous)
    return keyed(ordered.select(*by, begin.cast(pl.UInt64).alias("_pos"), "comm_id", pl.col("rank").alias("_rank")), by)

"""Settings that NCCL reported, by process and by communicator."""

from collections.abc import Iterable

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import capital, rank_words
from nccl_insight.tables.run import Run, fact

_WIDE = 50
_FALSE = ("0", "false", "no", "off", "n", "")


@fact
def settings(run: Run) -> pl.DataFrame:
    """What users set: ``host, pid, name, value, origin, input_id, line``, the last value of each name.

    Values are stripped of quotes, blanks and the full stop that some versions print.
    """
    return (
        run.lazy("env")
        .filter(pl.col("name").is_not_null() & (pl.col("origin").cast(pl.String).ne_missing("default")))
        .with_columns(
            pl.col("value").str.strip_chars(" \t\"'").str.replace(r"\.$", ""), pl.col("origin").cast(pl.String)
        )
        .select("host", "pid", "name", "value", "origin", "input_id", "line")
        .unique(["host", "pid", "name"], keep="last", maintain_order=True)
        .collect(engine="in-memory")
    )


def setting(run: Run, name: str) -> pl.DataFrame:
    """Rows of :func:`settings` for one variable."""
    known = settings(run)
    # Most of those who ask find nothing, and a query costs more than this.
    return known.filter(pl.col("name") == name) if name in known["name"].to_list() else known.clear()


def value_of(run: Run, name: str) -> str | None:
    """The first value of a variable, or ``None`` when nobody set it."""
    rows = setting(run, name)
    return None if rows.is_empty() else rows.item(0, "value")


def switched_on(run: Run, name: str) -> pl.DataFrame:
    """Rows of :func:`settings` in which a boolean variable is on: any value but those that NCCL takes for false."""
    rows = setting(run, name)
    return rows if rows.is_empty() else rows.filter(~pl.col("value").str.to_lowercase().is_in(list(_FALSE)))


def refs(frame: pl.DataFrame, limit: int = 3) -> tuple[Ref, ...]:
    """The first rows of a frame with ``input_id`` and ``line`` as evidence; rows without a line are left out."""
    found: dict[tuple[int, int], Ref] = {}
    for place in zip(frame["input_id"], frame["line"], strict=True):
        if len(found) == limit:
            break
        if None not in place:
            found.setdefault(place, Ref(*place))
    return tuple(found.values())


def hosts_of(frame: pl.DataFrame, column: str = "host") -> tuple[str, ...]:
    """Sorted distinct names of a column."""
    return tuple(sorted({*frame.get_column(column).unique().to_list()} - {None}))


def ranks_of(frame: pl.DataFrame, *columns: str) -> tuple[int, ...]:
    """Sorted distinct ranks of one or more columns."""
    return tuple(sorted({rank for c in columns or ("rank",) for rank in frame.get_column(c).drop_nulls()}))


def ranks_on(ranks: Iterable[int], hosts: Iterable[str]) -> str:
    """``Ranks 3,4 on gpu02``, to begin a sentence; without the hosts where none is known."""
    return capital(rank_words(ranks)) + (f" on {where}" if (where := named(hosts)) else "")


def named(hosts: Iterable[str], limit: int = 4) -> str:
    """Hosts for a title: ``node01``, ``node01, node02`` or ``node01, node02, ... (9 hosts)``; fewer of long names."""
    every = list(hosts)
    while limit > 1 and sum(map(len, every[:limit])) > _WIDE:
        limit -= 1
    if len(every) <= limit:
        return ", ".join(every)
    return ", ".join(every[:limit]) + f", ... ({len(every)} hosts)"

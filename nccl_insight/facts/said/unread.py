"""Lines of NCCL that many processes print and whose wording is not known here: a release newer than the grammar.

A table that such lines would fill is empty or half empty then, without any other sign of it.
"""

from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.said.topics import told
from nccl_insight.tables.run import Run, fact
from nccl_insight.tables.schema import is_loud

_LEAST: Final = 2
_BY_ONE: Final = ("rings", "version")  # what the first rank prints for all
_EXCERPT: Final = 80


@dataclass(frozen=True)
class Unread:
    """Lines of one wording. ``about``: the table that they would fill, in words; ``example``: the first of them."""

    about: str
    count: int
    example: str


@fact
def unread(run: Run) -> tuple[Unread, ...]:
    """What lines say that every process seems to print and that no rule reads, the most lines first."""
    if not run.has("unknown"):
        return ()
    rows = run.table("unknown").filter(~is_loud(pl.col("level")).fill_null(False))
    if rows.is_empty():
        return ()
    processes = run.table("processes").select("host", "pid").unique().height
    rows = rows.with_columns(text=pl.col("example"))
    rows = rows.with_columns(_about=told(rows, "told-by-every-process")).drop_nulls("_about")
    found = (
        rows.group_by("_about", maintain_order=True)
        .agg(pl.col("count").sum(), pl.col("example").first())
        .filter(
            pl.col("count") >= pl.when(pl.col("_about").is_in(_BY_ONE)).then(_LEAST).otherwise(max(_LEAST, processes))
        )
        .sort("count", descending=True, maintain_order=True)
    )
    return tuple(
        Unread(str(about).replace("-", " "), int(count), " ".join(str(example).split())[:_EXCERPT])
        for about, count, example in found.iter_rows()
    )

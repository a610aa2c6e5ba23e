"""What NCCL's tuner chose, of which a log may have millions of rows: counted piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class Chosen:
    """Choices of one kind: how many, and the first rows of the table ``tuning_choice`` that show them."""

    count: int
    rows: pl.DataFrame


def choices(run: Run) -> pl.DataFrame:
    """How often each algorithm and protocol was chosen: ``algorithm, protocol, len``."""
    return run.memo("facts.choices", _choices)


def _choices(run: Run) -> pl.DataFrame:
    kind = ["algorithm", "protocol"]
    parts = [frame.drop_nulls("algorithm").group_by(kind).len() for frame in run.pieces("tuning_choice")]
    return pl.concat(parts).group_by(kind).agg(pl.col("len").sum())


def first_of(run: Run, kinds: Mapping[str, pl.Expr], lines: int = 2) -> Iterator[tuple[str, Chosen]]:
    """The choices that meet a condition, by its name; kinds that nothing meets are left out.

    Args:
        run: the run.
        kinds: conditions on the columns of ``tuning_choice``.
        lines: of how many lines the rows are kept.
    """
    counts = dict.fromkeys(kinds, 0)
    rows: dict[str, pl.DataFrame] = {}
    for frame in run.pieces("tuning_choice"):
        for name, condition in kinds.items():
            found = frame.filter(condition)
            counts[name] += found.height
            if found.height and (name not in rows or rows[name].height < lines):
                known = [rows[name]] if name in rows else []
                both = pl.concat([*known, found.head(100 * lines)])
                rows[name] = both.unique(["input_id", "line"], keep="first", maintain_order=True).head(lines)
    for name in kinds:
        if name in rows:
            yield name, Chosen(counts[name], rows[name])

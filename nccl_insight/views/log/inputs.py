"""Inputs and warnings of a run."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run
from nccl_insight.tables.schema import is_loud

_FILES = 6


@dataclass(frozen=True)
class Input:
    """A file, its kind, its lines and how many of them are NCCL's."""

    path: str
    kind: str
    lines: int
    nccl_lines: int


@dataclass(frozen=True)
class Inputs:
    """The first files of ``total``."""

    files: tuple[Input, ...]
    total: int


@dataclass(frozen=True)
class Trouble:
    """Warnings, and the text of the first where the log has it."""

    warnings: int
    first: str | None


def inputs(run: Run) -> Inputs:
    """The files that were read."""
    table = run.table("inputs").select("path", "kind", "lines", "nccl_lines")
    return Inputs(tuple(Input(*row) for row in table.head(_FILES).iter_rows()), table.height)


def trouble(run: Run) -> Trouble | None:
    """The warnings of the log, None without any."""
    loud = run.table("errors").filter(is_loud(pl.col("level")) & (pl.col("level") != "DIAG"))
    texts = loud.get_column("text").drop_nulls()
    return Trouble(loud.height, texts.item(0) if texts.len() else None) if loud.height else None

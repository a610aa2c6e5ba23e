"""Findings from what ingest noted about an input."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Hit, Ref
from nccl_insight.rules.context import says
from nccl_insight.tables.run import Run


def log_notes(run: Run, kind: str, headline: str, next_step: str, explanation: str, expected: str) -> Iterator[Hit]:
    """One hit for all notes of a kind; nothing when there are none."""
    notes = run.table("notes").filter(pl.col("kind") == kind)
    if notes.is_empty():
        return
    files = notes["input_id"].n_unique()
    details = notes["detail"].drop_nulls()
    rows = notes.select("input_id", "line").head(4).iter_rows()
    where = f" in {files} inputs" if files > 1 else ""
    yield says(
        "log-truncated.log-notes",
        tuple(Ref(int(i), int(n)) for i, n in rows if i is not None and n),
        next_step=next_step,
        explanation=explanation,
        expected=expected,
        absence=None if notes["line"].drop_nulls().len() else str(details[0]) if len(details) else headline,
        headline=headline,
        notes=notes,
        where=where,
        details=str(details[0]) if len(details) else f"{notes.height} places",
    )

"""Findings made of what readers noted about the inputs."""

from collections.abc import Iterator, Sequence

import polars as pl

from nccl_insight.base.model import Hit, Ref
from nccl_insight.rules.context import Context
from nccl_insight.tables.run import Run


def noted(run: Run, kind: str) -> tuple[Sequence[str], tuple[Ref, ...]]:
    """What was noted under a diagnosis name: ``input: detail`` texts and their evidence, in input order."""
    rows = run.table("notes")
    if not rows.is_empty():
        rows = rows.filter(pl.col("kind") == kind).unique(maintain_order=True)
    if rows.is_empty():
        return (), ()
    paths = dict(run.table("inputs").select("input_id", "path").iter_rows())
    texts: list[str] = []
    refs: list[Ref] = []
    ordered = rows.sort("input_id", "line", nulls_last=True).select("input_id", "line", "detail")
    for input_id, line, detail in ordered.iter_rows():
        name = str(paths.get(input_id, "")).replace("\\", "/").rsplit("/", 1)[-1]
        texts.append(f"{name}: {detail}" if name else str(detail))
        if input_id is not None:
            refs.append(Ref(input_id, line or 0, str(detail)))
    return texts, tuple(refs)


def log_notes(ctx: Context) -> Iterator[Hit]:
    """One hit, ``log-notes`` of the page, for all notes about logs that lead to this diagnosis; else nothing."""
    notes = ctx.run.table("notes").filter(pl.col("kind") == ctx.name)
    if notes.is_empty():
        return
    files = notes["input_id"].n_unique()
    details = str(next(iter(notes["detail"].drop_nulls()), f"{notes.height} places"))
    yield ctx.says(
        "log-notes",
        tuple(Ref(int(i), int(n)) for i, n in notes.select("input_id", "line").head(4).drop_nulls().iter_rows() if n),
        absence=None if notes["line"].drop_nulls().len() else details,
        notes=notes,
        where=f" in {files} inputs" if files > 1 else "",
        details=details,
    )

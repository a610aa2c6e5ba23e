"""Findings made of what readers noted about the inputs."""

from collections.abc import Sequence

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Ref
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


@dataclass(frozen=True)
class Notes:
    """What is noted about logs: the first lines, how many places, in which inputs, and the first note in words."""

    evidence: tuple[Ref, ...]
    places: int
    where: str
    details: str
    absence: str | None


def log_notes(run: Run, kind: str) -> Notes | None:
    """The notes about logs that lead to a diagnosis, if any."""
    notes = run.table("notes").filter(pl.col("kind") == kind)
    if notes.is_empty():
        return None
    first = notes.select("input_id", "line").head(4).drop_nulls()
    files = notes["input_id"].n_unique()
    details = str(next(iter(notes["detail"].drop_nulls()), ""))
    return Notes(
        tuple(Ref(int(i), int(n)) for i, n in first.iter_rows() if n),
        notes.height,
        f" in {files} inputs" if files > 1 else "",
        details,
        None if notes["line"].drop_nulls().len() else details,
    )

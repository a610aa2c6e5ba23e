"""What readers of traces and side files noted about an input."""

from __future__ import annotations

import polars as pl

from nccl_insight.model import Ref
from nccl_insight.tables.run import Run

_EVIDENCE = 8


def noted(run: Run, *kinds: str) -> tuple[list[str], tuple[Ref, ...]]:
    """Distinct texts of the notes of these kinds, in reading order, and the notes as evidence."""
    rows = run.table("notes").filter(pl.col("kind").is_in(list(kinds)) & pl.col("detail").is_not_null())
    texts = rows["detail"].unique(maintain_order=True).to_list()
    refs = rows.filter(pl.col("input_id").is_not_null()).unique(maintain_order=True).head(_EVIDENCE)
    shown = refs.select("input_id", "line", "detail").iter_rows()
    return texts, tuple(Ref(int(i), int(n or 0), str(d)) for i, n, d in shown)

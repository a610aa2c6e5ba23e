"""Which lines between those of an NCCL log may belong to the output of other programs that is read, too."""

from __future__ import annotations

import polars as pl

from nccl_insight.readers.embedded import progress, tracebacks, value_checks
from nccl_insight.readers.embedded.endings import LAST_LINES, ending_lines

_NCCL_TESTS = r"^[^#]{0,60}# |^\s*(?:\S+\s+){0,3}[0-9]+ +[0-9]+ +[a-z0-9]+ "


def tool_lines(frame: pl.DataFrame, column: str = "_text") -> pl.DataFrame:
    """The rows that may be of nccl-tests, a traceback, counted steps or an end, and the last of each input."""
    text = pl.col(column)
    wanted = text.str.contains(_NCCL_TESTS) | ending_lines(text)
    signs = text.str.contains_any(list(tracebacks.SIGNS))
    if frame.select(signs.any()).item():
        wanted = wanted | (signs & text.str.contains(tracebacks.NEAR))
    checked = text.str.contains_any(list(value_checks.SIGNS))
    if frame.select(checked.any()).item():
        wanted = wanted | (checked & value_checks.check_lines(text))
    counted = frame.select(progress.progress_lines(text).alias("_counted"))["_counted"]
    if counted.any():
        kept = progress.thinned(frame.with_row_index("_at").filter(counted))
        at = kept.filter(progress.near(text))["_at"]
        wanted = wanted | pl.int_range(pl.len()).is_in(at.implode())
    if {"_line", "input_id"} <= set(frame.columns):
        last = pl.when(text.str.contains(r"\S")).then("_line").max().over("input_id")
        wanted = wanted | (pl.col("_line").cast(pl.Int64) > last.cast(pl.Int64) - LAST_LINES)
    return frame.filter(wanted)

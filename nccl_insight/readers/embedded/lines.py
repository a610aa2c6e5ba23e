"""Which lines between those of an NCCL log may belong to the output of other programs that is read, too."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.readers.embedded import endings, progress, tracebacks, value_checks

_NCCL_TESTS: Final = r"^[^#]{0,60}# |^\s*(?:\S+\s+){0,3}[0-9]+ +[0-9]+ +[a-z0-9]+ "
_NEVER: Final = 1 << 62
SIGNS: Final = (*endings.SIGNS, *tracebacks.SIGNS, *value_checks.SIGNS)
"""One of these stands in each line of a traceback, a check of values or an end, but for heads that were cut off."""


def tool_lines(frame: pl.DataFrame, ends: Mapping[int, int]) -> pl.DataFrame:
    """The rows that may be of nccl-tests, a traceback, counted steps or an end, and the last of each input.

    ``frame``: ``_line, _text, input_id`` and ``_likely``, which lines may hold one of :data:`SIGNS`. ``ends``: the last
    line of each input that is not blank, 0 where there is none.
    """
    texts = frame["_text"]
    wanted = texts.str.contains(_NCCL_TESTS)
    at = frame["_likely"].arg_true()
    wanted = wanted.scatter(at.filter(_telling(texts.gather(at))), True)
    counted = frame.select(progress.progress_lines(pl.col("_text"))).to_series()
    if counted.any():
        kept = progress.thinned(frame.with_row_index("_at").filter(counted))
        wanted = wanted.scatter(kept.filter(progress.near(pl.col("_text")))["_at"], True)
    wanted = wanted.scatter(endings.last_of_ranks(texts), True)
    # Of an input of blank lines none is its last.
    before = [end - endings.LAST_LINES if end else _NEVER for end in ends.values()]
    if len(before) == 1:
        wanted |= frame["_line"].cast(pl.Int64) > before[0]
    elif frame.height:
        after = frame["input_id"].replace_strict(list(ends), before, return_dtype=pl.Int64)
        wanted |= frame["_line"].cast(pl.Int64) > after
    return frame.drop("_likely").filter(wanted)


def _telling(texts: pl.Series) -> pl.Series:
    """Which lines may be of a traceback, a check of values, or an end."""
    lines, text = texts.to_frame("text"), pl.col("text")
    found = lines.select(endings.ending_lines(text)).to_series()
    # Asked one by one because the patterns take milliseconds to compile, and each of thousands of inputs is asked.
    for signs, near in (
        (tracebacks.SIGNS, text.str.contains(tracebacks.NEAR)),
        (value_checks.SIGNS, value_checks.check_lines(text)),
    ):
        at = texts.str.contains_any(list(signs)).arg_true()
        if at.len():
            found = found.scatter(at.filter(lines[at].select(near).to_series()), True)
    return found

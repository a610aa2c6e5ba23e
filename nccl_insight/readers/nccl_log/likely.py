"""Which lines that are no clean record anybody could be interested in, found in one pass.

Most lines of a training job are its own. Each of those who look for something between NCCL's lines has literals of
which one stands in every line that matters; all these are looked for at once, and only lines that hold one are asked
about further. As an alternation, for which Rust's engine is twice as fast as an automaton.
"""

import re
from collections.abc import Callable
from typing import Final

import polars as pl

from nccl_insight.language.catalog import Catalog
from nccl_insight.readers import host_tools
from nccl_insight.readers.embedded.lines import SIGNS

#: What an exception announces on its next line as NCCL's last error.
LAST_ERROR: Final = "Last error:"
#: XLA's words in front of NCCL's last warning.
QUOTE: Final = "Last NCCL warning(error)"
#: Of a line of torch's watchdog that was wrapped, what no rule could do without may be on the next line.
TORCH: Final = "ProcessGroupNCCL.cpp:"
#: What a sentence may quote of NCCL's: in back-ticks, bold or quotes, or behind the name of a result.
SAID: Final = '`[^`]{24}|[*][*][^*]{24}|\u201c|nccl[A-Z][A-Za-z]+Error: |^[^"]*"[^"]{24,}"?[^"]*$'
#: Signs of a record in an unusual place, and of one that lost the beginning of its head.
RECORD: Final = r"NCCL|\] INFO |\] WARN |\.c[cu]:[0-9]+ (?:INFO|WARN) |\] \[FATAL ERROR\]:"
LOST_HEAD: Final = ("L INFO ", "L WARN ")
# How a line ends whose writer stopped within a head.
_HEAD_END: Final = r":[0-9]+:[0-9]*(?: \[-?[0-9]*\]?)?(?: N(?:CC?L?)?)?(?: [A-Z]{1,4})? ?$"
# Of each literal so much: beyond a size of the whole pattern, searching takes a hundred times as long.
_ENOUGH: Final = 12
# Fewer lines are asked about by all: making the pattern takes as long.
_LEAST: Final = 5_000
# Up to so many texts of so many bytes together are looked through by Python for each of two thousand literals.
_FEW: Final = 64
_SHORT: Final = 32 << 10


def headless_signs(catalog: Catalog) -> list[str]:
    """Literals of which one stands in each line that may be a message without a head, if none announces it."""
    return [*catalog.headless_keys, QUOTE, TORCH]


def _many(texts: pl.Series) -> bool:
    return texts.len() > _FEW or texts.str.len_bytes().sum() > _SHORT


def holding(texts: pl.Series, signs: list[str]) -> pl.Series:
    """Which texts hold one of the signs; of few texts each is looked through, as an automaton takes longer to make."""
    return texts.str.contains_any(signs) if _many(texts) else held(texts.fill_null(""), signs).list.len() > 0


def held(texts: pl.Series, signs: list[str]) -> pl.Series:
    """The signs that each text holds, once each; found as by :func:`holding`."""
    if _many(texts):
        return texts.str.extract_many(signs, overlapping=True).list.unique()
    # Few of thousands of signs stand in one of the texts.
    whole = "\n".join(texts.to_list())
    signs = [sign for sign in signs if sign in whole]
    found = [[sign for sign in signs if sign in text] for text in texts.to_list()]
    return pl.Series(texts.name, found, dtype=pl.List(pl.String))


def pattern_of(catalog: Catalog) -> str:
    """What stands in each line that matters, but for lines of tables and such as count steps."""
    signs = {*headless_signs(catalog), *host_tools.SIGNS, *SIGNS, *LOST_HEAD, LAST_ERROR}
    begun: list[str] = []
    for sign in sorted(s[:_ENOUGH] for s in signs):
        if not begun or not sign.startswith(begun[-1]):
            begun.append(sign)
    return "|".join((RECORD, *map(re.escape, begun)))


def likely(texts: pl.Series, pattern: Callable[[], str]) -> pl.DataFrame:
    """Which lines hold a sign (``_likely``), by a pattern of :func:`pattern_of`, and which may matter (``_near``):
    these, those that may quote a message, and what follows one."""
    if texts.len() < _LEAST:
        every = pl.Series("_likely", [True], dtype=pl.Boolean).new_from_index(0, texts.len())
        return pl.DataFrame([every, every.alias("_near")])
    told = texts.str.contains(pattern()) | texts.str.contains(_HEAD_END)
    found = told | texts.str.contains(SAID)
    return pl.DataFrame({"_likely": told, "_near": found | found.shift(1, fill_value=False)})

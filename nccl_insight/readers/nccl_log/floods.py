"""Floods: many different texts of one rule in a chunk, such as COLL, TUNING and PROXY lines.

Classification by shape masks the numbers of every distinct text, which takes most of the time of a log whose texts
all differ. The texts of a flood begin alike up to their first number, so the rule of one is tried on all of them at
once. That gives what the catalog would give: the rule counts only where no rule that the catalog would try
before it can accept one of the texts, because a literal that stands in all texts of that rule stands in none of
these. All else is left to classification.
"""

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.language.catalog import Catalog

# Where the numbers of a text begin. Operation numbers are hexadecimal: many have no digit, as in `opCount bef`.
_NUMBER: Final = r"[0-9]|(?-u:\b)[0-9a-f]{2,}(?-u:\b)"
# Fewer lines than this cost less by shape than by an own pass.
LEAST: Final = 2_000
# So many that begin alike are worth a question about one of them: the openings of a rule are taken together.
_ALIKE: Final = 250
# So many texts, evenly spread, tell how the floods of a chunk begin.
_SAMPLED: Final = 4096
# Of those that begin alike this share must differ, else the few distinct texts are cheaper.
_DISTINCT: Final = 0.5


@dataclass(frozen=True)
class Guess:
    """The rule that a flood's texts likely belong to, and literals that none of them may hold."""

    rule: str
    without: tuple[str, ...]


def guess(catalog: Catalog, opening: str, sample: str) -> Guess | None:
    """The rule of a sample; None where it cannot speak for all texts that begin alike (``opening``)."""
    match = catalog.match(sample)
    if match is None:
        return None
    name = match.message.name
    if catalog.compiled(name).head_pattern is not None:
        return None
    without: list[str] = []
    for rule, required in catalog.ranked(opening):
        if rule == name:
            return Guess(name, tuple(dict.fromkeys(without)))
        if not required.strip():
            return None
        without.append(required)
    return None


def openings(bodies: pl.Series) -> dict[str, str]:
    """Openings that many different texts likely share, the most frequent first, each with a text that has it."""
    if bodies.len() < LEAST:
        return {}
    step = max(1, bodies.len() // _SAMPLED)
    sample = bodies.gather_every(step)
    found = (
        pl.DataFrame({"text": sample, "at": sample.str.find(_NUMBER).fill_null(0)})
        .group_by(pl.col("text").str.head("at").alias("opening"))
        .agg(pl.len(), pl.col("text").n_unique().alias("distinct"), pl.col("text").first())
        .filter((pl.col("len") * step >= _ALIKE) & (pl.col("distinct") >= _DISTINCT * pl.col("len")))
        .sort("len", "opening", descending=[True, False])
    )
    return {opening: text for opening, text in found.select("opening", "text").iter_rows() if opening}


def begin_with(texts: pl.Series, starts: Sequence[str]) -> pl.Series:
    """Which texts begin with one of some openings."""
    return (
        texts.to_frame("text")
        .select(pl.any_horizontal(pl.col("text").str.starts_with(start) for start in starts))
        .to_series()
    )


def holds_any(texts: pl.Series, literals: Sequence[str]) -> bool:
    """Whether one of the texts holds one of the literals.

    As an alternation, for which Rust's engine looks with vector instructions: ten times as fast as an automaton.
    """
    return bool(literals) and bool(texts.str.contains("|".join(map(re.escape, literals))).any())

"""Which grammar rule does each text belong to? Decided once per *shape*, not once per line.

The shape of a text is the text with every run of numbers masked. Texts of one shape nearly always belong to
one rule, so the catalog is asked once per shape; extraction then checks every row, and the few rows that
the shape's rule does not accept are looked up one by one.
"""

from functools import cached_property
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.language.catalog import Catalog, Match
from nccl_insight.readers.nccl_log.floods import Guess, guess
from nccl_insight.readers.nccl_log.head import Heads
from nccl_insight.readers.nccl_log.likely import pattern_of

# Numbers of a list are one; colons, brackets and arrows tell wordings apart, where letters may be hexadecimal digits.
_NUMBER: Final = r"[0-9a-f]*[0-9][0-9a-f]*(?:[-+ ,/.|_x]*[0-9a-f]*[0-9][0-9a-f]*)*"
_TEMPLATE: Final = r"0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)*"


@dataclass(frozen=True)
class Choice:
    """The rule of a shape: its number in :attr:`Classifier.names`, and whether blanks must be folded."""

    rule: int
    blanks: bool


# Tables of inner workings, large in verbose logs.
DETAIL_TABLES: Final = frozenset({"memory", "proxy", "registration", "api_calls"})
# No diagnosis needs these. Allocations are in a log only where someone asked for them.
UNNEEDED_TABLES: Final = DETAIL_TABLES - {"memory"}
# Values of calls that only tables show.
CALL_DETAILS: Final = frozenset(
    {"sendbuff", "recvbuff", "sendbuff_bare", "recvbuff_bare", "stream", "op_count_hex", "task", "global_rank"}
)
UNKNOWN: Final = Choice(-1, False)


class Classifier:
    """Remembers the rule of every shape seen; shared by all chunks and files of a process.

    ``foreign``: shapes of lines without head that looked like NCCL's and were not. ``headless``: what short lines
    without head were, some of which all ranks print alike.

    ``heads``: what heads said.

    ``details``: take all values of floods and the large tables of inner workings, also what no diagnosis needs.
    """

    def __init__(self, catalog: Catalog, details: bool = True) -> None:
        self.catalog = catalog
        self.details = details
        self._guesses: dict[str, Guess | None] = {}
        self.names = list(catalog.grammar.messages)
        self._number = {name: i for i, name in enumerate(self.names)}
        self._shapes: dict[int, Choice] = {}
        self.foreign: set[int] = set()
        self.heads = Heads()
        self.headless: dict[tuple[str, bool], tuple[Match, str, int]] = {}

    @cached_property
    def telling(self) -> str:
        """What stands in each line between records that matters."""
        return pattern_of(self.catalog)

    def guess(self, opening: str, sample: str) -> Guess | None:
        """The rule of a flood whose texts begin with ``opening``."""
        if opening not in self._guesses:
            self._guesses[opening] = guess(self.catalog, opening, sample)
        return self._guesses[opening]

    def unwanted(self, rule: str) -> frozenset[str]:
        """Columns of a rule that nobody will ask for."""
        if self.details:
            return frozenset()
        table = self.catalog.grammar.messages[rule].table
        if table is None or table in UNNEEDED_TABLES:
            return frozenset(name for name, _ in self.catalog.compiled(rule).columns)
        return CALL_DETAILS if table == "calls" else frozenset()

    def is_error(self, rule: str) -> bool:
        """Whether the rows of a rule are rows of the errors table."""
        return self.catalog.grammar.messages[rule].table == "errors"

    def _choose(self, text: str) -> Choice:
        found = self.catalog.match(text)
        if found is not None:
            return Choice(self._number[found.message.name], False)
        found = self.catalog.match_collapsed(text)
        if found is not None:
            return Choice(self._number[found.message.name], True)
        return UNKNOWN

    def classify(self, texts: pl.Series) -> pl.DataFrame:
        """Columns ``rule`` (i32, -1 unknown) and ``blanks`` (bool) for every text, in order."""
        frame = pl.DataFrame({"text": texts}).with_columns(shape=shape_of(pl.col("text")))
        unique = frame.group_by("shape").agg(pl.col("text").first())
        keys = unique["shape"].to_list()
        for key, text in zip(keys, unique["text"].to_list(), strict=True):
            if key not in self._shapes:
                self._shapes[key] = self._choose(text)
        known = pl.DataFrame(
            {
                "shape": unique["shape"],
                "rule": pl.Series([self._shapes[k].rule for k in keys], dtype=pl.Int32),
                "blanks": pl.Series([self._shapes[k].blanks for k in keys], dtype=pl.Boolean),
            }
        )
        return frame.select("shape").join(known, on="shape", how="left", maintain_order="left").select("rule", "blanks")


def shape_of(text: pl.Expr) -> pl.Expr:
    """Hash of a text with its numbers masked."""
    return text.str.replace_all(_NUMBER, "#").hash()


def template(texts: pl.Expr) -> pl.Expr:
    """Texts with their numbers masked, as shown for unknown lines."""
    return texts.str.replace_all(_TEMPLATE, "<N>").str.slice(0, 200)

"""lark as the reference engine."""

from __future__ import annotations

import polars as pl

from nccl_insight.language.catalog import Catalog
from nccl_insight.language.load import read_grammar
from nccl_insight.language.reference import Reference
from nccl_insight.readers.nccl_log.extract import extract
from tests.language.grammars import NOTATIONS
from tests.language.parsed import parse


def test_a_column_may_stand_in_several_branches_and_notations() -> None:
    rule = 'one: "lost " ( "rank " rank | "#" rank "!" | "padded" rank_padded ) [ ": " reason ]\n'
    grammar = read_grammar({"fields.lark": NOTATIONS, "a.lark": rule})
    catalog = Catalog(grammar)
    texts = {"lost rank 3": 3, "lost #4!": 4, "lost padded005: gone": 5, "lost it": None}
    for text, rank in texts.items():
        match = catalog.match(text)
        assert (match and int(match.captures["rank"])) == rank
        parsed = parse(Reference(grammar), grammar, "one", text)
        assert (parsed and int(parsed.captures["rank"])) == rank
    # Few texts go through Python's engine, many through polars.
    for times in (1, 600):
        rows = pl.Series(list(texts) * times)
        accepted, columns = extract(catalog.compiled("one"), rows)
        assert accepted.to_list() == [True, True, True, False] * times
        found = {column.name: column.to_list() for column in columns}
        assert found == {"rank": [3, 4, 5, None] * times, "reason": [None, None, "gone", None] * times}

"""Which grammar rule does each text belong to? Decided once per *shape*, not once per line."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log.classify import CALL_DETAILS, Classifier, shape_of, template

SET = "NCCL_{} set by environment to {}."


def test_texts_of_one_shape_are_of_one_rule() -> None:
    classifier = Classifier(default_catalog())
    texts = [SET.format("P1", 2), "no rule knows this", SET.format("P1", 33), "Bootstrap : Using eth0:10.0.0.1<0>"]
    found = classifier.classify(pl.Series(texts))
    names = [classifier.names[n] if n >= 0 else None for n in found["rule"]]
    assert names[1] is None
    assert names[3] == "bootstrap_using"
    assert names[0] is not None
    assert names[0] == names[2]
    assert not found["blanks"].any()


def test_blanks_are_folded_where_only_they_differ() -> None:
    classifier = Classifier(default_catalog())
    found = classifier.classify(pl.Series(["Bootstrap :   Using  eth0:10.0.0.1<0>"]))
    assert (classifier.names[found["rule"][0]], found["blanks"][0]) == ("bootstrap_using", True)
    assert classifier.classify(pl.Series([], dtype=pl.String)).is_empty()


def test_what_nobody_asks_for() -> None:
    catalog = default_catalog()
    call = next(m.name for m in catalog.grammar.messages.values() if m.table == "calls")
    assert Classifier(catalog).unwanted(call) == frozenset()
    assert Classifier(catalog, details=False).unwanted(call) == CALL_DETAILS
    assert Classifier(catalog).is_error("err_connect_retrying")
    assert not Classifier(catalog).is_error(call)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("rank 1 of 8", "rank 12 of 16", True), ("0x1f2e", "0xffff0", True), ("rank 1", "ranks 1", False)],
)
def test_shapes_are_texts_without_their_numbers(one: str, other: str, same: bool) -> None:
    shapes = pl.DataFrame({"text": [one, other]}).select(shape_of(pl.col("text"))).to_series()
    assert (shapes[0] == shapes[1]) is same
    shown = pl.DataFrame({"text": [one]}).select(template(pl.col("text"))).item()
    assert not any(c.isdigit() for c in shown)

"""Which lines that are no clean record anybody could be interested in, found in one pass."""

from __future__ import annotations

import re

import polars as pl

from nccl_insight.readers.nccl_log.likely import held, holding, likely


def test_signs_are_found_alike_in_few_texts_and_in_many() -> None:
    signs = ["NVRM", "Xid"]
    few = ["NVRM: Xid 79", "loss 2.5", "Xid"]
    assert holding(pl.Series(few), signs).to_list() == [True, False, True]
    assert sorted(held(pl.Series(few), signs)[0].to_list()) == ["NVRM", "Xid"]
    many = pl.Series(few * 50)
    assert holding(many, signs).to_list() == [True, False, True] * 50
    assert [sorted(found) for found in held(many, signs).to_list()[:3]] == [["NVRM", "Xid"], [], ["Xid"]]
    assert holding(pl.Series([None, "Xid"], dtype=pl.String), signs).to_list() == [False, True]


def test_a_line_behind_one_that_matters_may_matter() -> None:
    texts = ["loss 2.5"] * 6_000
    texts[10] = "[rank1] Xid 79"
    texts[20] = "gpu1:7:7 [0] NC"
    texts[30] = "it said `connect to 10.0.0.1 was refused by the peer`"
    found = likely(pl.Series(texts), lambda: re.escape("Xid"))
    assert found["_near"].arg_true().to_list() == [10, 11, 20, 21, 30, 31]
    assert found["_likely"].arg_true().to_list() == [10, 20]


def test_few_lines_are_all_asked_about() -> None:
    assert likely(pl.Series(["loss 2.5"] * 3), lambda: "Xid").rows() == [(True, True)] * 3
    assert likely(pl.Series([], dtype=pl.String), lambda: "Xid").rows() == []

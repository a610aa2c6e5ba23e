"""The names that were found and their pseudonyms."""

from __future__ import annotations

import pytest

from nccl_insight.share.redact.names import Names, certain


def test_names_are_numbered_by_kind_and_stay_the_same() -> None:
    names = Names()
    assert [names.host("ares7"), names.host("ares8"), names.host("ares7")] == ["node1", "node2", "node1"]
    assert [names.user("mwinter"), names.user("root"), names.job("train"), names.secret("x")] == [
        "user1", "root", "job1", "secret1",
    ]  # fmt: skip
    assert names.host("localhost") == "localhost"
    assert names.summary() == "2 hosts, 1 user, 1 job name, 1 secret"
    assert names.host("ares7-ib0") == "node1-ib0"
    assert names.host("ares7.example.edu") == "node1"
    assert Names().summary() == "nothing found to replace"


def test_no_pseudonym_is_a_name_that_occurs() -> None:
    names = Names(reserved={"node1", "user1"})
    assert (names.host("ares7"), names.user("mw")) == ("node2", "user2")


def test_a_host_with_another_number_of_as_many_digits_is_one_too() -> None:
    names = Names()
    names.host("ares07")
    assert names.sibling("ares11")
    assert not names.sibling("ares7")
    assert not names.sibling("argo11")
    assert not names.sibling("node1")
    names.series("zeus", "001-016")
    assert names.sibling("zeus044")


def test_hardware_keeps_its_form_and_its_writing_counts_once() -> None:
    names = Names()
    first = names.identifier("mac", "B8:59:9F:00:11:22")
    assert first == names.identifier("mac", "b859.9f00.1122") == "02:00:00:00:00:01"
    assert names.identifier("uuid", "A") == "00000000-0000-0000-0000-000000000002"
    assert len(names.identifier("hex", "a" * 24)) == 24


def test_inputs_keep_their_kind_and_rank() -> None:
    names = Names()
    names.host("ares7")
    assert names.input_name("logs/ares7/rank_3.log.gz") == "input1-node1-rank3.log.gz"
    assert names.input_name("<stdin>") == "<stdin>"
    assert names.mapping()["inputs"] == {"logs/ares7/rank_3.log.gz": "input1-node1-rank3.log.gz"}


@pytest.mark.parametrize(("word", "sure"), [("ares7", True), ("ab", False), ("1234", False), ("error", False)])
def test_everyday_words_are_no_names(word: str, sure: bool) -> None:
    assert certain(word) is sure

"""A known message with one `key=value` more than any release printed keeps its meaning and its other values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log import recover
from tests import message_samples
from tests.readers.nccl_log.pasted_text import _said, names

_PART = re.compile(r" \w+=[^\s,;()=]+(?= )")
_LEAVES = re.compile(r",? \w+=[^\s,;()=]+(?=[ ,;)]|$)")


def test_a_part_that_a_release_adds_costs_nothing_else() -> None:
    """All samples with such parts, with a new one behind each of them."""
    catalog = default_catalog()
    tried = kept = 0
    for name, samples in message_samples.by_rule().items():
        for text in (s.text.rstrip() for s in samples if not catalog.grammar.messages[name].headless):
            for part in () if "\n" in text else _PART.finditer(text):
                grown = f"{text[: part.end()]} added=7{text[part.end() :]}"
                if catalog.match(grown) is not None:
                    continue
                tried += 1
                found, whole = recover.match_without_part(catalog, grown), catalog.match(text)
                assert whole is not None
                kept += found is not None and found.message.name == name and found.captures == whole.captures
    assert tried > 200
    assert kept >= 0.98 * tried


def test_a_part_that_a_release_leaves_out_costs_nothing_else() -> None:
    """All samples with such parts, without the last one: about half are known, and never with another value."""
    catalog = default_catalog()
    tried = known = 0
    for name, samples in message_samples.by_rule().items():
        for text in (s.text.rstrip() for s in samples if not catalog.grammar.messages[name].headless):
            whole = catalog.match(text)
            for part in () if whole is None or "\n" in text else list(_LEAVES.finditer(text))[-1:]:
                short = text[: part.start()] + text[part.end() :]
                if catalog.match(short) is not None:
                    continue
                tried += 1
                found = recover.match_without_part(catalog, short)
                if found is not None and found.message.name == name and whole is not None:
                    known += 1
                    assert found.captures.items() <= whole.captures.items()
    assert tried > 100
    assert known >= 0.45 * tried


def test_no_text_is_taken_for_a_message_by_leaving_words_out() -> None:
    catalog = default_catalog()
    for text in ("some other words a=1 b=2", "size=4", "x=1 " * 500, "NET/IB : all is well key=value", "a=" * 3000):
        assert recover.match_without_part(catalog, text) is None


def test_a_time_before_the_tag_of_open_mpi() -> None:
    """As ``mpirun --tag-output --timestamp-output`` writes a line."""
    hit = recover.match_headless(default_catalog(), "Wed Jun 26 22:35:41 2019[1,273]<stderr>:ibv_modify_qp failed")
    assert hit is not None
    assert hit[0].message.name == "nvshmem_modify_qp"


def test_short_lines_are_not_taken_apart() -> None:
    text = "(Actor pid=744, ip=10.0.0.7) (Worker pid=5) loss 2.5"
    assert recover.tagged(text) == [text]
    assert recover.before_records("3: a1:213:213 [0] NCCL INFO x a1:213:213 [0] NCCL INFO y") == ""


@pytest.mark.parametrize(
    ("text", "other", "label"),
    [
        ("gpu01: a.cc:1 NCCL WARN x", "gpu01: rest", "gpu01: "), ("[default3]:x", "[default12]:y", "[default3]:"),
        ("10:00:09.5 x", "10:00:10.7 y", "10:00:09.5 "), ("text", "test", ""), ("", "a", ""), ("9", "10", ""),
    ],
)  # fmt: skip
def test_the_label_that_two_lines_share(text: str, other: str, label: str) -> None:
    assert recover.shared_label(text, other) == label


def test_labels_that_differ_in_more_than_their_numbers() -> None:
    assert recover.labeled("12: text", "9: ") == ("12: ", "text")
    assert recover.labeled("rank3: text", "9: ") == ("", "rank3: text")
    assert recover.labeled("9", "9: ") == ("", "9")
    assert recover.labeled("10:", "9: ") == ("10:", "")
    assert recover.labeled("text", "") == ("", "text")


def test_labels_and_names_of_hosts_without_end(tmp_path: Path) -> None:
    label = "1a" * 100_000
    assert recover.labeled(f"{label}text", label) == (label, "text")
    heads = [f"{'a1' * 200_000}:{pid}:{pid} [0] NCCL INFO cudaDriverVersion 12080" for pid in (1, 2)]
    assert names(_said(tmp_path, *heads, "gpu01:7:7 [0] NCCL INFO cudaDriverVersion 12080")) == set()


def test_the_rest_of_a_progress_bar_behind_a_message_is_not_its_own() -> None:
    said = (
        "[E ProcessGroupNCCL.cpp:828] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=80, "
        "OpType=ALLGATHER, Timeout(ms)=7200000) ran for 7205324 milliseconds before timing out."
    )
    for rest in ("11:15:08, 17.35s/it]", "<03:10,  2.10it/s, loss=2.31]", ", ?it/s]"):
        hit = recover.match_headless(default_catalog(), f"  0%|          | 0/2343 [00:00<?, ?it/s{said}{rest}")
        assert hit is not None, rest
        assert hit[0].message.name == "watchdog_timeout"
    assert recover.match_headless(default_catalog(), f"{said}11:15:08, 17.35s/it] and more") is None

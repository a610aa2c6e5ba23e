"""A line with an NCCL head is a line of NCCL, whatever the name of its level."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import all_results
from nccl_insight.readers.nccl_log.records import Fate
from nccl_insight.readers.nccl_log.recover import split_line

QUIET = ("INFO", "TRACE", "CALL", "VERSION")
LOUD = ("WARN", "ATTN", "ERROR", "ABORT", "FATAL", "NOTICE", "CRITICAL", "QQQ")
HEADS = (
    "node1:4711:4712 [3]",
    "node1:4711:4712",
    "[2026-09-20 10:11:12] node1:4711:4712 [3] misc/socket.cc:71 (socketProgress)",
    "[1,5]<stdout>:node1:4711:4712 [3] init.cc:8",
    "(worker pid=9, ip=10.0.0.7) node1:4711:4712 [0] transport/net_ib.cc:12",
    "2026-09-20T10:11:12.123Z stdout F node1:4711:4712 [0] graph/xml.cc:93 (f)",
    "x:1:2 [0] int ns::f(const std::string &, int, std::pair<int, char>):88",
)
TEXTS = ("Some wording that nobody knows yet", "Bootstrap: Using eth0:10.0.0.1<0>", "failed with error -1 (2 of 3)")
FOREIGN = (
    "RuntimeError: NCCL ERROR in: init.cc:12, unhandled system error",
    "torch.distributed: NCCL FATAL failure",
    "See https://docs.nvidia.com for NCCL DEBUG levels",
    "node1: NCCL TESTS build",
    "ratio 12:30 NCCL BENCH done",
    "NCCL IS a library",
)


def fate(tmp_path: Path, lines: list[str]) -> Fate:
    path = tmp_path / "job.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    results = all_results(find_inputs([str(path)]), Classifier(default_catalog()))
    return sum((result.fate for result in results), Fate())


@pytest.mark.parametrize("level", [*QUIET, *LOUD])
def test_no_line_with_a_head_is_foreign(tmp_path: Path, level: str) -> None:
    lines = [f"{head} NCCL {level} {text}" for head in HEADS for text in TEXTS]
    found = fate(tmp_path, lines)
    assert found.foreign == 0
    assert found.torn == 0
    assert found.parsed + found.unknown == len(lines)


def test_words_behind_nccl_without_a_head_are_no_level(tmp_path: Path) -> None:
    assert fate(tmp_path, list(FOREIGN)).foreign == len(FOREIGN)


@pytest.mark.parametrize("level", LOUD)
def test_loud_levels_reach_the_errors_table(tmp_path: Path, level: str) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{HEADS[2]} NCCL {level} {TEXTS[0]}\n", encoding="utf-8")
    errors = nccl_insight.load([str(path)]).table("errors")
    assert errors.select("level", "host", "pid", "source", "function", "text").to_dicts() == [
        {"level": level, "host": "node1", "pid": 4711, "source": "misc/socket.cc:71",
         "function": "socketProgress", "text": TEXTS[0]}
    ]  # fmt: skip


@pytest.mark.parametrize("level", QUIET)
def test_quiet_levels_do_not(tmp_path: Path, level: str) -> None:
    path = tmp_path / "job.log"
    path.write_text(f"{HEADS[0]} NCCL {level} {TEXTS[0]}\n", encoding="utf-8")
    assert nccl_insight.load([str(path)]).table("errors").height == 0


def test_two_records_of_new_levels_on_a_line_are_told_apart() -> None:
    found = split_line(1, "a:1:2 [0] NCCL ATTN one thing b:3:4 [1] NCCL NOTICE another thing")
    assert [(piece.head, piece.level, piece.body) for piece in found] == [
        ("a:1:2 [0]", "ATTN", "one thing"),
        ("b:3:4 [1]", "NOTICE", "another thing"),
    ]


FATAL = "RCCL cannot recover from this network failure and now exiting. Please check the network health."


@pytest.mark.parametrize("before", ["", "[1,5]<stdout>:", "2026-09-20T10:11:12.123Z stdout F "])
def test_fatal_errors_of_rccl_have_a_head_without_its_name(tmp_path: Path, before: str) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"{before}mi01:4711:4712 [3] [FATAL ERROR]: {FATAL}\n{before}plain words\n")
    run = nccl_insight.load([log])
    row = run.tables["errors"].row(0, named=True)
    assert run.tables["errors"].height == 1
    assert (row["host"], row["pid"], row["tid"], row["dev"]) == ("mi01", 4711, 4712, 3)
    assert (row["level"], row["text"]) == ("ERROR", FATAL)
    counted = run.tables["inputs"].row(0, named=True)
    assert (counted["nccl_lines"], counted["unknown_lines"]) == (1, 0)


def test_fatal_errors_of_other_programs_are_not_rccls(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("[FATAL ERROR]: disk full\nserver [FATAL ERROR]: disk full\n[12] [FATAL ERROR]: no\n")
    assert nccl_insight.load([log]).tables["inputs"]["nccl_lines"].to_list() == [0]

"""Identifiers of every promised class, planted in random places of real lines, are not found again."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.share.redact import Redactor, collect
from nccl_insight.share.redact.residue import Residue
from nccl_insight.tables.run import build_run
from nccl_insight.tables.sql import check_sql
from tests.runs import RUNS
from tests.share.redact.classes_of_names import CLASSES, LINES

# What says that these are names is that they begin a line.
AT_LINE_BEGIN = frozenset({"tool before lines", "host file"})


@pytest.mark.parametrize("kind", CLASSES)
def test_planted_identifiers_are_not_found_again(kind: str) -> None:
    draw = random.Random(kind)
    for _ in range(8):
        planted, needle = CLASSES[kind](draw)
        lines = draw.sample(LINES, min(20, len(LINES)))
        at = draw.randrange(len(lines))
        glue = draw.choice([" ", ", ", " (", ' "', "='", " -> ", "\t"])
        lines[at] += glue + planted
        lines.insert(draw.randrange(len(lines)), planted)
        text = "\n".join(lines) + "\n"
        out = collect(build_run({}), [text]).text(text)
        assert needle not in out, [line for line in out.splitlines() if needle in line][:2]


def _planted_in(lines: list[str], draw: random.Random) -> tuple[str, list[tuple[str, str]]]:
    """The lines with an identifier of every class at a random place, and what must not be found again."""
    needles = []
    for kind in draw.sample(sorted(CLASSES), len(CLASSES)):
        planted, needle = CLASSES[kind](draw)
        needles.append((kind, needle))
        at = draw.randrange(len(lines))
        if draw.random() < 0.5 and kind not in AT_LINE_BEGIN:
            lines[at] += draw.choice([" ", ", ", " (", ' "', "='", " -> ", "\t"]) + planted
        else:
            lines.insert(at, planted)
    return "\n".join(lines) + "\n", needles


def _logs() -> list[Path]:
    own = sorted(RUNS.rglob("*.log"))
    data = os.environ.get("NCCL_INSIGHT_REFERENCE_DATA")
    return own + (sorted(p for p in Path(data, "corpus").rglob("*.log") if p.is_file()) if data else [])


def test_identifiers_of_every_class_planted_in_real_logs_are_not_found_again() -> None:
    planted, found = 0, []
    for log in _logs():
        draw = random.Random(log.parent.name + log.name)
        lines = log.read_text("utf-8", "surrogateescape").splitlines()[:300] or [""]
        text, needles = _planted_in(lines, draw)
        out = collect(build_run({}), [text]).text(text)
        planted += len(needles)
        found += [(str(log), kind, needle) for kind, needle in needles if needle in out]
    assert planted > 1000
    assert not found


@pytest.mark.parametrize(
    "word",
    ["a" * 20_000, "a." * 10_000, "a@" * 10_000, "1:" * 10_000, "f" * 20_000, "lib.so" * 3_000, "a-" * 10_000,
     "/a" * 10_000, "s3://" * 4_000, "TOKEN=" * 4_000, "ip-1" * 5_000, "tcp://" * 4_000, "x1" * 10_000, "A_" * 10_000],
)  # fmt: skip
def test_long_words_do_not_stop_the_redactor(word: str) -> None:
    log = "node07-a.zq.io:1:2 [0] NCCL INFO x\n"
    redactor = collect(build_run({}), [log + word])
    begun = time.process_time()
    redactor.text(f"{log}{word} end\n")
    assert time.process_time() - begun < 30, "seconds for 20 KB, not minutes"


def test_malformed_addresses_end(recwarn: pytest.WarningsRecorder) -> None:
    for text in ("1:2:3:999.999.999.999", "::1.2.3.999", ":" * 500, "1:2:3:4:5:6:7:10.1.2.300"):
        Redactor().text(f"x {text} y")


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')", "select * from READ_PARQUET ('x')", 'select * from "read_csv"(\'/x\')',
        "select * from read_csv/* */('/x')", "select * from read_csv -- (\n('/x')", "select * from '/etc/passwd'",
        "with recursive a as (select 1) select * from a", "select * from ranks join scan_csv('x')",
        "select * from a; select * from read_ndjson('http://127.0.0.1:9/x')",
    ],
)  # fmt: skip
def test_query_opens_nothing(sql: str) -> None:
    with pytest.raises(UsageError):
        check_sql(sql)


@pytest.mark.parametrize(
    "sql", ["select read_only from ranks", "select 'read_csv(' as x from ranks", "select count(*) from env"]
)
def test_ordinary_queries_pass(sql: str) -> None:
    check_sql(sql)


def test_what_was_left_is_named() -> None:
    text = "node1:1:1 [0] NCCL INFO x\nat alpha.beta.gamma and a7b8c9d0e1f2g3h4 and a7b8c9d0e1f2g3h4 libm.so.6\n"
    left = Residue()
    left.add(text)
    assert left.words() == [("a7b8c9d0e1f2g3h4", 2), ("alpha.beta.gamma", 1)]

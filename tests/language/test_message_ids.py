"""No line is taken for a different message: rendered lines of many releases against a reviewed table.

``data/message_ids.tsv`` says which rules may take the lines of a message id, and between which releases where
that differs. It was reviewed by hand: a rule is listed for an id only where both mean the same message, or the rule
stands for the family of notes that the id belongs to.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.load import default_grammar
from nccl_insight.readers.nccl_log.objects import parse_objects
from tests.runs import SHARED

TABLE = Path(__file__).parents[1] / "data" / "message_ids.tsv"
LINES = SHARED / "nccl" / "lines"
LIMIT = 0.005


@dataclass(frozen=True)
class Entry:
    """Rules of one id, and per rule and project the first and last release where they are restricted."""

    rules: frozenset[str]
    spans: dict[tuple[str, str], tuple[str, str]]


def age(release: str) -> tuple[int, ...]:
    """Order of releases within a project; development snapshots come after numbered ones."""
    if "develop" in release:
        return (99, *map(int, re.findall("[0-9]+", release)))
    return tuple(map(int, re.findall("[0-9]+", release)))[:3]


@cache
def table() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]:
        name, rules, versions = line.split("\t")
        spans: dict[tuple[str, str], tuple[str, str]] = {}
        for part in filter(None, versions.split("; ")):
            rule, _, ranges = part.partition(": ")
            for one in ranges.split(", "):
                project, _, span = one.partition(" ")
                first, _, last = span.partition("..")
                spans[rule, project] = (first, last or first)
        assert name not in found, f"{name} has two rows"
        found[name] = Entry(frozenset(rules.split(" ")), spans)
    return found


def right(message_id: str, rule: str, project: str, release: str) -> bool:
    """Whether the table lets the rule take lines of the id in that release."""
    entry = table().get(message_id)
    if entry is None or rule not in entry.rules:
        return False
    if not entry.spans:
        return True
    span = entry.spans.get((rule, project))
    return span is not None and age(span[0]) <= age(release) <= age(span[1])


def test_table_names_rules_that_exist() -> None:
    known = set(default_grammar().messages)
    listed = {rule for entry in table().values() for rule in entry.rules}
    assert listed - known == set()
    assert len(table()) > 1500


@pytest.mark.parametrize(
    ("message_id", "rule", "release", "expected"),
    [
        ("init.complete", "init_complete", "2.27.7", True),
        ("init.complete", "init_start", "2.27.7", False),
        ("boot.using", "bootstrap_using_list", "2.4.8", True),
        ("boot.using", "bootstrap_using_list", "2.30.7", False),
        ("ib.wc_error", "err_ib_completion_2_28", "2.28.9", True),
        ("ib.wc_error", "err_ib_async", "2.28.9", False),
        ("no.such.id", "init_complete", "2.27.7", False),
    ],
)
def test_table_tells_messages_apart(message_id: str, rule: str, release: str, expected: bool) -> None:
    assert right(message_id, rule, "nccl", release) is expected


def test_rendered_lines_are_taken_for_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At most 0.5 % of the lines of any release, and of all, go to a rule that the table does not list."""
    if not LINES.is_dir():
        pytest.skip("the rendered lines : set NCCL_INSIGHT_REFERENCE_DATA")
    wrong: Counter[str] = Counter()
    total: Counter[str] = Counter()
    shown: list[str] = []
    for source in sorted(LINES.glob("*.jsonl.gz")):
        name = source.name.removesuffix(".jsonl.gz")
        project, _, release = name.partition("-")
        records = [json.loads(line) for line in gzip.decompress(source.read_bytes()).splitlines()]
        path, where, text = tmp_path / f"{name}.log", {}, ""
        number = 1
        for record in records:
            if record.get("blank_before"):
                text, number = text + "\n", number + 1
            where[number] = record
            text += record["line"] + "\n"
            number += 1 + record["line"].count("\n")
        path.write_text(text, encoding="utf-8")
        taken: dict[int, str | None] = {}
        for piece in parse_objects(find_inputs([str(path)]), keep_foreign=False):
            for line in piece.splitlines():
                row = json.loads(line)
                taken.setdefault(row["line"], row["message"])
        for number, record in where.items():
            rule = taken.get(number)
            total[name] += 1
            if rule is not None and not right(record["message_id"], rule, project, release):
                wrong[name] += 1
                shown.append(f"{name}: {record['message_id']} taken as {rule}: {record['text'][:80]!r}")
    with capsys.disabled():
        print()
        for name in sorted(total):
            print(f"  {name:28} {wrong[name]:3} of {total[name]:5} lines taken for another message")
        every, bad = total.total(), wrong.total()
        print(f"  all releases: {bad} of {every} ({100 * bad / every:.3f} %)")
    assert wrong.total() <= LIMIT * total.total(), "\n".join(shown[:40])
    for name in total:
        assert wrong[name] <= max(LIMIT * total[name], 1), "\n".join(s for s in shown if s.startswith(name))

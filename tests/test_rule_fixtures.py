"""Every rule against the logs of its fixture, and the form that all rules share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import nccl_insight
import nccl_insight.rules
from nccl_insight.base.model import Finding, Hit, Severity
from nccl_insight.base.pages import HEADINGS, pages
from nccl_insight.rules import Rule, discover
from tests.sentences import refused
from tests.trace_maker import numbers, told

# A log, or what a traced job does, and for each finding that it gives one line of what stands in it.
EXAMPLE = re.compile(
    r"^## (Fires|Silent): ([^\n]+)\n(?:(?!^## )[^\n]*\n)*?```(log|trace)\n(.*?)^```\n(?:\n((?:expect: [^\n]+\n)+))?",
    re.M | re.S,
)


@dataclass(frozen=True)
class Example:
    """One log of a fixture."""

    code: str
    name: str
    fires: bool
    title: str
    log: str
    expect: tuple[str, ...] = ()
    form: str = "log"


@cache
def rules() -> dict[str, Rule]:
    return {rule.code: rule for rule in discover()}


def examples() -> list[Example]:
    found = []
    for page in pages(nccl_insight.rules.__path__):
        for kind, title, form, log, expect in EXAMPLE.findall(page.body + "\n"):
            assert expect or kind == "Silent", f"{page.code}: {title}: no expectation"
            expected = tuple(line.removeprefix("expect: ") for line in expect.strip().splitlines())
            found.append(Example(page.code, page.name, kind == "Fires", title.strip(), log, expected, form))
    return found


def differs(hit: Finding | Hit, expect: str) -> list[str]:
    """What a finding shows otherwise than "error, ranks 0-3 7, hosts gpu01 gpu02, line 3" says: only what is named."""
    severity, *rest = expect.split(", ")
    named = dict(part.split(" ", 1) for part in rest)
    found: dict[str, tuple[object, object]] = {"severity": (hit.severity.value, severity)}
    for key, value in named.items():
        match key:
            case "rank" | "ranks":
                found[key] = (tuple(sorted(hit.ranks)), numbers(value))
            case "host" | "hosts":
                found[key] = (set(hit.hosts), set(value.split()))
            case "line":
                found[key] = (hit.evidence[0].line, int(value))
            case _:
                return [f"unknown: {key}"]
    return [f"{key}: {got} instead of {want}" for key, (got, want) in found.items() if got != want]


EXAMPLES = examples()
# Pages for `explain` alone: their lines never make a finding.
UNHEARD = {p.code for p in pages(nccl_insight.rules.__path__) if p.head.get("lines") == "none"}


@pytest.mark.part(4)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.code}-{'fires' if e.fires else 'silent'}-{e.title}")
def test_example(example: Example, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(example.log, encoding="utf-8")
    analysis = nccl_insight.analyze(told(example.log, tmp_path) if example.form == "trace" else [path])
    assert example.form == "trace" or [note for note in analysis.notes if not note.startswith("Measured ")] == []
    rule = rules()[example.code]
    assert rule.name == example.name
    hits = [f for f in analysis.findings if f.name == example.name]
    for hit in hits:
        for text in (hit.title, hit.explanation, hit.observed, hit.expected):
            # What is quoted from the log is as NCCL printed it.
            quoted = any(text[:40] in evidence.text for evidence in hit.evidence)
            assert quoted or refused(text) == []
    if example.fires:
        assert hits, [f.name for f in analysis.findings]
        for hit in hits:
            # Longer ones quote a line.
            assert len(hit.title) <= 110 or hit.title.partition(": ")[2][:20] in hit.evidence[0].text
            assert hit.next_step
            assert hit.evidence
            assert hit.evidence[0].primary
        assert len(hits) == len(example.expect), [hit.title for hit in hits]
        assert [differs(*pair) for pair in zip(hits, example.expect, strict=True)] == [[] for _ in hits]
    elif rule.severity is Severity.INFO:
        assert not hits
    else:
        assert not [h for h in hits if h.severity is not Severity.INFO], hits[0].title


@pytest.mark.parametrize("code", sorted(rules()))
def test_rule_has_documentation_and_examples(code: str) -> None:
    rule = rules()[code]
    assert rule.summary.endswith(".")
    for heading in HEADINGS:
        assert rule.section(heading), f"{code} {rule.name}: nothing under {heading!r}"
    kinds = {e.fires for e in EXAMPLES if e.code == code}
    wanted = {False} if code in UNHEARD else {True, False}
    assert kinds == wanted, f"{code} {rule.name} needs an example that fires and one that is silent"


def test_every_fixture_belongs_to_a_rule() -> None:
    unknown = {e.code for e in EXAMPLES} - set(rules())
    assert not unknown


def test_causes_are_names_of_rules() -> None:
    names = {rule.name for rule in rules().values()}
    for rule in rules().values():
        assert set(rule.caused_by) <= names, rule.name

"""Samples of messages: ``fixtures/messages/<grammar file>.txt``.

``# rule`` opens a rule, each following line is one text of that message without its head (``\\n`` stands for a line
break), and ``-> {...}`` after a text holds the values that it must give, as JSON (no such line: none).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "fixtures" / "messages"


@dataclass(frozen=True)
class Sample:
    """A text of a message and the typed values of its columns."""

    text: str
    values: dict[str, Any]


@cache
def by_file() -> dict[str, dict[str, list[Sample]]]:
    """Samples of every rule, by the stem of the grammar file the rule stands in."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.txt"))}


@cache
def by_rule() -> dict[str, list[Sample]]:
    """Samples of every rule."""
    return {rule: found for rules in by_file().values() for rule, found in rules.items()}


def texts() -> list[str]:
    """All texts of all rules."""
    return [sample.text for found in by_rule().values() for sample in found]


def read(path: Path) -> dict[str, list[Sample]]:
    """The samples of one file."""
    rules: dict[str, list[Sample]] = {}
    found: list[Sample] = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("# "):
            assert line[2:] not in rules, f"{path.name}: {line[2:]} stands twice"
            found = rules.setdefault(line[2:], [])
        elif line.startswith("-> "):
            found[-1] = Sample(found[-1].text, json.loads(line[3:]))
        elif line.strip():
            found.append(Sample(line.replace("\\n", "\n"), {}))
    return rules

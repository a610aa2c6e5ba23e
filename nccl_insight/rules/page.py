"""Diagnoses without logic: a page of markdown that says which lines it rests on, in words and examples.

``<family>/NI###-name.md`` has front matter (``key: value`` lines between two ``---``), the sections of a rule
(``rules.HEADINGS``) and examples (``## Fires: ...``, ``## Silent: ...``, each with a block of log lines). The lines of
which the grammar says that they mean ``name`` are the evidence; the finding is the same for all of them.

| key | meaning |
|---|---|
| ``class``, ``severity``, ``action`` | as in a rule module |
| ``title`` | the finding in one sentence without a full stop; ``{column}`` as in a message's help |
| ``expected`` | the number or value that a healthy run shows, where the lines show another |
| ``check`` | a command that tells more, as one can paste it |
| ``where`` | where to run it |
| ``fix`` | what to change, as a command or a sentence |
| ``confidence`` | high (default), medium or low |
| ``lines`` | ``all`` (default), ``warnings`` (not INFO), ``none`` (``explain`` only) or ``tools`` (host tools say) |
| ``quiet`` | severity when all lines are INFO (default info) |
| ``fatal`` | severity when a line is of level ERROR, with which the library ends the job |
| ``on_one_host`` | severity when the job stays on one host and its init is complete (for networks) |
| ``caused_by`` | names, or ``any`` failure, that may explain it |
| ``since`` | the version of nccl-insight that has it first |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from nccl_insight.errors import InsightError
from nccl_insight.facts.reach import needs_no_network
from nccl_insight.language.help import filled
from nccl_insight.model import Action, CannotJudge, Confidence, FindingClass, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.rules._faults import ANY, others
from nccl_insight.tables.run import Run

FILE: Final = re.compile(r"NI([0-9]{3})-([a-z0-9-]+)\.md")
_NEEDED: Final = ("class", "severity", "action", "title", "check", "where", "fix", "since")
_KEYS: Final = frozenset(
    {*_NEEDED, "expected", "confidence", "lines", "quiet", "caused_by", "on_one_host", "fatal"}
)
_SECTION: Final = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.M | re.S)


@dataclass(frozen=True)
class Page:
    """A page as read: its code and name, front matter, first sentence and sections."""

    code: str
    name: str
    head: Mapping[str, str]
    summary: str
    sections: Mapping[str, str]

    @property
    def doc(self) -> str:
        """The documentation in the form that rule modules have: underlined headings, no examples."""
        shown = {k: v for k, v in self.sections.items() if not k.startswith(("Fires:", "Silent:"))}
        return "\n\n".join([self.summary, *(f"{k}\n{'-' * len(k)}\n{v}" for k, v in shown.items())])

    @property
    def next_step(self) -> str:
        """The command, where it runs, and the remedy."""
        check, fix = self.head["check"], self.head["fix"]
        return f"{check}   # {self.head['where']}; fix: {fix}" if check else fix

    @property
    def caused_by(self) -> tuple[str, ...]:
        """Names of diagnoses that may explain this one."""
        given = self.head.get("caused_by", "")
        return others(ANY, self.name) if given == "any" else tuple(given.replace(",", " ").split())

    def check(self, run: Run) -> Iterator[Hit | CannotJudge]:
        """One finding for all lines that mean this diagnosis."""
        lines = self.head.get("lines", "all")
        if lines in ("none", "tools"):
            return
        found = trouble(run, self.name)
        if found is None or (lines == "warnings" and not found.loud):
            return
        guessed = bool(found.rows["message"].is_null().all())
        other = self.head.get("on_one_host") if needs_no_network(run) else None
        if "fatal" in self.head and bool(found.rows["level"].eq("ERROR").any()):
            other = self.head["fatal"]
        yield from report(
            run,
            self.name,
            filled(self.head["title"], found.first),
            self.next_step,
            explanation=" ".join(self.sections["Why it matters"].split("\n\n")[-1].split()),
            expected=self.head.get("expected", ""),
            quiet=Severity(self.head.get("quiet", "info")),
            confidence=Confidence.LOW if guessed else None,
            severity=Severity(other) if other else None,
            rows=found,
        )


def read_page(path: Path) -> Page:
    """A page.

    Raises:
        InsightError: the file name, the front matter or a key is not as it must be.
    """
    named = FILE.fullmatch(path.name)
    parts = path.read_text(encoding="utf-8").split("---\n", 2)
    if named is None or len(parts) != 3 or parts[0]:
        raise InsightError(
            f"{path.name}: a page is NI###-name.md and begins with front matter between two ---"
        )
    pairs = (line.partition(":") for line in parts[1].splitlines() if line.strip())
    head = {key.strip(): value.strip() for key, _, value in pairs}
    if wrong := sorted(set(head) - _KEYS) or sorted(set(_NEEDED) - set(head)):
        raise InsightError(f"{path.name}: front matter: {', '.join(wrong)} missing or unknown")
    body = parts[2].strip()
    sections = {title.strip(): text.strip() for title, text in _SECTION.findall(body)}
    if "Why it matters" not in sections:
        raise InsightError(f"{path.name}: no section `Why it matters`")
    return Page(f"NI{named[1]}", named[2], head, " ".join(body.split("\n## ", 1)[0].split()), sections)


def pages(package: ModuleType) -> Iterator[Page]:
    """The pages of a package of rules and of its families, by file name."""
    for folder in sorted({Path(p) for p in package.__path__}):
        for path in sorted(folder.rglob("NI*.md")):
            yield read_page(path)


def values(page: Page) -> tuple[FindingClass, Severity, Confidence, Action]:
    """Class, severity, confidence and action of a page.

    Raises:
        InsightError: a value that does not exist.
    """
    try:
        return (
            FindingClass(page.head["class"]),
            Severity(page.head["severity"]),
            Confidence(page.head.get("confidence", "high")),
            Action(page.head["action"]),
        )
    except ValueError as error:
        raise InsightError(f"page {page.code}-{page.name}: {error}") from error

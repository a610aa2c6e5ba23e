"""Diagnoses by family: a page each (:mod:`nccl_insight.base.pages`), with a module beside it where there is logic.

``<family>/NI###-name.md`` says what the diagnosis is, how severe, what it needs and what to do.
``<family>/ni###_name.py`` defines ``check(ctx)`` (:class:`nccl_insight.rules.context.Context`), which yields what it
sees; its silence is final unless the page says ``speaks: yes``. A page without a module speaks for its messages.
Nothing is registered by hand; third parties add packages of rules by the entry point group ``nccl_insight.rules``
(the entry point names a package). Modules are imported when their check first runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from nccl_insight.base import extensions
from nccl_insight.base.data import dataclass, field, replace
from nccl_insight.base.errors import InsightError
from nccl_insight.base.model import Action, CannotJudge, Confidence, FindingClass, Hit, Severity
from nccl_insight.base.natures import NATURES, causes_of
from nccl_insight.base.pages import Page, pages

if TYPE_CHECKING:
    from nccl_insight.rules.context import Context
    from nccl_insight.tables.run import Run


class Check(Protocol):
    """The one function of a check with logic."""

    def __call__(self, ctx: Context) -> Iterator[Hit | CannotJudge]:
        """Yields what was found, or why nothing could be decided."""


@dataclass(frozen=True)
class Rule:
    """A diagnosis: what its page says, and its check."""

    page: Page
    finding_class: FindingClass
    severity: Severity
    confidence: Confidence
    action: Action
    needs: tuple[str, ...]
    logic: Check
    natures: tuple[str, ...] = ()
    distance: int = 0
    caused_by: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    speaks: bool = False

    @property
    def code(self) -> str:
        """``NI###``."""
        return self.page.code

    @property
    def name(self) -> str:
        """The public name."""
        return self.page.name

    @property
    def doc(self) -> str:
        """The documentation as plain text."""
        return self.page.doc

    @property
    def summary(self) -> str:
        """What it is, in one sentence."""
        return self.page.summary

    def section(self, heading: str) -> str:
        """Text under one of the fixed headings."""
        return self.page.sections.get(heading, "")

    def context(self, run: Run) -> Context:
        """The run as this check sees it."""
        from nccl_insight.rules.context import Context

        return Context(run, self.name, self.thresholds, self.page.head)

    def check(self, run: Run) -> Iterator[Hit | CannotJudge]:
        """What the check finds, or why it cannot judge; what a hit does not say is said by the page."""
        head = self.page.head
        for said in self.logic(self.context(run)):
            if isinstance(said, Hit):
                said = replace(
                    said,
                    explanation=said.explanation or head.get("explanation", ""),
                    expected=said.expected or head.get("expected", ""),
                    steps=said.steps or (() if said.next_step else self.page.steps),
                )
            yield said


def _spoken(page: Page, ctx: Context) -> Iterator[Hit | CannotJudge]:
    from nccl_insight.rules.context import spoken

    return spoken(ctx, page)


def _judged(module: str, ctx: Context) -> Iterator[Hit | CannotJudge]:
    check: Check = extensions.imported(module).check
    return check(ctx)


def rule_of(page: Page, package: str, folders: Sequence[Path] = ()) -> Rule:
    """The rule that a page makes. ``folders``: those of the package, from which the module's name follows.

    Raises:
        InsightError: a value of its front matter does not exist.
    """
    head = page.head
    logic: Check = partial(_spoken, page)
    if page.module.is_file():
        top = next(folder for folder in folders if folder in page.path.parents)
        logic = partial(_judged, ".".join([package, *page.module.parts[len(top.parts) : -1], page.module.stem]))
    try:
        numbers = dict(part.split() for part in head.get("thresholds", "").split(",") if part.strip())
        if unknown := set(page.words("nature")) - NATURES:
            raise ValueError(f"no nature is called {', '.join(sorted(unknown))}")
        return Rule(
            page=page,
            finding_class=FindingClass(head["class"]),
            severity=Severity(head["severity"]),
            confidence=Confidence(head.get("confidence", "high")),
            action=Action(head["action"]),
            needs=page.words("needs", "errors"),
            logic=logic,
            natures=page.words("nature"),
            distance=int(head.get("distance", "0")),
            caused_by=page.words("caused_by"),
            sources=tuple(source.strip() for source in head.get("sources", "").split(";") if source.strip()),
            thresholds={key: float(value) for key, value in numbers.items()},
            speaks=head.get("speaks") == "yes",
        )
    except ValueError as error:
        raise InsightError(f"page {page.code}-{page.name}: {error}") from error


def discover() -> Sequence[Rule]:
    """All rules, ordered by code; codes and names are unique.

    Raises:
        InsightError: two rules share a code or a name, or a module has no page.
    """
    return _found((importlib.import_module(__name__), *extensions.packages("rules")))


@cache
def _found(packages: tuple[ModuleType, ...]) -> Sequence[Rule]:
    found: list[Rule] = []
    for package in packages:
        folders = [Path(p) for p in package.__path__]
        of_package = [rule_of(page, package.__name__, folders) for page in pages(folders)]
        modules = {p for folder in folders for p in folder.rglob("ni[0-9]*.py")}
        for module in sorted(modules - {rule.page.module for rule in of_package}):
            raise InsightError(f"rule module {module.name}: no page NI###-name.md stands beside it")
        found += of_package
    rules = sorted(found, key=lambda r: r.code)
    for attribute in ("code", "name"):
        seen: set[str] = set()
        for rule in rules:
            value = getattr(rule, attribute)
            if value in seen:
                raise InsightError(f"two rules share the {attribute} {value}")
            seen.add(value)
    natures = {rule.name: rule.natures for rule in rules}
    return tuple(
        replace(rule, caused_by=causes_of(natures, (*rule.caused_by, f"-{rule.name}")) if rule.caused_by else ())
        for rule in rules
    )

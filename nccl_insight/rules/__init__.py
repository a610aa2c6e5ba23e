"""Diagnoses by family, one page or module each, found by file name.

``<family>/NI###-name.md`` is a diagnosis that the messages decide alone (:mod:`nccl_insight.rules.page`),
``<family>/niNNN_<name with underscores>.py`` one with logic.

A rule module defines ``CLASS`` (F, P, I, S or L), ``SEVERITY``, ``ACTION``, ``NEEDS`` (tables of which at
least one must have rows), ``check(run)`` and a docstring under the fixed headings below. Its silence is final,
unless it says ``SPEAKS = True``: then lines that mean its diagnosis speak for themselves where it is silent. Code and
name come from the file name. Nothing is registered by hand; third parties add packages of rules by the entry point
group ``nccl_insight.rules`` (the entry point names a package).
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from nccl_insight import extensions
from nccl_insight.errors import InsightError
from nccl_insight.model import Action, CannotJudge, Confidence, FindingClass, Hit, Severity
from nccl_insight.tables.run import Run

if TYPE_CHECKING:
    from nccl_insight.rules.page import Page

HEADINGS = (
    "What it finds", "Why it matters", "How it decides", "What to do", "False positives", "References",
)  # fmt: skip
_FILE = re.compile(r"ni([0-9]{3})_([a-z0-9_]+)")


class Check(Protocol):
    """The one function of a rule."""

    def __call__(self, run: Run) -> Iterator[Hit | CannotJudge]:
        """Yields what was found, or why nothing could be decided."""


@dataclass(frozen=True)
class Rule:
    """A diagnosis: its metadata, documentation and check."""

    code: str
    name: str
    finding_class: FindingClass
    severity: Severity
    confidence: Confidence
    action: Action
    needs: tuple[str, ...]
    doc: str
    check: Check
    caused_by: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=())
    thresholds: Mapping[str, float] = field(default_factory=dict)
    speaks: bool = False

    @property
    def summary(self) -> str:
        """First line of the documentation."""
        return self.doc.splitlines()[0] if self.doc else ""

    def section(self, heading: str) -> str:
        """Text under one of the fixed headings."""
        match = re.search(rf"^{heading}\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", self.doc, re.M | re.S)
        return match[1].strip() if match else ""


def rule_of(module: ModuleType) -> Rule:
    """Reads the metadata of a rule module.

    Raises:
        InsightError: a constant or heading is missing; the message names module and item.
    """
    stem = module.__name__.rsplit(".", 1)[-1]
    match = _FILE.fullmatch(stem)
    if match is None:
        raise InsightError(f"rule module {stem}: the file name must be niNNN_<name>.py")
    try:
        return Rule(
            code=f"NI{match[1]}",
            name=match[2].replace("_", "-"),
            finding_class=FindingClass(module.CLASS),
            severity=module.SEVERITY,
            confidence=getattr(module, "CONFIDENCE", Confidence.HIGH),
            action=module.ACTION,
            needs=tuple(module.NEEDS),
            doc=inspect.cleandoc(module.__doc__ or ""),
            check=module.check,
            caused_by=tuple(getattr(module, "CAUSED_BY", ())),
            sources=tuple(getattr(module, "SOURCES", ())),
            thresholds=dict(getattr(module, "THRESHOLDS", {})),
            speaks=bool(getattr(module, "SPEAKS", False)),
        )
    except AttributeError as error:
        raise InsightError(f"rule module {stem}: {error}") from error


def page_module() -> ModuleType:
    """The reader of pages (imported late: pages use what rules share)."""
    return importlib.import_module(f"{__name__}.page")


def rule_of_page(page: Page) -> Rule:
    """The rule that a page makes.

    Raises:
        InsightError: a value of its front matter does not exist.
    """
    finding_class, severity, confidence, action = page_module().values(page)
    return Rule(
        code=page.code,
        name=page.name,
        finding_class=finding_class,
        severity=severity,
        confidence=confidence,
        action=action,
        needs=("errors",),
        doc=page.doc,
        check=page.check,
        caused_by=page.caused_by,
    )


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(package.__path__):
        if info.ispkg:
            yield from _modules(extensions.imported(f"{package.__name__}.{info.name}"))
        elif _FILE.fullmatch(info.name):
            yield extensions.imported(f"{package.__name__}.{info.name}")


def discover() -> Sequence[Rule]:
    """All rules, ordered by code; codes and names are unique.

    Raises:
        InsightError: two rules share a code or a name.
    """
    return _found((importlib.import_module(__name__), *extensions.packages("rules")))


@cache
def _found(packages: tuple[ModuleType, ...]) -> Sequence[Rule]:
    found = [rule_of(module) for package in packages for module in _modules(package)]
    found += [rule_of_page(page) for package in packages for page in page_module().pages(package)]
    rules = sorted(found, key=lambda r: r.code)
    for attribute in ("code", "name"):
        seen: set[str] = set()
        for rule in rules:
            value = getattr(rule, attribute)
            if value in seen:
                raise InsightError(f"two rules share the {attribute} {value}")
            seen.add(value)
    return tuple(rules)

"""One check of the catalog, by code: its page, its rule, and what it finds in a run."""

from __future__ import annotations

from typing import Final

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.rules import Rule, discover
from nccl_insight.tables.run import Run

NAMES: Final = frozenset(rule.name for rule in discover())


def rule(code: str) -> Rule:
    """The rule of a code."""
    return next(rule for rule in discover() if rule.code == code)


def page(code: str) -> str:
    """The text of its page, with its examples."""
    return rule(code).page.path.read_text(encoding="utf-8")


def check(code: str, run: Run) -> list[Hit | CannotJudge]:
    """What the check yields."""
    return list(rule(code).check(run))

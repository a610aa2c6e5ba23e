"""Figures that every rank has one of, and which ranks stand apart."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.facts.figures.apart import apart

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "nccl_insight"


def test_figures_mark_whom_facts_name() -> None:
    """The test for ranks that stand apart has one home; figures have no statistics of their own for it."""
    assert apart({0: 1.0, 1: 1.0, 2: 1.01, 3: 2.0}) == (1.005, [3])
    assert apart({0: 1.0, 1: 1.0, 2: 1.0, 3: 1.09}) == (1.0, [])
    users = [p.name for p in (PACKAGE / "report").rglob("*.py") if "1.4826" in p.read_text("utf-8")]
    assert users == []

"""The numbers that checks read and the numbers that their pages declare are the same, so the policy can change each."""

from __future__ import annotations

import ast

import pytest

from nccl_insight.rules import Rule, discover
from tests import source


def _read(rule: Rule) -> set[str]:
    """Keys of each ``ctx["key"]`` in the module of a check."""
    if not rule.page.module.is_file():
        return set()
    return {
        str(node.slice.value)
        for node in ast.walk(source.tree(rule.page.module))
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ctx"
        and isinstance(node.slice, ast.Constant)
    }


@pytest.mark.parametrize("rule", discover(), ids=lambda rule: rule.code)
def test_thresholds_are_declared_and_read(rule: Rule) -> None:
    assert _read(rule) == set(rule.thresholds)


def test_the_check_sees_thresholds() -> None:
    read = {key for rule in discover() for key in _read(rule)}
    assert {"total_s", "small_bytes", "warning_share"} <= read

"""Every number that a rule reads from the policy is declared, so the configuration accepts it."""

from __future__ import annotations

import ast
import inspect
import sys

import pytest

from nccl_insight.rules import Rule, discover


def _read(rule: Rule) -> set[tuple[str, str]]:
    """(rule name, key) of each call ``threshold(run, name, key, ...)`` in the module of a rule."""
    module = sys.modules[rule.check.__module__]
    tree = ast.parse(inspect.getsource(module))
    names = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "threshold":
            parts = [
                arg.value if isinstance(arg, ast.Constant) else names.get(getattr(arg, "id", ""))
                for arg in node.args[1:3]
            ]
            found.add((str(parts[0]), str(parts[1])))
    return found


@pytest.mark.parametrize("rule", discover(), ids=lambda rule: rule.code)
def test_thresholds_are_declared(rule: Rule) -> None:
    assert {key for name, key in _read(rule) if name == rule.name} <= set(rule.thresholds)


def test_the_check_sees_thresholds() -> None:
    read = {key for rule in discover() for name, key in _read(rule) if name == rule.name}
    assert {"total_s", "small_bytes", "warning_share"} <= read

"""Changes one thing at a time in checks and counts the changes that the checks' own examples notice.

    python tools/mutants.py NI211 NI513        # these checks; all of them take about ten minutes
    python tools/mutants.py --sample 10        # at most ten changes of each

Run from the checkout. Left out: annotations and texts of findings, which examples do not compare.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import pkgutil
import random
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import nccl_insight.rules
from nccl_insight.base.model import Hit, Severity
from nccl_insight.rules import Rule
from nccl_insight.share import api
from nccl_insight.tables.run import Run
from tests.test_rule_fixtures import EXAMPLES, Example, differs, rules

SWAPS: dict[type, type] = {
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLS = {"any": "all", "all": "any", "max": "min", "min": "max", "is_null": "is_not_null", "is_not_null": "is_null"}


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations and texts."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child
                yield from _code(child)


def _places(tree: ast.AST) -> list[tuple[ast.AST, str]]:
    found: list[tuple[ast.AST, str]] = []
    for node in _code(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            found.append((node, "comparison"))
        elif isinstance(node, (ast.BoolOp, ast.BinOp)) and type(node.op) in SWAPS:
            found.append((node, "operator"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            found.append((node, "call"))
        elif isinstance(node, (ast.If, ast.IfExp)):
            found.append((node, "condition"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            found.append((node, "number"))
    return found


def _change(node: ast.AST) -> None:
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, (ast.BoolOp, ast.BinOp)):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node.func.attr = CALLS[node.func.attr]
    elif isinstance(node, (ast.If, ast.IfExp)):
        node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1  # type: ignore[operator]


def _holds(module: types.ModuleType, run: Run, example: Example, rule: Rule) -> bool:
    """Whether a check gives what its example wants."""
    hits = [hit for hit in module.check(rule.context(run)) if isinstance(hit, Hit)]
    loud = [hit for hit in hits if (hit.severity or rule.severity) is not Severity.INFO]
    if not example.fires:
        return not (hits if rule.severity is Severity.INFO else loud)
    if not example.expect:
        return bool(hits)
    if len(hits) != len(example.expect):
        return False
    judged = [replace(hit, severity=hit.severity or rule.severity) for hit in hits]
    return not any(differs(*pair) for pair in zip(judged, example.expect, strict=True))


def survivors(module: types.ModuleType, rule: Rule, most: int) -> tuple[int, list[tuple[int, str]]]:
    """Number of changes tried, and line and kind of those that no example noticed."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    runs: list[tuple[Run, Example]] = []
    for number, example in enumerate(e for e in EXAMPLES if e.code == rule.code):
        log = folder / f"{number}.log"
        log.write_text(example.log, encoding="utf-8")
        run = api.load(log)
        if _holds(module, run, example, rule):
            runs.append((run, example))
    source = Path(module.__file__ or "").read_text(encoding="utf-8")
    count = len(_places(ast.parse(source)))
    picked = sorted(random.Random(rule.code).sample(range(count), min(count, most)))
    left: list[tuple[int, str]] = []
    for index in picked:
        tree = ast.parse(source)
        node, kind = _places(tree)[index]
        line = getattr(node, "lineno", 0)
        _change(node)
        mutant = types.ModuleType(module.__name__)
        mutant.__dict__.update(__package__=module.__package__, __file__=module.__file__)
        try:
            exec(compile(ast.fix_missing_locations(tree), "mutant", "exec"), mutant.__dict__)
            unnoticed = all(_holds(mutant, run, example, rule) for run, example in runs)
        except Exception:
            unnoticed = False
        if unnoticed:
            left.append((line, kind))
    return len(picked), left


def modules() -> dict[str, types.ModuleType]:
    """Modules of checks by code."""
    found = {}
    for info in pkgutil.walk_packages(nccl_insight.rules.__path__, "nccl_insight.rules."):
        name = info.name.rpartition(".")[2]
        if name.startswith("ni") and name[2:5].isdigit():
            found[name[:5].upper()] = importlib.import_module(info.name)
    return found


def main(argv: list[str]) -> int:
    """Prints a line for each check, with the lines whose changes nobody noticed, and the share of those noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("codes", nargs="*")
    parser.add_argument("--sample", type=int, default=1_000_000)
    options = parser.parse_args(argv)
    tried = noticed = 0
    for code, module in sorted(modules().items()):
        if (options.codes and code not in options.codes) or not any(e.code == code and e.fires for e in EXAMPLES):
            continue
        count, left = survivors(module, rules()[code], options.sample)
        tried, noticed = tried + count, noticed + count - len(left)
        print(f"{code}: {count - len(left)} of {count}", *(f"{line}:{kind}" for line, kind in left))
    print(f"noticed {noticed} of {tried}" + (f" = {noticed / tried:.2f}" if tried else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Views hold plain values, and reports get nothing else of a run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.tables.run import Run
from nccl_insight.views.events import events
from nccl_insight.views.log import log
from nccl_insight.views.page import page, structure
from nccl_insight.views.platform import platform
from tests import render_samples as samples
from tests import source
from tests.runs import HEALTHY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TABLES = ("polars", "nccl_insight.tables", "nccl_insight.readers", "nccl_insight.loading", "nccl_insight.facts")


def leaves(value: object) -> Iterator[object]:
    """What a view is made of, from the frozen dataclasses and tuples down."""
    if is_dataclass(value) and not isinstance(value, type):
        assert value.__dataclass_params__.frozen, type(value)  # type: ignore[attr-defined]
        for field in fields(value):
            yield from leaves(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from leaves(pair)
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def check(run: Run) -> None:
    analysis = nccl_insight.analyze(run)
    found = [*leaves((page(run, analysis), platform(run), structure(run), events(run), log(run)))]
    assert len(found) > 20
    assert {type(value) for value in found} <= {str, int, float, bool, type(None)}


@pytest.mark.parametrize("name", ["healthy", "failing", "traced"])
def test_views_are_made_of_plain_values(name: str) -> None:
    check(samples.ALL[name]()[1])


def test_views_of_a_read_log_are_made_of_plain_values() -> None:
    check(nccl_insight.load([HEALTHY]))


def test_the_contract_forbids_tables_in_all_reports_without_exception() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (contract,) = (c for c in contracts["contracts"] if c["name"].startswith("reports see no tables"))
    assert contract["type"] == "forbidden"
    assert contract["source_modules"] == ["nccl_insight.report"]
    assert set(TABLES) <= set(contract["forbidden_modules"])
    assert "ignore_imports" not in contract


def test_reports_import_no_tables() -> None:
    """The same without import-linter, within functions too."""
    found = []
    for path in source.modules("report"):
        for node in ast.walk(source.tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [(path.name, n) for n in names if any(n == t or n.startswith(f"{t}.") for t in TABLES)]
    assert found == []

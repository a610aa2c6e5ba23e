"""The library as a notebook uses it: what results show, and that the notebook of the documentation runs."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Analysis
from nccl_insight.tables.run import build_run
from tests import render_samples as samples
from tests import source
from tests.runs import HEALTHY, TINY_SHM

DOCS = Path(__file__).parents[2] / "docs"


def _shown(value: Any) -> str:
    """What a notebook would show of a value."""
    html = getattr(value, "_repr_html_", None)
    return str(html()) if html is not None else repr(value)


def test_the_notebook_of_the_documentation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS)
    notebook = json.loads((DOCS / "notebook.ipynb").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        tree = source.parsed("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "notebook", "exec"), names)
        if isinstance(last, ast.Expr):
            shown.append(_shown(eval(compile(ast.Expression(last.value), "notebook", "eval"), names)))
    assert "<code>errors</code>" in shown[0]
    assert "FAIL: /dev/shm is too small" in shown[3]
    assert "error[NI401] shm-too-small" in shown[4]
    assert "## FAIL" in shown[5]
    assert "'node'" in shown[6]
    assert "<svg" in shown[7]
    assert "<svg" in names["figures"]["init"]._repr_mimebundle_()["text/html"]  # where no script runs
    assert len(shown) == 10


def test_results_are_short_and_escape_log_text() -> None:
    analysis, run = samples.failing()
    hostile = samples.finding(title="<script>alert(1)</script>")
    assert "<script>" not in hostile._repr_html_()
    assert len(repr(run)) < 400
    assert "0x7f" not in repr(run)
    assert repr(analysis.findings[0]).startswith("<error[NI223] ib-qp-timeout:")
    result = nccl_insight.analyze(TINY_SHM)
    assert isinstance(result, Analysis)
    assert repr(result).startswith("<FAIL: /dev/shm is too small")
    assert len(repr(result)) < 500
    assert str(result).startswith("FAIL")


def test_a_result_writes_the_report(tmp_path: Path) -> None:
    result = nccl_insight.analyze(HEALTHY)
    document = result.to_html(tmp_path / "report.html", js="none")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == document
    assert json.loads(result.to_json()) == json.loads(json.dumps(result.to_dict()))
    with pytest.raises(UsageError):
        result.to_html(js="maybe")
    with pytest.raises(UsageError):
        result.to_html(tmp_path / "no" / "such" / "folder" / "report.html")


def test_figures_are_plotly_or_drawings_with_their_style() -> None:
    graph_objects = pytest.importorskip("plotly.graph_objects")
    figures = nccl_insight.analyze(HEALTHY).figures()
    assert isinstance(figures["init"], graph_objects.Figure)
    drawing = figures["node"]._repr_html_()
    assert "<svg" in drawing
    assert ".nccl-insight .draw .gpu{" in drawing
    assert not re.search(r"(^|[}>])\.draw", drawing), "every rule stays inside its own part of the page"


def test_without_plotly_charts_are_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    chart = nccl_insight.analyze(HEALTHY).figures()["init"]
    assert chart._repr_html_().count("<svg") == 1
    assert "<Drawing Where initialization spent its time: " in repr(chart)


def test_tables_are_listed_and_queried() -> None:
    run = build_run({"ranks": pl.DataFrame({"rank": [0, 1]})})
    assert run.tables().rows() == [("ranks", 2, run.table("ranks").width)]
    assert nccl_insight.query(run, "select max(rank) as m from ranks").item() == 1
    assert "<code>ranks</code>" in run._repr_html_()


def test_two_runs_are_compared() -> None:
    found = nccl_insight.diff(HEALTHY, [TINY_SHM])
    assert found.differs
    assert "shm-too-small" in str(found)
    assert found._repr_html_().startswith("<pre>")


def test_the_package_offers_its_names() -> None:
    assert {"load", "analyze", "diff", "query", "Run", "Analysis", "Finding"} <= set(dir(nccl_insight))
    assert nccl_insight.Finding.__name__ == "Finding"
    assert nccl_insight.Policy.__name__ == "Policy"

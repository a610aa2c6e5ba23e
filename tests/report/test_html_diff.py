"""The comparison page: what it says, that it is safe and loads nothing."""

from __future__ import annotations

import dataclasses
import json

import polars as pl
import pytest

from nccl_insight.engine.compare import Comparison, compare
from nccl_insight.report import diff, html_diff
from nccl_insight.tables.run import build_run
from tests import render_samples as samples
from tests.hostile import PAYLOADS
from tests.report.html_pages import Page


def _comparison() -> Comparison:
    (good, good_run), (bad, _) = samples.healthy(), samples.failing()
    return compare(good_run, build_run(samples.cluster_tables(2, bad_node=1)), good, bad)


def test_headline_findings_changes_and_paths() -> None:
    page = Page(html_diff.render(_comparison(), js="none"))
    assert "DIFFERENT New error: " in page.text
    assert "5 findings differ (4 new, 1 gone), 6 changes" in page.text
    assert "The run that worked job-4711/all.log" in page.text
    assert "new Error NI223 ib-qp-timeout" in page.text
    assert "Look at this first" in page.text
    assert "2.26.2" in page.text


def test_the_same_run_twice_is_the_same() -> None:
    analysis, run = samples.healthy()
    page = Page(html_diff.render(compare(run, run, analysis, analysis), js="none"))
    assert "SAME No difference in what both runs show" in page.text


def test_machine_readable_copy_and_determinism() -> None:
    comparison = _comparison()
    text = html_diff.render(comparison, js="none")
    assert Page(text).data("nccl-insight") == json.loads(diff.to_json(comparison))
    assert text == html_diff.render(comparison, js="none")


@pytest.mark.parametrize("js", ["inline", "cdn", "none"])
def test_size_and_policy(js: str) -> None:
    text = html_diff.render(_comparison(), js=js)
    assert len(text) < {"inline": 6_000_000}.get(js, 200_000)
    assert "default-src 'none'" in text.replace("&#x27;", "'")


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_text_adds_no_element(payload: str) -> None:
    comparison = _comparison()
    short = payload[:5000]
    bad = dataclasses.replace(
        comparison,
        bad=((0, short),),
        changes=tuple(
            dataclasses.replace(c, subject=short, good=short, bad=short, hosts=(short,), ratio=2.0, effect=bool(n % 2))
            for n, c in enumerate(comparison.changes)
        ),
        findings=tuple(dataclasses.replace(f, title=short) for f in comparison.findings),
    )
    harmless = {tag for tag, _ in Page(html_diff.render(comparison, js="cdn")).tags} | {
        "figure",
        "figcaption",
        "details",
    }
    page = Page(html_diff.render(bad, js="cdn"))
    assert {tag for tag, _ in page.tags} <= harmless | {"summary", "svg", "use", "span", "b", "h3"}
    assert len([attrs for attrs, _ in page.scripts if attrs.get("type") != "application/json"]) == 3
    assert pl.Series([page.text]).str.contains("\u202e").sum() == 0

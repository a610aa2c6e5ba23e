"""Phrases that several renderers share: the verdict in words, where a finding is, what was not judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nccl_insight.base.model import Coverage, Evidence, InputInfo, JobPart, Severity
from nccl_insight.report import words
from tests import render_samples as samples
from tests.two_runs import analysis, finding


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.968, "96.8%"), (1.0, "100%"), (0.9999, "99.9%"), (0.0, "0%"), (0.0001, "<0.1%"), (0.5, "50.0%")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share: float, shown: str) -> None:
    assert words.percent(share) == shown


def test_the_folder_that_all_paths_share() -> None:
    assert words.common_folder(["a/b/x.log", "a/b/c/y.log", "a/b/x.log"]) == "a/b/"
    assert words.common_folder(["a/bc/x", "a/bd/y"]) == "a/"
    assert words.common_folder(["a/x"]) == ""
    assert words.common_folder(["x", "y"]) == ""


def test_findings_are_counted_by_severity() -> None:
    found = [finding("a", Severity.ERROR), finding("b", Severity.WARNING), finding("c", Severity.WARNING)]
    assert words.verdict_counts(analysis(*found)) == "1 error, 2 warnings"
    assert words.verdict_counts(analysis()) == "no findings"
    assert words.cause(replace(analysis(*found), headline="it broke")) == "it broke"
    assert words.cause(replace(analysis(finding("a", Severity.INFO)), status="ok")) == "No problem found"


def test_how_much_was_understood() -> None:
    known, _ = samples.healthy()
    log = replace(known, coverage=Coverage(lines=1_000, nccl_lines=1_000, parsed=968))
    assert words.coverage_line(log) == "1,000 lines (96.8% understood)"
    mixed = replace(log, coverage=Coverage(lines=1_500, nccl_lines=1_000, parsed=1_000, foreign=500))
    assert words.coverage_line(mixed) == "1,500 lines (100% of 1,000 NCCL lines understood)"
    foreign = replace(known, coverage=Coverage(lines=3), inputs=(InputInfo("a", "unknown", 1, "", 3),))
    assert words.coverage_line(foreign) == "3 lines (none from NCCL)"
    assert words.coverage_line(replace(foreign, inputs=(InputInfo("a", "kineto", 1, "", 3),))) == ""


def test_values_have_their_unit_behind_a_bare_number() -> None:
    seen = replace(finding("a", Severity.ERROR), observed="2.1", expected="at least 180", unit="GB/s", evidence=())
    assert words.compared(seen) == "observed 2.1 GB/s, expected at least 180 GB/s"
    said = replace(seen, observed="timed out.", unit="GB/s", evidence=(Evidence("a", 1, "it timed out at last"),))
    assert words.observed_expected(said)[0] == ""
    both = (Evidence("a", 0, ""), Evidence("b", 7, "", primary=True))
    first = words.primary(replace(seen, evidence=both))
    assert first is not None
    assert words.location(first) == "b:7"
    assert words.location(both[0]) == "a"


def test_who_is_affected_and_what_a_job_is() -> None:
    seen = replace(finding("a", Severity.ERROR), ranks=(0, 1, 2, 5), hosts=("gpu01", "gpu02"))
    assert words.affected(seen) == "ranks 0-2,5 on gpu01, gpu02"
    part = JobPart("job 1", ("b.log",), 2, ("2.21.5",), judged=True, reached="init")
    assert words.job_part(part) == "job 1: 2 ranks, NCCL 2.21.5 (b.log): init"
    assert words.job_part(replace(part, nranks=None, nccl_versions=(), reached="")) == "job 1: unknown size (b.log)"
    assert words.crossed(2, 2, 2, "nodes") == "twice, the minimum for 2 nodes"

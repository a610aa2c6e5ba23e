"""The result types that pass between rules, engine and renderers: frozen, serializable, free of polars."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nccl_insight.base.model import Confidence, Coverage, Job, Progress, Role, Severity, Step, causes_of, loud_of
from tests.two_runs import analysis, finding


def test_errors_come_before_warnings_and_notes() -> None:
    assert sorted(Severity, key=lambda s: s.order) == [Severity.ERROR, Severity.WARNING, Severity.INFO]
    assert sorted(Confidence, key=lambda c: c.order) == [Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW]
    assert [s.word for s in Severity] == ["error", "warning", "note"]


@pytest.mark.parametrize(
    ("status", "severities", "verdict"),
    [
        ("findings", (Severity.WARNING, Severity.ERROR), "FAIL"), ("findings", (Severity.WARNING,), "WARN"),
        ("ok", (Severity.INFO,), "OK"), ("not_judged", (), "NOT JUDGED"), ("inconclusive", (), "INCONCLUSIVE"),
        ("running", (Severity.ERROR,), "RUNNING"),
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_the_worst_finding(status: str, severities: tuple[Severity, ...], verdict: str) -> None:
    found = replace(analysis(*(finding(s.value, s) for s in severities)), status=status)
    assert found.verdict == verdict
    assert found.count(Severity.ERROR) == severities.count(Severity.ERROR)


def test_causes_are_the_loud_ones_that_follow_from_no_other() -> None:
    root, note = finding("a", Severity.ERROR), finding("c", Severity.INFO)
    after = replace(finding("b", Severity.ERROR), role=Role.CASCADE)
    assert loud_of([root, after, note]) == (root, after)
    assert causes_of([root, after, note]) == (root,)
    assert causes_of([after, note]) == (after,)


def test_what_can_be_pasted_and_by_whom() -> None:
    assert Step("check", "sudo dmesg").needs_root
    assert not Step("do", "sudo is not for this").needs_root
    assert not Step("do", "talk").is_command
    assert Step("check", "py-spy dump", "while the job runs").while_running
    assert not Step("check", "ls").while_running


def test_a_job_and_its_progress_in_one_line() -> None:
    assert Job(nranks=64, n_nodes=8, nccl_versions=("2.27.3",)).line == "64 ranks on 8 nodes, NCCL 2.27.3"
    assert Job(nranks=1_024, n_nodes=1, ranks_seen=3).line == "3 of 1,024 ranks on 1 node"
    assert (Job(n_nodes=2).line, Job().line) == ("2 nodes", "")
    assert Progress("init done", "cut").line == "init done; cut"
    assert Progress("", "").line == ""
    assert Coverage(nccl_lines=4, parsed=3).understood == 0.75
    assert Coverage().understood == 1.0

"""Markdown for tickets: content, size, and text that tries to leave its fence."""

from __future__ import annotations

import dataclasses
import re

import pytest

from nccl_insight.base.model import Analysis, Coverage, Evidence, InputInfo, NotJudged
from nccl_insight.report import markdown
from tests import render_samples as samples


def test_a_failing_run_reads_verdict_findings_gaps_inputs() -> None:
    out = markdown.render(samples.failing()[0])
    headings = [line for line in out.splitlines() if line.startswith("#")]
    assert headings == [
        "## FAIL: Queue pair set-up to 10.1.7.23 timed out on 2 ranks",
        "### ERROR NI223 ib-qp-timeout",
        "### ERROR NI102 version-mix",
        "### WARNING NI210 net-socket-fallback",
        "### WARNING NI501 peer-died",
        "### Suppressed",
        "### Not judged",
        "### Coverage",
        "### Inputs",
    ]
    assert "- **Where:** `job-4711/all.log:214`; ranks 40-41 on gpu-node-05" in out
    assert "- **Do:** Run `ibping -G 0xb8599f03001a2b3c` from gpu-node-05" in out
    assert "follows from `ib-qp-timeout`" in out
    assert "NOT redacted" in out


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_stays_below_the_limit(name: str) -> None:
    assert len(markdown.render(samples.ALL[name]()[0])) < 60_000


def test_a_huge_analysis_is_cut_between_findings_and_says_so() -> None:
    long = Evidence("x" * 5000, 1, "`" * 4000, True)
    many = tuple(dataclasses.replace(samples.finding(), title="t" * 5000, evidence=(long,) * 40) for _ in range(500))
    gaps = tuple(NotJudged(f"name-{n}", "r" * 400 + str(n), "h" * 400) for n in range(500))
    inputs = tuple(InputInfo(f"{n}" + "p" * 4000, "nccl_log", 1, "0" * 64, 1) for n in range(500))
    out = markdown.render(
        Analysis("findings", many, samples.healthy()[0].job, Coverage(), inputs, samples.TOOL, not_judged=gaps)
    )
    assert len(out) < 60_000
    assert re.search(r"and \d+ more findings", out)
    assert "more inputs" in out


@pytest.mark.parametrize(
    "text",
    ["```\n# out", "``````", "~~~", "<script>alert(1)</script>", "</details>", "`` ` ``", "a\n```\nb", "\u202e```"],
)
def test_a_fence_cannot_be_closed_by_its_content(text: str) -> None:
    block = markdown.fence([text], "log").split("\n")
    ticks = block[-1]
    assert set(ticks) == {"`"}
    assert block[0] == ticks + "log"
    assert not [line for line in block[1:-1] if re.match(rf"\s*`{{{len(ticks)},}}", line)]


def test_log_text_in_titles_stays_text() -> None:
    out = markdown.escape("<img src=x onerror=alert(1)> @maintainer [x](javascript:1) #12 a|b https://evil.example")
    assert "<img" not in out
    assert "@maintainer" not in out
    assert "](" not in out.replace("\\](", "")
    assert "https://" not in out


def test_code_span_cannot_be_closed_by_its_content() -> None:
    assert markdown.code_span("a``b") == "```a``b```"
    assert markdown.code_span("`") == "`` ` ``"


def test_an_open_fence_is_closed_when_the_text_is_cut() -> None:
    assert markdown.close_fence("a\n````log\nfoo\n```\ncut") == "a\n````log\nfoo\n```\n````"
    assert markdown.close_fence("a\n```\nb\n```\ncut") == "a\n```\nb\n```"

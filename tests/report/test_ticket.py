"""What people paste: the filled issue form, a few lines for a chat, SARIF."""

from __future__ import annotations

import dataclasses
import json
import re

import jsonschema
import pytest

import nccl_insight
from nccl_insight.advise.settings.lint import lint_text
from nccl_insight.base.model import Analysis
from nccl_insight.report import markdown, sarif, ticket
from nccl_insight.report.lint_report import render_sarif
from nccl_insight.views.platform import platform
from tests import render_samples as samples
from tests.cli import run_cli
from tests.hostile import PAYLOADS
from tests.report.sarif_log import SARIF
from tests.runs import HEALTHY, TINY_SHM

#: The questions of NVIDIA/nccl's issue form, in its order.
FORM = [
    "How is this issue impacting you?",
    "Share Your Debug Logs",
    "Steps to Reproduce the Issue",
    "NCCL Version",
    "Your platform details",
    "Error Message & Behavior",
]
IMPACTS = {"Lower performance than expected", "Application crash", "Data corruption", "Application hang"}


def _questions(text: str) -> list[str]:
    return re.findall(r"^### (.+)$", text, re.M)


def test_the_form_is_filled_with_what_the_log_tells() -> None:
    run = nccl_insight.load(TINY_SHM)
    text = ticket.github_issue(nccl_insight.analyze(run), platform(run))
    assert _questions(text) == FORM
    answers = dict(zip(FORM, re.split(r"^### .+$", text, flags=re.M)[1:], strict=True))
    assert answers["How is this issue impacting you?"].strip() in IMPACTS
    assert answers["NCCL Version"].strip() == "2.27.7+cuda12.8"
    assert "| Ranks and nodes | 4 ranks on 1 node |" in answers["Your platform details"]
    assert "NCCL_P2P_DISABLE=1" in answers["Steps to Reproduce the Issue"]
    assert "<details>" in answers["Share Your Debug Logs"]
    assert "failed to extend /dev/shm/" in answers["Share Your Debug Logs"]
    assert "NI401 shm-too-small" in answers["Error Message & Behavior"]
    assert "NOT redacted" in text


def test_what_the_inputs_do_not_tell_is_asked_for_not_made_up() -> None:
    analysis, run = samples.healthy()
    bare = dataclasses.replace(analysis, job=dataclasses.replace(analysis.job, nccl_versions=(), cuda_versions=()))
    text = ticket.github_issue(bare, platform(run))
    assert "_not in the inputs: strings libnccl.so" in text
    assert "_Please choose: lower performance" in text


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_a_chat_gets_eleven_lines_at_most(name: str) -> None:
    analysis, _ = samples.ALL[name]()
    lines = ticket.chat(analysis).splitlines()
    assert 2 <= len(lines) <= 11
    assert max(map(len, lines)) <= 540
    assert "|" not in lines[1]


def test_a_chat_says_cause_line_and_step() -> None:
    lines = ticket.chat(nccl_insight.analyze(TINY_SHM)).splitlines()
    assert lines[0].startswith("FAIL: /dev/shm is too small")
    assert "4 ranks on 1 node, NCCL 2.27.7" in lines[1]
    assert any(line.startswith("cause: /dev/shm is too small") or " cause: /dev/shm" in line for line in lines)
    assert ":114 (ranks 0-3 on node00): " in lines[-3]
    assert lines[-2].startswith("Next: check: df -h /dev/shm")


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_hostile_text_stays_text(payload: str) -> None:
    analysis, run = samples.failing()
    short = payload[:4000]
    found = tuple(
        dataclasses.replace(
            f, title=short, observed=short, evidence=tuple(dataclasses.replace(e, text=short) for e in f.evidence)
        )
        for f in analysis.findings
    )
    hostile = dataclasses.replace(analysis, findings=found, headline=short)
    text = ticket.github_issue(hostile, platform(run))
    assert _questions(re.sub(r"(?s)(`{3,})log.*?\n\1$", "", text)) == FORM
    assert len(text) < markdown.LIMIT
    outside = re.sub(r"(?sm)^(`{3,})\w*\n.*?^\1$", "", text)
    assert set(re.findall(r"<(/?[a-z]+)", outside)) <= {"details", "/details", "summary", "/summary", "sub", "/sub"}
    assert len(ticket.chat(hostile).splitlines()) <= 11
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", ticket.chat(hostile))
    jsonschema.validate(json.loads(sarif.render(hostile)), SARIF)


def test_lint_and_analyze_share_the_frame() -> None:
    document = json.loads(render_sarif([lint_text("job.sh", "export NCCL_IB_TIMEOUT=50\nsrun ./a\n", None)]))
    jsonschema.validate(document, SARIF)
    result = document["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 1
    assert document["runs"][0]["tool"]["driver"]["name"] == "nccl-insight lint"


def test_the_command_line_writes_them() -> None:
    assert run_cli("analyze", TINY_SHM, "--format", "chat").stdout.startswith("FAIL: /dev/shm")
    assert "### NCCL Version" in run_cli("analyze", HEALTHY, "--format", "github-issue").stdout
    assert json.loads(run_cli("analyze", HEALTHY, "--format", "sarif").stdout)["version"] == "2.1.0"


def test_an_analysis_of_nothing_has_its_forms() -> None:
    _, run = samples.healthy()
    empty = Analysis("not_judged", (), samples.healthy()[0].job, samples.healthy()[0].coverage, (), samples.TOOL)
    assert _questions(ticket.github_issue(empty, platform(run))) == FORM
    assert ticket.chat(empty).startswith("NOT JUDGED")


def test_markdown_holds_the_platform_and_folds_the_evidence() -> None:
    run = nccl_insight.load([TINY_SHM])
    analysis = nccl_insight.analyze(run)
    command = "nccl-insight analyze run.log --token hunter2"
    text = markdown.render(analysis, ticket.platform(analysis, platform(run), command))
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert "| NCCL | 2.27.7+cuda12.8 |" in rows
    assert "| Ranks and nodes | 4 ranks on 1 node |" in rows
    assert "| Command | `nccl-insight analyze run.log --token ***` |" in rows
    assert "NCCL_P2P_DISABLE=1" in text
    assert "hunter2" not in text
    assert "<summary>Evidence: " in text
    assert text.count("<details>") == text.count("</details>")

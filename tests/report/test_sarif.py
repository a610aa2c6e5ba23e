"""SARIF 2.1.0, as code-scanning pages of forges read it."""

from __future__ import annotations

import dataclasses
import json

import jsonschema
import pytest

import nccl_insight
from nccl_insight.base.model import Severity
from nccl_insight.report import sarif
from tests import render_samples as samples
from tests.hostile import PAYLOADS
from tests.report.sarif_log import SARIF
from tests.runs import TINY_SHM


def test_sarif_has_no_link_of_a_log() -> None:
    text = "[click](javascript:alert(1)) \x1b[31m\u202e " + PAYLOADS[0]
    result = sarif.Result("NI201", Severity.ERROR, [text, text], [("//evil.example/x.log", 3), ("javascript:x", 0)])
    found = json.loads(sarif.document("t", [result], {"NI201": "x"}, {"NI201": text}))
    (run,) = found["runs"]
    said = run["results"][0]["message"]["text"] + run["tool"]["driver"]["rules"][0]["shortDescription"]["text"]
    assert "](" not in said
    uris = [at["physicalLocation"]["artifactLocation"]["uri"] for at in run["results"][0]["locations"]]
    assert uris == ["/evil.example/x.log", "javascript%3Ax"]


def test_sarif_of_hostile_findings_has_no_control() -> None:
    analysis = nccl_insight.analyze(nccl_insight.load(TINY_SHM))
    bad = tuple(dataclasses.replace(f, title="\x1b[31m[a](b) \u202e", explanation="[a](b)") for f in analysis.findings)
    shown = sarif.render(dataclasses.replace(analysis, findings=bad))
    assert "](" not in shown
    assert "\\u001b" not in shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_findings_as_sarif(name: str) -> None:
    analysis, _ = samples.ALL[name]()
    document = json.loads(sarif.render(analysis))
    jsonschema.validate(document, SARIF)
    (run,) = document["runs"]
    assert [r["ruleId"] for r in run["results"]] == [f.code for f in analysis.findings]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in run["results"])
    levels = {"error": "error", "warning": "warning", "info": "note"}
    assert [r["level"] for r in run["results"]] == [levels[f.severity.value] for f in analysis.findings]

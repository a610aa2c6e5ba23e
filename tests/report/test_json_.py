"""JSON output against its published schema, and what the schema cannot say."""

from __future__ import annotations

import dataclasses
import json

import pytest

from nccl_insight.base.model import Analysis, Coverage, Evidence
from nccl_insight.report import json_
from tests import render_samples as samples

jsonschema = pytest.importorskip("jsonschema")


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_follows_the_published_schema(name: str) -> None:
    document = json.loads(json_.render(samples.ALL[name]()[0]))
    jsonschema.Draft202012Validator.check_schema(json_.schema())
    jsonschema.validate(document, json_.schema(), jsonschema.Draft202012Validator)


def test_schema_refuses_a_wrong_severity() -> None:
    document = json.loads(json_.render(samples.failing()[0]))
    document["findings"][0]["severity"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json_.schema())


def test_verdict_findings_and_roles() -> None:
    document = json.loads(json_.render(samples.failing()[0]))
    assert document["schema_version"] == 1
    assert document["verdict"]["status"] == "findings"
    assert document["verdict"]["counts"] == {"error": 2, "warning": 2, "info": 0}
    assert document["verdict"]["word"] == "FAIL"
    assert [f["name"] for f in document["findings"]] == [
        "ib-qp-timeout",
        "version-mix",
        "net-socket-fallback",
        "peer-died",
    ]
    assert document["findings"][0]["class"] == "F"
    assert document["findings"][3]["caused_by"] == "ib-qp-timeout"
    assert document["findings"][0]["evidence"][0]["line"] == 214
    assert document["suppressed"][0]["reason"] == "known on this cluster"
    assert document["coverage"]["unknown_templates"][0]["count"] == 420


def test_same_analysis_gives_the_same_bytes() -> None:
    assert json_.render(samples.failing()[0]) == json_.render(samples.failing()[0])


def test_unencodable_and_endless_text_is_made_safe() -> None:
    bad = dataclasses.replace(samples.finding(), evidence=(Evidence("a\udcff.log", 1, "\x1b[1m" + "é" * 10**6, True),))
    out = json_.render(Analysis("findings", (bad,), samples.healthy()[0].job, Coverage(), (), samples.TOOL))
    evidence = json.loads(out)["findings"][0]["evidence"][0]
    assert evidence["input"] == "a\\udcff.log"
    assert len(evidence["text"]) < 5000
    assert "more characters" in evidence["text"]

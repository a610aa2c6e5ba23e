"""Jobs with planted culprits: what is said, what must not be said, and figures, against the truth beside them."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

import nccl_insight
from nccl_insight.report import json_
from nccl_insight.tables.run import Run
from tests import runs

SHARED = runs.SHARED / "traces"
CASES = sorted(p.parent for p in SHARED.glob("constructed/*/truth.json"))
STEPS = sorted(p.parent for p in SHARED.glob("steps/*/truth.json"))
pytestmark = pytest.mark.skipif(not CASES, reason="reference traces: set NCCL_INSIGHT_REFERENCE_DATA")

Finding = dict[str, Any]


def said(finding: Finding) -> str:
    keys = ("title", "explanation", "observed", "expected", "next_step")
    return " ".join(str(finding.get(k) or "") for k in keys)


def meets(finding: Finding, wanted: dict[str, Any]) -> bool:
    ranks = sorted(finding["ranks"])
    allowed = wanted.get("ranks_any", [wanted["ranks"]] if "ranks" in wanted else [ranks])
    return (
        finding["name"] in wanted["any_of"]
        and ranks in [sorted(r) for r in allowed]
        and re.search(wanted.get("says") or "", said(finding)) is not None
    )


def figure(run: Run, wanted: dict[str, Any]) -> float | None:
    rows = [
        row
        for row in run.table(wanted["table"]).iter_rows(named=True)
        if all(row.get(k) == v for k, v in wanted.get("where", {}).items())
    ]
    if wanted["agg"] == "count":
        return len(rows)
    values = [row[wanted["column"]] for row in rows if row[wanted["column"]] is not None]
    how: dict[str, Any] = {"sum": sum, "max": max, "min": min, "median": statistics.median}
    return float(how[wanted["agg"]](values)) if values else None


@pytest.mark.parametrize("case", [*CASES, *STEPS], ids=lambda p: p.name)
def test_what_is_said_about_a_constructed_job(case: Path) -> None:
    truth = json.loads((case / "truth.json").read_text())
    run = nccl_insight.load([p for p in sorted(case.iterdir()) if p.name != "truth.json"])
    findings = json_.to_dict(nccl_insight.analyze(run))["findings"]
    for wanted in truth["expect"]:
        assert any(meets(f, wanted) for f in findings), (wanted, [f["title"] for f in findings])
    expected = {n for wanted in truth["expect"] for n in wanted["any_of"]}
    allowed = {*truth["allow"], *expected}
    for finding in findings:
        if finding["severity"] in ("warning", "error") and finding["caused_by"] not in expected:
            name = finding["name"]
            assert name not in truth["forbid"], finding["title"]
            assert "*" not in truth["forbid"] or name in allowed, finding["title"]
    for wanted in truth["figures"]:
        got = figure(run, wanted)
        slack = 2000 if wanted.get("unit") == "ns" else 0
        assert got == pytest.approx(wanted["value"], rel=0.01, abs=slack), wanted["what"]

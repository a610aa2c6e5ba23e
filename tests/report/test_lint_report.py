"""The results of ``lint`` as text for people and as JSON."""

from __future__ import annotations

import json

from nccl_insight.advise.settings.lint.check import lint_text
from nccl_insight.report.lint_report import render_json, render_sarif, render_text

GOOD = lint_text("good.sh", "export NCCL_DEBUG=INFO\n./train\n", "2.27.3")
BAD = lint_text("bad.sh", "#!/bin/bash\nexport NCCL_IB_DISABEL=1\n./train\n", "2.27.3")


def test_a_verdict_stands_in_front_of_what_was_found() -> None:
    said = render_text([BAD, GOOD]).splitlines()
    assert said[0].split()[:2] == ["WARN", "bad.sh"] or said[0].split()[:2] == ["FAIL", "bad.sh"]
    assert "1 setting, NCCL 2.27.3" in said[0]
    assert any(line.startswith("  where  bad.sh:2") for line in said)
    assert any(line.startswith("OK  good.sh  no findings") for line in said)
    quiet = render_text([BAD], quiet=True)
    assert quiet.count("\n") == 1
    assert "\x1b[" in render_text([BAD], color=True)
    assert "\x1b[" not in quiet


def test_programs_get_the_same() -> None:
    document = json.loads(render_json([GOOD, BAD]))
    assert document["verdict"]["status"] == "findings"
    assert [file["path"] for file in document["files"]] == ["good.sh", "bad.sh"]
    (found,) = document["files"][1]["findings"]
    assert (found["line"], found["variable"]) == (2, "NCCL_IB_DISABEL")
    assert json.loads(render_json([GOOD]))["verdict"]["status"] == "ok"
    (result,) = json.loads(render_sarif([GOOD, BAD]))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 2

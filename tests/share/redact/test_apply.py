"""Redaction of whole runs and analyses."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from nccl_insight.report import json_, junit, markdown, text
from nccl_insight.share import api
from nccl_insight.share.redact import collect
from nccl_insight.share.redact.apply import redact_analysis, redact_run
from tests import pages
from tests import render_samples as samples


def test_tables_lines_and_analysis_are_redacted_and_the_findings_stay() -> None:
    analysis, run = samples.failing()
    redactor = collect(run, [])
    hidden, safe = redact_analysis(analysis, redactor), redact_run(run, redactor)
    assert hidden.redacted
    assert [(f.code, f.name, f.severity, f.ranks, f.role, f.fingerprint) for f in hidden.findings] == [
        (f.code, f.name, f.severity, f.ranks, f.role, f.fingerprint) for f in analysis.findings
    ]
    for frame in safe.tables.values():
        for series in frame.get_columns():
            if series.dtype == pl.String:
                assert not series.str.contains("gpu-node|job-4711").any()
    assert safe.table("ranks")["host"].n_unique() == run.table("ranks")["host"].n_unique()
    outputs = {
        "text": text.render(hidden, verbosity=2),
        "json": json_.render(hidden),
        "md": markdown.render(hidden),
        "junit": junit.render(hidden),
        "html": pages.render(hidden, safe, js="none"),
        "cdn": pages.render(hidden, safe, js="cdn"),
    }
    for name, out in outputs.items():
        assert "gpu-node" not in out, name
        assert "10.1.7.23" not in out, name
        assert "job-4711" not in out, name
    assert "node5" in outputs["html"]
    assert "Hosts, addresses, users and paths are replaced" in outputs["html"]
    assert "Free text of other programs can hold secrets" in outputs["html"]


def test_a_report_never_says_the_names_of_its_files(tmp_path: Path) -> None:
    """Not in sentences either: how the output ends names the file that ends."""
    for number in (1, 2):
        log = tmp_path / f"acme-{number}" / f"acme-run-{number}.log"
        log.parent.mkdir()
        log.write_text(
            f"gpu01:{number}:{number} [0] NCCL INFO NCCL version 2.27.7+cuda12.8\ndriver: time limit reached, leaving\n"
        )
    run = api.load([str(tmp_path)])
    analysis = api.analyze(run)
    assert "acme-run-2.log" in analysis.progress.end  # type: ignore[union-attr]
    hidden = redact_analysis(analysis, collect(run, []))
    assert "input2-2.log:2" in hidden.progress.end  # type: ignore[union-attr]
    assert "acme" not in json.dumps(json_.to_dict(hidden))

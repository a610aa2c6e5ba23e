"""One zip for a ticket."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

from nccl_insight.inputs.find import find_inputs
from nccl_insight.share import api, bundle
from nccl_insight.share.redact import collect, redact_analysis, redact_run
from nccl_insight.tables.run import build_run
from nccl_insight.views.page import page
from tests import render_samples as samples
from tests.share.job_with_names import LOG


def test_bundle_holds_everything_redacted_with_checksums(tmp_path: Path) -> None:
    log = tmp_path / "ares-gpu017.log"
    log.write_text(LOG)
    run = api.load([str(log)])
    redactor = collect(run, [LOG])
    hidden, safe = redact_analysis(api.analyze(run), redactor), redact_run(run, redactor)
    target = tmp_path / "ticket.zip"
    command = f"nccl-insight analyze --token=abc {log}"
    bundle.write(target, hidden, page(safe, hidden), safe.inputs, redactor, command=command)
    first = target.read_bytes()
    with zipfile.ZipFile(target) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert set(members) == {
        "README.txt", "SHA256SUMS", "analysis.json", "inputs/input1-node1.log", "report.html", "ticket.md",
    }  # fmt: skip
    for line in members["SHA256SUMS"].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(members[name]).hexdigest() == digest
    for name, data in members.items():
        for secret in (b"ares-gpu", b"10.31.7", b"mwinter", b"secret-llama", b"token=abc", str(tmp_path).encode()):
            assert secret not in data, (name, secret)
    assert json.loads(members["analysis.json"])["redacted"] is True
    bundle.write(target, hidden, page(safe, hidden), safe.inputs, redactor, command=command)
    assert target.read_bytes() == first


def test_a_large_log_is_shortened_in_the_bundle_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(
        b"ares-gpu017:1:2 [0] NCCL INFO first\n"
        + b"0123456789 filler\n" * 1_000_000
        + b"ares-gpu017:1:2 [0] NCCL INFO last\n"
    )
    analysis, _ = samples.healthy()
    target = tmp_path / "t.zip"
    bundle.write(
        target,
        analysis,
        page(build_run({}), analysis),
        find_inputs([str(log)]),
        collect(build_run({}), ["ares-gpu017:1:2 [0] NCCL INFO"]),
    )
    with zipfile.ZipFile(target) as archive:
        data = archive.read("inputs/input1.log")
    assert len(data) < 9 << 20
    assert data.startswith(b"node1:1:2 [0] NCCL INFO first\n")
    assert data.endswith(b"node1:1:2 [0] NCCL INFO last\n")
    assert b"bytes left out of the bundle" in data

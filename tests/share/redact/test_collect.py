"""Learns names from the tables of a run and from raw text."""

from __future__ import annotations

import dataclasses
import gzip
import ipaddress
import re
from pathlib import Path

import pytest

from nccl_insight.share import api
from nccl_insight.share.redact import collect
from nccl_insight.tables.run import build_run
from tests import runs
from tests.share.job_with_names import IPV4

SHARED = runs.SHARED


def _cases() -> list[Path]:
    corpus = sorted((SHARED / "corpus").glob("*/run.log"))
    simulated = SHARED / "simulated"
    ranks = sorted(p for p in simulated.glob("*.ranks/*") if p.is_file())
    return [*corpus, *sorted(simulated.glob("*.log")), *sorted(simulated.glob("*.log.gz")), *ranks]


def _read(path: Path) -> str:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8", "surrogateescape")


def _hosts(log: str) -> set[str]:
    """Host names of a log by a reading of its own: heads of lines, 'Pid N on HOST device'."""
    found = set(re.findall(r"^([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] ", log, re.M))
    return (found | set(re.findall(r"Pid +\d+ on (\S+) device", log))) - {"localhost"}


def test_no_host_or_address_of_the_collections_survives() -> None:
    cases = _cases()
    if not cases:
        pytest.skip("the collections of logs : set NCCL_INSIGHT_REFERENCE_DATA")
    for case in cases:
        log = _read(case)
        out = collect(build_run({}), [log]).text(log)
        words = set(re.findall(r"[A-Za-z0-9][\w.-]*", out))
        assert not {h for h in _hosts(log) if h in words and not re.fullmatch(r"node[1-9]\d*", h)}, case
        left = set(IPV4.findall(log)) & set(IPV4.findall(out))
        assert {a for a in left if _identifies(a)} == set(), case
        assert not re.search(r"/(?:home|users|Users|scratch)/", out), case


def _identifies(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast or address.startswith("255."))


def test_findings_of_redacted_logs_are_the_same(tmp_path: Path) -> None:
    cases = _cases()[::9]
    if not cases:
        pytest.skip("the collections of logs : set NCCL_INSIGHT_REFERENCE_DATA")
    for case in cases:
        run = api.load([str(case)])
        log = _read(case)
        copy = tmp_path / "run.log"
        copy.write_text(collect(run, [log]).text(log), encoding="utf-8", errors="surrogateescape")
        before, after = api.analyze(run), api.analyze([str(copy)])
        assert [(f.name, f.severity, f.ranks) for f in after.findings] == [
            (f.name, f.severity, f.ranks) for f in before.findings
        ], case
        assert dataclasses.astuple(after.coverage)[:6] == dataclasses.astuple(before.coverage)[:6], case

"""The first finding of a failed job, whom it blames, and what must not be said, on cases with a known root."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import nccl_insight

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = sorted((Path(__file__).parents[1] / "fixtures" / "triage").glob("*/case.toml"))


def short(hosts: object) -> set[str]:
    return {str(h).split(".")[0] for h in (hosts if isinstance(hosts, (list, tuple)) else ())}


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.parent.name)
def test_root_and_blame(path: Path) -> None:
    case: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    findings = nccl_insight.analyze([path.parent / "run.log"]).findings
    loud = [f for f in findings if f.severity.value in ("warning", "error")]
    told = [(f.severity.value, f.name, f.title) for f in loud]
    if not loud:
        assert not case["root"] or case.get("none_ok"), told
        return
    assert loud[0].name in case["root"], told
    blamed = case.get("blamed", {})
    if "ranks" in blamed:
        assert set(loud[0].ranks) == set(blamed["ranks"]), told
    if "hosts" in blamed:
        assert short(loud[0].hosts) == short(blamed["hosts"]), told
    assert not [f.name for f in loud if f.name in case["must_not"]], told
    assert not [f.name for f in loud if f.action.value in case["actions_not"]], told


def test_there_are_cases() -> None:
    assert len(CASES) >= 20

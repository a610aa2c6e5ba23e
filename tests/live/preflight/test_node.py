"""Reading the node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nccl_insight.live.preflight.node import Node


def test_an_nvml_call_that_never_returns_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "stand_ins"))
    monkeypatch.setenv("NVML_STAND_IN", json.dumps({"hang_s": 3600}))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert Node({}, tmp_path).nvml(timeout_s=1.0).state == "hung"

"""Reading the node."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.live.preflight.node import Node


def test_an_nvml_call_that_never_returns_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "stand_ins"))
    monkeypatch.setenv("NVML_STAND_IN", json.dumps({"hang_s": 3600}))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert Node({}, tmp_path).nvml(timeout_s=1.0).state == "hung"


def test_files_of_a_machine_are_read_and_missing_ones_are_nothing(tmp_path: Path) -> None:
    gpus = tmp_path / "proc/driver/nvidia/gpus"
    for bus, text in (
        ("0000:2b:00.0", "Model: \t NVIDIA L4\nIRQ: 9\n"),
        ("0000:1b:00.0", "Model:   Tesla T4\n"),
        ("x", ""),
    ):
        (gpus / bus).mkdir(parents=True)
        (gpus / bus / "information").write_text(text)
    node = Node({}, tmp_path)
    assert node.read("/proc/driver/nvidia/gpus/0000:1b:00.0/information") == "Model:   Tesla T4"
    assert node.read("/proc/none") == ""
    assert node.read_bytes("/proc/none") == b""
    assert node.entries("/proc/driver/nvidia/gpus") == ["0000:1b:00.0", "0000:2b:00.0", "x"]
    assert node.entries("/proc/none") == []
    assert node.gpu_names() == ["Tesla T4", "NVIDIA L4"]
    assert node.exists("/proc/driver")
    assert not node.exists("/sys")
    assert node.size_of("/proc/none") is None
    assert node.package("no-such-package-of-ours", "polars") == pl.__version__
    assert node.package("no-such-package-of-ours") is None


def test_messages_of_the_kernel_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    assert Node({}, tmp_path).kernel_log() is None
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kmsg").write_bytes(b"6,1,1,-;NVRM: loaded\n\xff")
    assert Node({}, tmp_path).kernel_log() == "6,1,1,-;NVRM: loaded\n\ufffd"

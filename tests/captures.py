"""Captures with children that only pretend to measure."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

from nccl_insight.live.capture.parent import Launch, capture, make_directory
from nccl_insight.live.capture.plan import Plan

FAKE = Path(__file__).with_name("fake_rank.py")
HAS_TORCH = importlib.util.find_spec("torch") is not None


def fake(mode: str) -> tuple[str, ...]:
    return (sys.executable, str(FAKE), mode)


def alive(group: int) -> bool:
    """Whether a process group keeps a member that is no zombie (the kernel needs a moment to end one)."""
    for _ in range(50):
        if not members(group):
            return False
        time.sleep(0.1)
    return True


def members(group: int) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, pgrp = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:3]
            except (OSError, ValueError):
                continue
            if int(pgrp) == group and state != "Z":
                return True
    return False


def cli(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nccl_insight", *arguments],
        capture_output=True, text=True, timeout=200, env={**os.environ, **(env or {})}, cwd=cwd, check=False,
    )  # fmt: skip


# --- capture with fake ranks ---------------------------------------------------------------------------------


def run_fake(tmp_path: Path, mode: str, ranks: int = 2, deadline: float = 20.0):  # type: ignore[no-untyped-def]
    return capture(Plan(), Launch(make_directory(tmp_path / "c"), ranks, deadline, dict(os.environ), child=fake(mode)))

"""The next step of a finding taken apart, by hand."""

from __future__ import annotations

import pytest

from nccl_insight.base.model import Step
from nccl_insight.engine.steps import steps_of


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("", ()),
        ("Find the rank that is late first", (Step("do", "Find the rank that is late first"),)),
        ("ping each host", (Step("do", "ping each host"),)),
        ("df -h /dev/shm", (Step("check", "df -h /dev/shm"),)),
        ("export NCCL_IB_TIMEOUT=22", (Step("fix", "export NCCL_IB_TIMEOUT=22"),)),
        ("df -h /dev/shm; ls /dev/shm", (Step("check", "df -h /dev/shm; ls /dev/shm"),)),
        (
            "dmesg -T | grep Xid; docker run --shm-size=1g IMAGE",
            (Step("check", "dmesg -T | grep Xid"), Step("fix", "docker run --shm-size=1g IMAGE")),
        ),
        ("on gpu07: ibstat mlx5_0", (Step("check", "ibstat mlx5_0", "on gpu07"),)),
        ("awk '{ print $1; }' run.log", (Step("check", "awk '{ print $1; }' run.log"),)),
        ("ulimit -l on both hosts", (Step("check", "ulimit -l", "on both hosts"),)),
    ],
)
def test_commands_words_and_places(text: str, steps: tuple[Step, ...]) -> None:
    assert steps_of(text) == steps


def test_a_line_break_within_a_step_is_a_blank() -> None:
    assert steps_of("Restart the job\non another node") == (Step("do", "Restart the job on another node"),)
    assert steps_of(" \n ") == ()


def test_a_setting_that_makes_a_run_tell_more_mends_nothing() -> None:
    assert [s.label for s in steps_of("NCCL_DEBUG=INFO torchrun train.py")] == ["check"]
    assert [s.label for s in steps_of("NCCL_IB_TIMEOUT=22 torchrun train.py")] == ["fix"]

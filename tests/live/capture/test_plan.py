"""What a capture measures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.live.capture import plan as plans
from nccl_insight.live.capture.plan import Plan
from nccl_insight.share import api
from tests.captures import run_fake


def test_a_healthy_capture_is_read_whole(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "well", ranks=4)
    assert done.code == 0
    run = api.load([done.directory])
    assert run.table("capture_ranks")["rank"].sort().to_list() == [0, 1, 2, 3]
    assert run.table("benchmarks")["busbw_gbps"].to_list() == [360.0, 360.0]
    assert run.table("communicators")["ranks_seen"].to_list() == [4]
    assert {"capture", "nccl_log", "unknown"} == set(run.table("inputs")["kind"].to_list())  # and how it ended
    assert (done.directory / "capture.log").read_text().startswith("nccl-insight capture: 4 processes exited cleanly")


def test_grandchildren_of_a_hanging_capture_are_gone(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "hang", deadline=2.0)
    assert done.code == 5
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not any(str(tmp_path) in line and "fake_rank" in line for line in left.splitlines())


def test_ranks_that_the_watchdog_ended_count_as_a_hang(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "watchdog")
    assert done.code == 5
    assert not done.outcome.timed_out


def test_sizes_and_operations() -> None:
    assert [plans.parse_size(t) for t in ("8", "64K", "1MiB", "2G")] == [8, 65536, 1 << 20, 2 << 30]
    assert plans.sweep(8, 100, 4) == (8, 32, 100)
    assert plans.parse_ops("all") == plans.OPS
    assert plans.parse_injection("slow-rank=12") == 12
    for call in (
        lambda: plans.parse_size("12x"),
        lambda: plans.parse_size("0"),
        lambda: plans.sweep(9, 8, 2),
        lambda: plans.parse_ops("allreduce"),
        lambda: plans.parse_injection("fast-rank=1"),
    ):
        with pytest.raises(UsageError):
            call()


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = Plan(ops=("broadcast",), sizes=(8, 16), slow_rank=1)
    plan.write(tmp_path / "p.json")
    assert Plan.load(tmp_path / "p.json") == plan

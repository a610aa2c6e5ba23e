"""The levels that run a collective."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import threading
from pathlib import Path

import pytest

from nccl_insight.live.capture import processes
from nccl_insight.live.capture.environment import World
from nccl_insight.live.capture.parent import Launch, make_directory
from nccl_insight.live.capture.plan import Plan
from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight.bench import Measured, diagnostics, measure, plan_for
from nccl_insight.live.preflight.model import Check, Result, Status
from tests.live.gates import cli

FAKE = Path(__file__).parents[2] / "fake_rank.py"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Output("missing"), None),
        (Output("hung"), Status.SKIP),
        (Output("failed", "Error: unable to connect to host engine"), Status.SKIP),
        (Output("ok", "| Software | Pass |\n| PCIe  | Pass - All |\n"), Status.PASS),
        (Output("ok", "| Software | Pass |\n| Memory | Fail - GPU 2 |\n"), Status.FAIL),
    ],
)
def test_the_diagnosis_of_dcgm(answer: Output, status: Status | None) -> None:
    found = diagnostics(lambda *argv, timeout_s: answer)
    assert [c.status for c in found] == ([] if status is None else [status])


# --- with a collective ---------------------------------------------------------------------------------------


def judged(tmp_path: Path, mode: str, deadline: float = 20.0) -> tuple[dict[str, Check], Result]:
    child = (sys.executable, str(FAKE), mode)
    done = measure(Plan(), Launch(make_directory(tmp_path / "c"), 4, deadline, dict(os.environ), child=child))
    return {c.name: c for c in done.checks}, Result(
        done.checks, "standard", "n", timed_out=done.timed_out, facts=done.facts
    )


def test_a_collective_that_works(tmp_path: Path) -> None:
    found, result = judged(tmp_path, "well")
    assert found["all-reduce"].status is Status.PASS
    assert found["correctness"].status is Status.PASS
    assert "360 GB/s" in found["bandwidth"].observed
    assert (result.facts["busbw"], result.facts["nccl"], result.facts["ranks"]) == (360.0, "2.21.5", 4.0)
    assert result.code == 0


def test_a_collective_that_hangs(tmp_path: Path) -> None:
    found, result = judged(tmp_path, "hang-all", deadline=2.0)
    assert found["all-reduce"].status is Status.FAIL
    assert "kill -CONT" not in found["all-reduce"].fix
    assert result.code == 5
    assert result.last_line().endswith("exit=5")


def test_a_rank_that_is_stopped_is_to_be_set_going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_HALTED_S", 0.2)
    monkeypatch.setitem(processes.run_group.__kwdefaults__, "straggle_s", 0.3)
    found, result = judged(tmp_path, "stopped", deadline=600.0)
    assert "kill -CONT" in found["all-reduce"].fix
    assert result.code == 5


def test_wrong_results_fail(tmp_path: Path) -> None:
    found, result = judged(tmp_path, "wrong")
    assert found["correctness"].status is Status.FAIL
    assert "1 of 2 results wrong" in found["correctness"].observed
    assert result.code == 1


def test_a_slow_link_is_reported(tmp_path: Path) -> None:
    found, _ = judged(tmp_path, "slow")
    assert (found["expected busbw"].status, found["expected busbw"].code) == (Status.WARN, "NI640")


def test_a_node_of_a_world_that_nobody_names_is_not_judged_where_the_deadline_passes(tmp_path: Path) -> None:
    world = World(1, 2, 0, "127.0.0.1", 29501)
    child = (sys.executable, str(FAKE), "hang")
    done = measure(Plan(), Launch(make_directory(tmp_path / "c"), 1, 3.0, dict(os.environ), world, child=child))
    result = Result(done.checks, "full", "n", judged=done.judged, timed_out=done.timed_out)
    assert [check.status for check in done.checks] == [Status.SKIP]
    assert result.last_line() == "NCCL-INSIGHT preflight SKIP - node=n action=none exit=3"


def test_operations_and_sizes_can_be_chosen(tmp_path: Path) -> None:
    plan = plan_for("nccl", together=True, ops=("all_to_all",), sizes=(1 << 30,))
    assert (plan.ops, plan.sizes, plan.pair_bytes) == (("all_to_all",), (1 << 30,), 64 << 20)
    for options, says in (
        (("--ops", "all_reduce"), "go with --level standard or full"),
        (("--level", "standard", "--ops", "allsum"), "'allsum' is not known"),
        (("--level", "standard", "--sizes", "8,many"), "'many' is not a number of bytes"),
    ):
        result = cli(*options, cwd=tmp_path)
        assert (result.returncode, says in result.stderr) == (2, True), result.stderr


needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def _world(tmp_path: Path, ranks: list[int], size: int, deadline_s: float) -> dict[int, Measured]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    directory = tmp_path / "shared"
    directory.mkdir()
    plan = Plan(
        backend="gloo", ops=("all_reduce",), sizes=(1024,), iterations=2, warmup=1, profile_steps=0, pair_bytes=1024,
        verdict=("",),
    )  # fmt: skip
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    found: dict[int, Measured] = {}

    def one(rank: int) -> None:
        world = World(rank, size, 0, "127.0.0.1", port)
        found[rank] = measure(plan, Launch(directory, 1, deadline_s, environ, world))

    threads = [threading.Thread(target=one, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@needs_torch
def test_the_others_go_on_without_a_rank_that_does_not_come(tmp_path: Path) -> None:
    found = _world(tmp_path, [0, 1], 3, 90)
    first = {check.name: check for check in found[0].checks}
    assert first["ranks"].status is Status.FAIL
    assert "rank 2 did not come" in first["ranks"].observed
    assert first["all-reduce"].status is Status.PASS
    assert first["correctness"].observed == "1 results right on 2 ranks"
    assert not found[0].timed_out
    assert [check.status for check in found[1].checks] == [Status.PASS]


@needs_torch
def test_without_the_first_rank_the_others_say_so(tmp_path: Path) -> None:
    found = _world(tmp_path, [1], 2, 30)
    (told,) = found[1].checks
    assert told.status is Status.FAIL
    assert "rank 0 did not come" in told.observed

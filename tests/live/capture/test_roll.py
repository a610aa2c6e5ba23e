"""Who comes to a world that is measured, and who is named where somebody does not."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.live.capture import child
from nccl_insight.live.capture.environment import World, hosts_of
from nccl_insight.live.capture.parent import Captured, Launch, describe
from nccl_insight.live.capture.plan import Plan
from nccl_insight.live.capture.processes import Ended, Outcome, Task, run_group
from nccl_insight.live.preflight.bench import Measured, measure
from nccl_insight.live.preflight.model import Status

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


class Store(dict[str, bytes]):
    """The part of torch's store that the roll needs."""

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)

    def get(self, key: str, default: Any = None) -> bytes:  # torch's get waits; here all is there
        return self[key]


@pytest.mark.parametrize(
    ("listed", "hosts"),
    [
        ("gpu[07-09,12],login3", ["gpu07", "gpu08", "gpu09", "gpu12", "login3"]),
        ("gpu07", ["gpu07"]),
        ("a-b.c[1]", ["a-b.c1"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("", []),
    ],
)
def test_lists_of_hosts(listed: str, hosts: list[str]) -> None:
    assert hosts_of(listed) == hosts


def test_a_list_of_hosts_cannot_be_endless() -> None:
    assert len(hosts_of("n[0-999999999]")) == 20_000


def _called(tmp_path: Path, names: dict[int, str], monkeypatch: pytest.MonkeyPatch, world: int) -> list[int]:
    store = Store({f"here/{rank}": name.encode() for rank, name in names.items()})
    recorder = child.Recorder(tmp_path / "capture.rank0.jsonl")
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu0")
    return child._roll(store, Plan(roll_s=0.3), 0, world, recorder)


def test_the_roll_names_who_did_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_STEP_NODELIST", "gpu[0-3]")
    assert _called(tmp_path, {1: "gpu1", 3: "gpu3"}, monkeypatch, 4) == [0, 1, 3]
    (line,) = (tmp_path / "capture.rank0.jsonl").read_text().splitlines()
    assert json.loads(line) == {"kind": "absent", "ranks": [2], "hosts": ["gpu2"]}
    assert Captured(tmp_path, None, 4).absent == ([2], ["gpu2"])  # type: ignore[arg-type]


def test_a_roll_that_is_complete_takes_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _called(tmp_path, {1: "gpu1"}, monkeypatch, 2) == [0, 1]
    assert (tmp_path / "capture.rank0.jsonl").read_text() == ""
    assert Captured(tmp_path, None, 2).absent == ([], [])  # type: ignore[arg-type]


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


def _files(directory: Path, entered: dict[int, int]) -> None:
    for rank, count in entered.items():
        rows: list[dict[str, object]] = [{"kind": "head", "rank": rank, "host": f"gpu{rank}"}, {"kind": "ready"}]
        rows += [{"kind": "enter", "op": "all_gather", "size_bytes": 1 << (20 + n)} for n in range(count)]
        (directory / f"capture.rank{rank}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _hung(directory: Path) -> Captured:
    children = (Ended("rank 0", -9, killed=True),)
    return Captured(directory, Outcome(children, timed_out=True, seconds=60.0), 3)


@pytest.mark.parametrize(
    ("entered", "says"),
    [
        ({0: 2, 1: 2, 2: 1}, "while in all_gather of 2.0 MiB; rank 2 (gpu2) did not get to all_gather of 2.0 MiB"),
        ({0: 2, 1: 0, 2: 0}, "rank 1 (gpu1), rank 2 (gpu2) did not get to"),
    ],
)
def test_a_hang_names_who_is_behind(tmp_path: Path, entered: dict[int, int], says: str) -> None:
    _files(tmp_path, entered)
    assert says in describe(_hung(tmp_path))


def test_nobody_is_named_where_all_are_at_one_place(tmp_path: Path) -> None:
    _files(tmp_path, {0: 2, 1: 2})
    assert "did not get to" not in describe(_hung(tmp_path))
    with (tmp_path / "capture.rank1.jsonl").open("a") as stream:
        stream.write('{"kind": "stopped"}\n')
    assert "rank 1 (gpu1) was stopped (SIGSTOP" in describe(_hung(tmp_path))


def test_a_child_that_is_stopped_is_said_to_be_while_the_others_wait(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    told: list[str] = []
    task = Task("rank 0", (sys.executable, "-c", code), dict(os.environ))
    done = run_group([task], 30.0, stopped=lambda name: (told.append(name), os.kill(_child(), signal.SIGCONT))[0])
    (one,) = done.children
    assert (done.timed_out, one.killed, told) == (False, False, ["rank 0"])


def _child() -> int:
    """The process that this one has stopped."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            state, parent = (entry / "stat").read_text().rpartition(") ")[2].split()[:2]
            if (state, int(parent)) == ("T", os.getpid()):
                return int(entry.name)
    raise AssertionError


def test_the_node_that_holds_the_others_up_is_that_of_the_last_line(tmp_path: Path) -> None:
    _files(tmp_path, {0: 2, 1: 2, 2: 1})
    assert _hung(tmp_path).behind()[1] == "gpu2"
    _files(tmp_path, {0: 2, 1: 1, 2: 1})
    assert _hung(tmp_path).behind()[1] == ""

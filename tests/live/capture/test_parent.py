"""Live capture: the parent's duties with children that misbehave, and the real thing on CPU tensors."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.live.capture import child, processes
from nccl_insight.live.capture import plan as plans
from nccl_insight.live.capture.environment import World
from nccl_insight.live.capture.parent import (
    Captured,
    Launch,
    capture,
    describe,
    export_reports,
    join_directory,
    left_out,
    make_directory,
    wrap,
)
from nccl_insight.live.capture.plan import Plan
from nccl_insight.live.capture.processes import Ended, Outcome, run_group
from nccl_insight.share import api
from tests.captures import HAS_TORCH, alive, cli, fake, members, run_fake

needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


def interruptible() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it, and children inherit that


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_the_parent_ends_the_children(tmp_path: Path, number: signal.Signals) -> None:
    marker = tmp_path / "groups"
    child = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(marker)!r}, 'a').write(str(os.getpgrp()) + '\\n')\n"
        "time.sleep(600)\n"
    )
    parent = (
        "import os, sys\n"
        "from nccl_insight.live.capture.processes import Task, run_group\n"
        f"run_group([Task(str(n), (sys.executable, '-c', {child!r}), os.environ) for n in range(2)], 500)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent],
        stderr=subprocess.DEVNULL,
        preexec_fn=interruptible,  # noqa: PLW1509
    )
    limit = time.monotonic() + 60
    while time.monotonic() < limit and (not marker.exists() or marker.read_text().count("\n") < 2):
        time.sleep(0.1)
    groups = [int(line) for line in marker.read_text().split()]
    assert len(groups) == 2
    assert members(groups[0])
    process.send_signal(number)
    assert process.wait(30) != 0
    assert not [group for group in groups if alive(group)]


def test_a_stopped_rank_is_named_long_before_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_HALTED_S", 0.2)
    monkeypatch.setitem(run_group.__kwdefaults__, "straggle_s", 0.3)
    done = run_fake(tmp_path, "stopped", deadline=600.0)
    assert (done.code, done.outcome.given_up) == (5, True)
    assert describe(done).startswith("given up after ")
    assert "rank 1 (node-a) was stopped" in describe(done)
    assert "rank 0 (" not in describe(done)


@pytest.mark.parametrize("mode", ["hang-all", "stubborn"])
def test_a_hanging_capture_ends_with_its_partial_log(tmp_path: Path, mode: str) -> None:
    started = time.monotonic()
    done = run_fake(tmp_path, mode, deadline=2.0)
    assert done.code == 5
    assert time.monotonic() - started < 2 + 5
    assert "deadline passed" in describe(done)
    found = api.analyze(done.directory)
    assert (found.status, "deadline passed after" in found.headline) == ("inconclusive", True)
    run = api.load([done.directory])
    assert run.table("communicators")["ranks_seen"].to_list() == [2]
    assert run.table("capture_ranks")["finished"].to_list() == [False, False]
    assert run.table("notes")["kind"].to_list().count("trace-truncated") == 2


def test_a_rank_that_dies(tmp_path: Path) -> None:
    started = time.monotonic()
    done = capture(Plan(), Launch(make_directory(tmp_path / "c"), 2, 60, dict(os.environ), child=fake("dies")))
    assert done.code == 1
    assert time.monotonic() - started < 40
    assert "rank 1 ended with signal 11" in describe(done)


def test_a_used_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old.log").write_text("x")
    with pytest.raises(UsageError, match="not empty"):
        make_directory(tmp_path)


def test_wrapping_a_command(tmp_path: Path) -> None:
    directory = make_directory(tmp_path / "w")
    code = "import os; open(os.environ['NCCL_DEBUG_FILE'].replace('%h', 'h').replace('%p', '1'), 'w').write('x\\n')"
    done = wrap([sys.executable, "-c", code], directory, None, dict(os.environ))
    assert done.code == 0
    assert (directory / "nccl.h.1.log").exists()
    assert "exited cleanly" in (directory / "capture.log").read_text()
    with pytest.raises(UsageError, match="cannot be started"):
        wrap(["/no/such/program"], directory, None, dict(os.environ))
    assert wrap([sys.executable, "-c", "raise SystemExit(9)"], directory, None, dict(os.environ)).code == 1


def test_a_world_shares_a_directory_and_refuses_an_earlier_run(tmp_path: Path) -> None:
    worlds = [World(rank, 2, rank, "127.0.0.1", 29500) for rank in range(2)]
    for world in worlds:
        directory = join_directory(tmp_path / "shared", world)
        done = wrap([sys.executable, "-c", "pass"], directory, None, dict(os.environ), world)
        assert done.code == 0
    with pytest.raises(UsageError, match="earlier run of rank 1"):
        join_directory(tmp_path / "shared", worlds[1])
    with pytest.raises(UsageError, match="name it with -o"):
        join_directory(None, worlds[0])


def test_a_rank_that_ends_with_an_error_is_quoted(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('Traceback\\nRuntimeError: address already in use\\n'); sys.exit(1)"
    done = capture(
        Plan(), Launch(make_directory(tmp_path / "c"), 1, 30, dict(os.environ), child=(sys.executable, "-c", code))
    )
    assert done.code == 1
    assert "RuntimeError: address already in use" in describe(done)


def test_what_nccl_calls_its_last_error_goes_before_what_follows_it(tmp_path: Path) -> None:
    """As two ranks on one GPU end with torch 2.11: the warning comes after the reason."""
    said = (
        "[rank0]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:93, invalid usage\n"
        "[rank0]: Last error:\n[rank0]: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n"
        "[rank0]:[W1126 13:04:59.5 ProcessGroupNCCL.cpp:1575] Warning: destroy_process_group() was not called\n"
    )
    code = f"import sys; sys.stderr.write({said!r}); sys.exit(1)"
    done = capture(
        Plan(), Launch(make_directory(tmp_path / "c"), 1, 30, dict(os.environ), child=(sys.executable, "-c", code))
    )
    assert "code 1: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60" in describe(done)


def test_sizes_that_did_not_fit_are_listed(tmp_path: Path) -> None:
    rows = [
        {"kind": "row", "op": "AllReduce", "size_bytes": 8},
        {"kind": "skipped", "op": "AllReduce", "size_bytes": 8 << 30, "skipped": "not enough free GPU memory"},
    ]
    (tmp_path / "capture.rank0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert left_out(tmp_path) == ["AllReduce         8.0 GiB  skipped: not enough free GPU memory"]


def test_a_slow_start_is_not_called_a_hang_in_a_collective(tmp_path: Path) -> None:
    code = "import time; time.sleep(600)"
    done = capture(
        Plan(), Launch(make_directory(tmp_path / "c"), 1, 1.0, dict(os.environ), child=(sys.executable, "-c", code))
    )
    assert done.code == 5
    assert not done.started
    assert "while starting Python" in describe(done)


def test_reports_of_nsight_systems_are_exported(tmp_path: Path) -> None:
    tool = tmp_path / "nsys"
    tool.write_text('#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = -o ] && echo made > "$2"; shift; done\n')
    tool.chmod(0o755)
    folder = tmp_path / "capture"
    folder.mkdir()
    assert "no .nsys-rep" in export_reports(folder, str(tool))[0]
    (folder / "rank0.nsys-rep").write_text("x")
    assert export_reports(folder, str(tool)) == ["rank0.sqlite: exported"]
    assert (folder / "rank0.sqlite").read_text() == "made\n"
    assert "not on PATH" in export_reports(folder, "no-such-tool-anywhere")[0]


# --- the command line ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [("capture",), ("preflight", "--level", "standard")])
def test_without_a_gpu_one_line_and_exit_3(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = cli(*arguments, env={"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "no GPU" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_usage_errors_of_the_command_line(tmp_path: Path) -> None:
    for arguments in (
        ("--backend", "mpi"),
        ("--backend", "gloo", "--ops", "x"),
        ("--backend", "gloo", "--max-bytes", "q"),
    ):
        done = cli("capture", *arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr


@needs_torch
@pytest.mark.parametrize("ranks", [2, 4])
def test_gloo_measures_and_checks(tmp_path: Path, ranks: int) -> None:
    plan = Plan(backend="gloo", ops=plans.OPS, sizes=(1024, 65536), iterations=3, warmup=1, profile_steps=0)
    done = capture(plan, Launch(make_directory(tmp_path / "c"), ranks, 120, dict(os.environ)))
    assert done.code == 0, describe(done)
    run = api.load([done.directory])
    rows = run.table("benchmarks")
    assert rows.height == 12
    assert set(rows["op"].cast(pl.String)) == {
        "AllReduce",
        "AllGather",
        "ReduceScatter",
        "Broadcast",
        "AllToAll",
        "SendRecv",
    }
    assert rows["wrong"].to_list() == [0] * 12
    assert rows["nranks"].unique().to_list() == [ranks]
    assert rows["n_hosts"].unique().to_list() == [1]
    allreduce = rows.filter(pl.col("op") == "AllReduce")
    factor = (allreduce["busbw_gbps"] / allreduce["algbw_gbps"]).to_list()
    assert factor == pytest.approx([2 * (ranks - 1) / ranks] * 2)


@needs_torch
def test_gloo_names_an_injected_slow_rank(tmp_path: Path) -> None:
    done = cli(
        "capture",
        "--backend",
        "gloo",
        "--nproc",
        "4",
        "--inject",
        "slow-rank=2",
        "--max-bytes",
        "64K",
        "-o",
        "cap",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    run = api.load([tmp_path / "cap"])
    assert run.table("collectives")["rank"].n_unique() == 4
    stragglers = [f for f in api.analyze(run).findings if f.name == "straggler-rank"]
    # Where other work takes the processors, another rank may be late, too.
    assert [f.ranks for f in stragglers][:1] == [(2,)]


class Store(dict[str, bytes]):
    """The part of torch's store that the roll needs."""

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)

    def get(self, key: str, default: Any = None) -> bytes:  # torch's get waits; here all is there
        return self[key]


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


def test_a_rank_that_comes_behind_the_roll_is_late_and_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _called(tmp_path, {1: "gpu1", 3: "gpu3"}, monkeypatch, 4)
    assert Captured(tmp_path, None, 4).late == []  # type: ignore[arg-type]
    (tmp_path / "capture.rank2.jsonl").write_text('{"kind": "head", "rank": 2}\n{"kind": "late"}\n')
    assert Captured(tmp_path, None, 4).late == [2]  # type: ignore[arg-type]


def test_a_roll_that_is_complete_takes_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _called(tmp_path, {1: "gpu1"}, monkeypatch, 2) == [0, 1]
    assert (tmp_path / "capture.rank0.jsonl").read_text() == ""
    assert Captured(tmp_path, None, 2).absent == ([], [])  # type: ignore[arg-type]


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


def test_the_node_that_holds_the_others_up_is_that_of_the_last_line(tmp_path: Path) -> None:
    _files(tmp_path, {0: 2, 1: 2, 2: 1})
    assert _hung(tmp_path).behind()[1] == "gpu2"
    _files(tmp_path, {0: 2, 1: 1, 2: 1})
    assert _hung(tmp_path).behind()[1] == ""


@pytest.mark.parametrize(("ago_s", "unfinished"), [(1.0, True), (40.0, False)])
def test_a_slow_machine_at_the_deadline_is_no_hang_and_nobody_is_named(
    ago_s: float, unfinished: bool, tmp_path: Path
) -> None:
    _files(tmp_path, {0: 2, 1: 2, 2: 1})
    with (tmp_path / "capture.rank0.jsonl").open("a") as stream:
        stream.write(json.dumps({"kind": "enter", "op": "all_gather", "at": time.time() - ago_s}) + "\n")
    done = _hung(tmp_path)  # after 60 s
    assert (done.unfinished, "did not get to" in describe(done)) == (unfinished, not unfinished)


def test_an_output_that_another_rank_of_the_world_removed_is_none(tmp_path: Path) -> None:
    (tmp_path / "output.rank1.log").symlink_to(tmp_path / "removed")
    done = Captured(tmp_path, Outcome((Ended("rank 1", 1, killed=False),), timed_out=False, seconds=1.0), 2)
    assert (done.code, done.complaint("rank 1")) == (1, "")


DEEP = '{"zq": ' + "[" * 20_000


def test_lines_of_a_child_that_are_nested_without_end_are_left_out(tmp_path: Path) -> None:
    from nccl_insight.live.capture.parent import left_out

    rows = [DEEP, '{"kind": "skipped", "op": "all_reduce", "size_bytes": 8, "skipped": "no memory"}']
    (tmp_path / "capture.rank0.jsonl").write_text("\n".join(rows))
    assert [row.split()[0] for row in left_out(tmp_path)] == ["all_reduce"]

"""Live capture: the parent's duties with children that misbehave, and the real thing on CPU tensors."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import polars as pl
import pytest
import zstandard

from nccl_insight.base.errors import UsageError
from nccl_insight.inputs.find import find_inputs
from nccl_insight.live.capture import plan as plans
from nccl_insight.live.capture import processes
from nccl_insight.live.capture.archive import pack
from nccl_insight.live.capture.environment import World, gpu_count, nccl_settings, world_of
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
from nccl_insight.live.capture.processes import Task, run_group
from nccl_insight.readers.capture import FORMAT
from nccl_insight.share import api

FAKE = Path(__file__).parents[2] / "fake_rank.py"
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


def fake(mode: str) -> tuple[str, ...]:
    return (sys.executable, str(FAKE), mode)


def alive(group: int) -> bool:
    """Whether a process group keeps a member that is no zombie (the kernel needs a moment to end one)."""
    for _ in range(50):
        if not _members(group):
            return False
        time.sleep(0.1)
    return True


def _members(group: int) -> bool:
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


# --- processes -----------------------------------------------------------------------------------------------


def test_children_that_end_well() -> None:
    outcome = run_group([Task(str(n), (sys.executable, "-c", "pass"), os.environ) for n in range(2)], 30)
    assert outcome.ok
    assert [c.code for c in outcome.children] == [0, 0]


def test_a_hang_is_killed_whole_and_in_time(tmp_path: Path) -> None:
    """The child ignores SIGTERM and has a child of its own; both write their process group."""
    marker = tmp_path / "group"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(marker)!r}, 'w').write(str(os.getpgrp()))\n"
        "time.sleep(600)\n"
    )
    started = time.monotonic()
    outcome = run_group([Task("x", (sys.executable, "-c", code), os.environ)], 1.5, grace_s=0.5)
    assert outcome.timed_out
    assert time.monotonic() - started < 1.5 + 5
    assert outcome.children[0].killed
    assert not alive(int(marker.read_text()))


def test_what_a_finished_child_left_behind_is_ended(tmp_path: Path) -> None:
    marker = tmp_path / "group"
    code = (
        "import os, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(marker)!r}, 'w').write(str(os.getpgrp()))\n"
    )
    assert run_group([Task("x", (sys.executable, "-c", code), os.environ)], 30).ok
    assert not alive(int(marker.read_text()))


def test_the_others_are_ended_soon_after_one_fails() -> None:
    tasks = [
        Task("bad", (sys.executable, "-c", "raise SystemExit(7)"), os.environ),
        Task("waits", (sys.executable, "-c", "import time; time.sleep(600)"), os.environ),
    ]
    outcome = run_group(tasks, 60, grace_s=0.5, straggle_s=0.3)
    assert not outcome.timed_out
    assert [(c.name, c.code) for c in outcome.failed] == [("bad", 7)]
    assert outcome.seconds < 30


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
    assert _members(groups[0])
    process.send_signal(number)
    assert process.wait(30) != 0
    assert not [group for group in groups if alive(group)]


def test_a_stopped_child_does_not_hold_the_deadline() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    outcome = run_group([Task("stopped", (sys.executable, "-c", code), os.environ)], 1.0, grace_s=0.5)
    assert outcome.timed_out
    assert outcome.seconds < 20
    assert not outcome.stuck


def test_a_stopped_rank_is_named_long_before_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_HALTED_S", 0.2)
    monkeypatch.setitem(run_group.__kwdefaults__, "straggle_s", 0.3)
    done = run_fake(tmp_path, "stopped", deadline=600.0)
    assert (done.code, done.outcome.given_up) == (5, True)
    assert describe(done).startswith("given up after ")
    assert "rank 1 (node-a) was stopped" in describe(done)
    assert "rank 0 (" not in describe(done)


def test_ranks_of_other_nodes_do_not_wait_for_a_stopped_one() -> None:
    task = Task("rank 0", (sys.executable, "-c", "import time; time.sleep(600)"), os.environ)
    outcome = run_group([task], 600.0, grace_s=0.5, straggle_s=0.1, hopeless=lambda: True)
    assert (outcome.given_up, outcome.timed_out) == (True, False)


def test_a_child_that_cannot_be_killed_is_said_to_be_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals that do not arrive stand for a process in uninterruptible sleep."""
    monkeypatch.setattr(processes, "_signal", lambda pid, number: None)
    monkeypatch.setattr(processes, "_UNKILLABLE_S", 0.3)
    task = Task("rank 0", (sys.executable, "-c", "import time; time.sleep(15)"), os.environ)
    outcome = run_group([task], 0.5, grace_s=0.2)
    assert [c.name for c in outcome.stuck] == ["rank 0"]
    assert outcome.seconds < 14
    captured = Captured(Path("/nonexistent"), outcome, 1)
    assert captured.code == 5
    assert "cannot be killed" in describe(captured)


def test_a_tool_that_hangs_is_told_from_one_that_is_missing() -> None:
    assert processes.run_short(("no-such-tool-anywhere",), 5).state == "missing"
    assert processes.run_short((sys.executable, "-c", "raise SystemExit(3)"), 30).state == "failed"
    assert processes.run_short((sys.executable, "-c", "import time; time.sleep(60)"), 0.5).state == "hung"
    assert processes.run_short((sys.executable, "-c", "print('hello')"), 30).text == "hello\n"


# --- capture with fake ranks ---------------------------------------------------------------------------------


def run_fake(tmp_path: Path, mode: str, ranks: int = 2, deadline: float = 20.0):  # type: ignore[no-untyped-def]
    return capture(Plan(), Launch(make_directory(tmp_path / "c"), ranks, deadline, dict(os.environ), child=fake(mode)))


def test_a_healthy_capture_is_read_whole(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "well", ranks=4)
    assert done.code == 0
    run = api.load([done.directory])
    assert run.table("capture_ranks")["rank"].sort().to_list() == [0, 1, 2, 3]
    assert run.table("benchmarks")["busbw_gbps"].to_list() == [360.0, 360.0]
    assert run.table("communicators")["ranks_seen"].to_list() == [4]
    assert {"capture", "nccl_log", "unknown"} == set(run.table("inputs")["kind"].to_list())  # and how it ended
    assert (done.directory / "capture.log").read_text().startswith("nccl-insight capture: 4 processes exited cleanly")


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


def test_grandchildren_of_a_hanging_capture_are_gone(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "hang", deadline=2.0)
    assert done.code == 5
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not any(str(tmp_path) in line and "fake_rank" in line for line in left.splitlines())


def test_a_rank_that_dies(tmp_path: Path) -> None:
    started = time.monotonic()
    done = capture(Plan(), Launch(make_directory(tmp_path / "c"), 2, 60, dict(os.environ), child=fake("dies")))
    assert done.code == 1
    assert time.monotonic() - started < 40
    assert "rank 1 ended with signal 11" in describe(done)


def test_ranks_that_the_watchdog_ended_count_as_a_hang(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "watchdog")
    assert done.code == 5
    assert not done.outcome.timed_out


def test_half_a_line_keeps_the_lines_before(tmp_path: Path) -> None:
    done = run_fake(tmp_path, "half")
    found = FORMAT.read(find_inputs([str(done.directory / "capture.rank0.jsonl")])[0]).tables
    assert found["benchmarks"].height == 1
    details = " ".join(found["notes"]["detail"].to_list())
    assert "1 lines are cut" in details
    assert "did not finish" in details


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


def test_log_files_of_ranks_are_kept_apart_and_percent_signs_are_no_patterns(tmp_path: Path) -> None:
    odd = tmp_path / "50%h"
    first, second = (nccl_settings(odd, calls=True, rank=rank)["NCCL_DEBUG_FILE"] for rank in "01")
    assert first != second
    assert first.startswith(f"{tmp_path}/50%%h/nccl.rank0.")
    assert "NCCL_TOPO_DUMP_FILE" not in nccl_settings(odd, calls=True, rank="1")


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


def test_settings_do_not_touch_what_the_user_tunes(tmp_path: Path) -> None:
    names = set(nccl_settings(tmp_path, calls=True))
    assert "COLL" in nccl_settings(tmp_path, calls=True)["NCCL_DEBUG_SUBSYS"]
    assert "COLL" not in nccl_settings(tmp_path, calls=False)["NCCL_DEBUG_SUBSYS"]
    assert not names & {"NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"}


def test_archive_holds_the_directory(tmp_path: Path) -> None:
    (tmp_path / "cap").mkdir()
    (tmp_path / "cap" / "a.log").write_text("hello")
    (tmp_path / "cap" / ".plan.json").write_text("x")
    pack(tmp_path / "cap", tmp_path / "c.tar.zst")
    data = zstandard.ZstdDecompressor().stream_reader((tmp_path / "c.tar.zst").read_bytes()).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["cap/a.log"]
        assert tar.getmember("cap/a.log").uid == 0


# --- settings and surroundings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "29400"},
         (3, 8, 1, "a", 29400)),
        ({"SLURM_PROCID": "9", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "gpu[07-08]",
          "SLURM_JOB_ID": "881234"}, (9, 16, 1, "gpu07", 21234)),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
          "MASTER_ADDR": "b"}, (0, 2, 0, "b", 20000)),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_launchers_world(environ: dict[str, str], expected: tuple[int, int, int, str, int] | None) -> None:
    world = world_of(environ)
    assert (world and (world.rank, world.size, world.local_rank, world.address, world.port)) == expected


def test_a_world_without_an_address() -> None:
    with pytest.raises(UsageError, match="MASTER_ADDR"):
        world_of({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"})


def test_gpus_are_counted_from_device_files(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert gpu_count({}, str(tmp_path)) == 3
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "0,1"}, str(tmp_path)) == 2
    assert gpu_count({"CUDA_VISIBLE_DEVICES": ""}, str(tmp_path)) == 0
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, str(tmp_path)) == 0
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "0,-1,2"}, str(tmp_path)) == 1
    assert gpu_count({"CUDA_VISIBLE_DEVICES": "GPU-8f6d7a0c-1,GPU-2"}, str(tmp_path)) == 2


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


@pytest.mark.gpu
def test_nccl_on_the_gpus_of_this_machine(tmp_path: Path) -> None:
    if not HAS_TORCH or gpu_count(dict(os.environ)) == 0:
        pytest.skip("needs torch and a CUDA device")
    done = cli("capture", "-o", "cap", "--max-bytes", "16M", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = api.load([tmp_path / "cap"])
    assert run.table("host_bandwidth").height >= 4
    assert run.table("processes").height >= 1

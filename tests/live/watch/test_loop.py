"""Watching a running job: a stand-in for NCCL's RAS service, a log that grows, Inspector records."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.live.watch import loop, ras
from nccl_insight.live.watch.files import Follower
from nccl_insight.live.watch.outputs import Command, Metrics, to_openmetrics
from nccl_insight.live.watch.progress import Event, Watch
from nccl_insight.live.watch.seen import Seen
from tests import live_job
from tests.cli import run_cli
from tests.live_job import Job


class Service:
    """Speaks the client protocol of NCCL's RAS on the loopback; each status is the next report, the last one stays."""

    def __init__(self, reports: list[str], json_form: bool = True) -> None:
        self.reports, self.json_form = reports, json_form
        self.heard: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link, link.makefile("rwb", buffering=0) as stream:
                for raw in stream:
                    command = raw.decode().strip()
                    self.heard.append(command)
                    if command.startswith("CLIENT PROTOCOL"):
                        stream.write(b"SERVER PROTOCOL 2\n")
                    elif command.startswith("SET FORMAT"):
                        stream.write(b"OK\n" if self.json_form else b"ERROR: Unknown command SET FORMAT json\n")
                    elif command == "VERBOSE STATUS":
                        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
                        stream.write(report.encode())
                        break
                    else:
                        stream.write(b"ERROR: Unknown command\n")

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    started: list[Service] = []

    def start(*args: Any, **more: Any) -> Service:
        started.append(Service(*args, **more))
        return started[-1]

    yield start
    for service in started:
        service.close()


def report(counts: list[int], missing: tuple[int, ...] = (), dead: bool = False) -> str:
    """A status as NCCL 2.28.7 and later write it."""

    def member(rank: int, **more: object) -> dict[str, object]:
        return {"rank": rank, "host": f"10.0.0.{rank // 2 + 1}", "pid": 5000 + rank, "cuda_dev": rank % 2, **more}

    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    return json.dumps(
        {
            "nccl_version": "2.29.1", "cuda_runtime_version": 13000, "timestamp": "2026-01-02 03:04:05",
            "communicators_count": 1,
            "communicators": [
                {
                    "hash": "0xae94423cfbb2ef4a", "size": len(counts), "ranks_count": len(counts) - len(missing),
                    "missing_ranks_count": len(missing),
                    "ranks": [
                        member(r, status=status, collective_counts={"AllReduce": c, "AllGather": 2})
                        for r, c in enumerate(counts) if r not in missing
                    ],
                    "missing_ranks": [
                        member(r, status={"unresponsive": True, "considered_dead": dead}) for r in missing
                    ],
                }
            ],
            "ras": {"collection_time_sec": 0.0, "timeouts_count": 0},
        },
        indent=2,
    )  # fmt: skip


TEXT = """
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  31 ranks have launched up to operation {ahead}
  1 rank has launched up to operation {behind}
  Rank 13 -- GPU 5 managed by process 483072 on node 172.16.64.211
"""


class Clock:
    """A time that passes only by sleeping."""

    def __init__(self, during: dict[int, Callable[[], None]] | None = None) -> None:
        self.time, self.turns, self.during = 1000.0, 0, during or {}

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.turns += 1
        self.during.get(self.turns, lambda: None)()

    def text(self) -> str:
        return f"+{self.time - 1000:.0f}"


def watched(
    paths: list[str], address: tuple[str, int] | None, seconds: float, clock: Clock, stall: float = 30.0
) -> tuple[list[str], Watch]:
    state = Watch(10.0, stall)
    events = loop.watch(
        loop.Job(paths, address), state, 5.0, seconds, clock=loop.Clock(clock.now, clock.sleep, lambda: 0.0)
    )
    return [line for event in events for line in (f"{clock.text()} {event.text}", *event.commands)], state


def test_a_rank_that_falls_behind_is_named_once_and_the_stall_says_what_next(serve: Callable[..., Service]) -> None:
    service = serve([report([5, 5, 5, 5]), report([6, 6, 5, 6])])
    lines, state = watched([], ("127.0.0.1", service.port), 60, Clock())
    assert lines[0] == (
        "+15 rank 2 (10.0.0.2, process 5002) is behind in ae94423cfbb2ef4a: at operation 7 of 8, since 10 s"
    )
    assert lines[1] == (
        "+35 stall: no rank has begun an operation for 30 s, "
        "waiting for rank 2 (10.0.0.2, process 5002) in ae94423cfbb2ef4a"
    )
    assert "ssh 10.0.0.2 py-spy dump --pid 5002" in lines[2]
    assert any("nccl-insight analyze" in line for line in lines[3:])
    assert len([line for line in lines if line.startswith("+")]) == 2
    assert state.troubled
    assert service.heard[:3] == ["CLIENT PROTOCOL 2", "SET FORMAT json", "VERBOSE STATUS"]


def test_ranks_that_take_turns_are_no_news(serve: Callable[..., Service]) -> None:
    steps = [report([n, n, n, n - n % 2]) for n in range(1, 30)]
    lines, state = watched([], ("127.0.0.1", serve(steps).port), 60, Clock())
    assert lines == []
    assert not state.troubled


def test_a_rank_that_catches_up(serve: Callable[..., Service]) -> None:
    steps = [report([9, 4]), report([9, 4]), report([9, 4]), report([10, 10]), report([11, 11]), report([12, 12])]
    lines, state = watched([], ("127.0.0.1", serve(steps).port), 25, Clock())
    assert ["behind" in lines[0], "caught up" in lines[1], len(lines)] == [True, True, 2]
    assert not state.troubled


def test_a_rank_that_is_gone(serve: Callable[..., Service]) -> None:
    steps = [report([3, 3]), report([3, 3], (1,)), report([3, 3], (1,), dead=True), report([3, 3], (1,), dead=True)]
    lines, _ = watched([], ("127.0.0.1", serve(steps).port), 20, Clock())
    assert lines == [
        "+5 rank 1 (10.0.0.1, process 5001) does not answer in ae94423cfbb2ef4a",
        "+10 rank 1 (10.0.0.1, process 5001) is considered dead in ae94423cfbb2ef4a",
    ]


def test_the_text_of_releases_without_json(serve: Callable[..., Service]) -> None:
    steps = [TEXT.format(ahead=6650, behind=6650), TEXT.format(ahead=6651, behind=6650)]
    service = serve(steps, json_form=False)
    lines, _ = watched([], ("127.0.0.1", service.port), 20, Clock())
    assert lines == [
        "+15 rank 13 (172.16.64.211, process 483072) is behind in 27a079b828ff1a75: "
        "at operation 6650 of 6651, since 10 s"
    ]


def test_a_service_that_goes_away_and_one_that_is_none(serve: Callable[..., Service]) -> None:
    service = serve([report([1, 1])])

    def stop() -> None:
        service._listener.shutdown(socket.SHUT_RDWR)
        service.close()

    lines, state = watched([], ("127.0.0.1", service.port), 60, Clock({2: stop}))
    assert lines[0].startswith("+10 RAS at 127.0.0.1:")
    assert "the job may have ended" in lines[0]
    assert lines[1:] == ["+15 the job has ended: RAS does not answer any more"]
    assert not state.troubled
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(NotJudgedError, match="does a job run there"):
            ras.status("127.0.0.1", probe.getsockname()[1])


def test_something_else_on_the_port() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        link, _ = listener.accept()
        with link:
            link.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            link.recv(100)

    threading.Thread(target=greet, daemon=True).start()
    with pytest.raises(NotJudgedError, match="not NCCL's RAS"):
        ras.status("127.0.0.1", listener.getsockname()[1])
    listener.close()


def test_a_service_that_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(NotJudgedError, match="no answer within"):
        ras.status("127.0.0.1", listener.getsockname()[1], timeout_s=0.2)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", ("localhost", 28028)), ("gpu07", ("gpu07", 28028)), ("gpu07:4000", ("gpu07", 4000)),
        (":4000", ("localhost", 4000)), ("[fd00::1]:4000", ("fd00::1", 4000)), ("fd00::1", ("fd00::1", 28028)),
    ],
)  # fmt: skip
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert ras.parse_address(text) == address


def test_an_address_without_a_port() -> None:
    with pytest.raises(UsageError):
        ras.parse_address("gpu07:x")


# --- files ---------------------------------------------------------------------------------------------------


def start(rank: int) -> str:
    return (
        f"gpu01:{400 + rank}:{400 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x55d0c0a0000{rank} "
        f"rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId 0x8d2a9c4be1f07733 "
        "- Init COMPLETE\n"
    )


def call(rank: int, number: int) -> str:
    return (
        f"gpu01:{400 + rank}:{400 + rank} [{rank}] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f0000000000 "
        f"recvbuff 0x7f0000000000 count 1048576 datatype 7 op 0 root 0 comm 0x55d0c0a0000{rank} [nranks=2] "
        f"stream 0x55d0c0b0000{rank}\n"
    )


def test_logs_that_grow_and_stall(tmp_path: Path) -> None:
    """One file per process; after the first look only new lines are read, and still belong to their communicator."""
    logs = [tmp_path / f"nccl.gpu01.{400 + rank}.log" for rank in (0, 1)]
    for rank, log in enumerate(logs):
        log.write_text(start(rank) + call(rank, 0))

    def add(rank: int, number: int) -> None:
        with logs[rank].open("a") as stream:
            stream.write(call(rank, number))

    def both() -> None:
        add(0, 1)
        add(1, 1)

    lines, _ = watched([str(tmp_path)], None, 60, Clock({1: both, 2: lambda: add(0, 2)}))
    assert [line.split(" in ")[0] for line in lines if line.startswith("+")] == [
        "+20 rank 1 (gpu01, process 401) is behind",
        "+40 stall: no rank has begun an operation for 30 s, waiting for rank 1 (gpu01, process 401)",
    ]
    assert "0x8d2a9c4be1f07733: at operation 2 of 3" in lines[0]
    assert any("py-spy dump --pid 401" in line for line in lines)


def test_warnings_are_said_once(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0))

    def warn() -> None:
        with log.open("a") as stream:
            for port in (40001, 40002):
                stream.write(
                    f"gpu01:400:412 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.9<{port}> "
                    "failed : Software caused connection abort\n"
                )

    lines, _ = watched([str(log)], None, 15, Clock({1: warn}))
    said = [line for line in lines if "WARN" in line]
    assert len(said) == 1
    assert said[0].startswith("+5 gpu01 400: WARN")


def test_records_of_inspector(tmp_path: Path) -> None:
    def record(rank: int, number: int) -> str:
        return json.dumps(
            {
                "header": {"id": "0xabc", "rank": rank, "n_ranks": 2, "nnodes": 1},
                "metadata": {"inspector_output_format_version": "v4.0", "dump_timestamp_us": 1,
                             "hostname": "gpu01", "pid": 7 + rank},
                "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 1024,
                              "coll_exec_time_us": 10, "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0},
            }
        ) + "\n"  # fmt: skip

    files = [tmp_path / f"gpu01-pid{rank}.log" for rank in (0, 1)]
    for rank, path in enumerate(files):
        path.write_text(record(rank, 1))

    def grow() -> None:
        with files[0].open("a") as stream:
            stream.write(record(0, 2))

    lines, _ = watched([str(tmp_path)], None, 20, Clock({1: grow}))
    assert lines == ["+15 rank 1 is behind in 0xabc AllReduce: at operation 1 of 2, since 10 s"]


def pieces(follower: Follower) -> dict[str, bytes]:
    return {path.name: piece for path, piece in follower.grown().pieces}


def test_what_a_follower_reads(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntw")
    follower = Follower([str(tmp_path)])
    assert pieces(follower) == {"a.log": b"one\n"}
    with log.open("a") as stream:
        stream.write("o\nthree\n")
    assert pieces(follower) == {"a.log": b"two\nthree\n"}
    assert pieces(follower) == {}
    log.unlink()
    log.write_text("new\n")
    assert pieces(follower) == {"a.log": b"new\n"}


@pytest.mark.parametrize("alone", [False, True])
def test_a_log_that_is_rotated_is_read_on_under_its_new_name(tmp_path: Path, alone: bool) -> None:
    log = tmp_path / "run.log"
    log.write_text("one\n")
    follower = Follower([str(log if alone else tmp_path)])
    assert pieces(follower) == {"run.log": b"one\n"}
    with log.open("a") as stream:
        stream.write("two\n")
    log.rename(tmp_path / "run.log.1")
    log.write_text("three\n")
    assert pieces(follower) == {"run.log": b"three\n", "run.log.1": b"two\n"}
    assert follower.news() == []


def test_a_log_that_is_copied_and_emptied_is_read_once(tmp_path: Path) -> None:
    """What was written between the last look and the copy is in the copy alone."""
    log, copy = tmp_path / "run.log", tmp_path / "run.log.1"
    log.write_text(start(0) + call(0, 0))
    follower = Follower([str(tmp_path)])
    pieces(follower)
    with log.open("a") as stream:
        stream.write(call(0, 1))
    copy.write_bytes(log.read_bytes())
    os.truncate(log, 0)
    with log.open("a") as stream:
        stream.write(call(0, 2))
    grown = follower.grown()
    assert b"".join(piece for _, piece in grown.pieces).decode() == call(0, 1) + call(0, 2)
    assert grown.context.decode() == start(0)
    with log.open("a") as stream:
        stream.write(call(0, 3))
    assert pieces(follower) == {"run.log": call(0, 3).encode()}


def test_a_copy_that_lies_beside_is_not_read_and_a_file_that_only_begins_alike_is(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("banner\n" * 100 + "one\n")
    follower = Follower([str(tmp_path)])
    pieces(follower)
    (tmp_path / "b.log").write_bytes(log.read_bytes())
    (tmp_path / "c.log").write_text("banner\n" * 80 + "another host\n")
    assert list(pieces(follower)) == ["c.log"]
    log.unlink()
    with (tmp_path / "b.log").open("a") as stream:
        stream.write("two\n")
    assert pieces(follower) == {"b.log": b"two\n"}


def test_a_process_that_does_not_append_leaves_a_hole(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    with log.open("wb", buffering=0) as stream:
        stream.write(b"one\n" * 10)
        follower = Follower([str(log)])
        pieces(follower)
        os.truncate(log, 0)
        stream.write(b"two\n")
        assert pieces(follower) == {"run.log": b"two\n"}
        stream.write(b"three\n")
        assert pieces(follower) == {"run.log": b"three\n"}


def test_a_server_that_shows_an_old_size_for_a_while(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0) + call(0, 0) + call(0, 1))
    follower = Follower([str(log)])
    pieces(follower)
    os.truncate(log, len(start(0) + call(0, 0)))
    assert pieces(follower) == {}
    with log.open("a") as stream:
        stream.write(call(0, 1) + call(0, 2))
    assert pieces(follower) == {"run.log": call(0, 2).encode()}


def test_a_new_file_of_a_process_belongs_to_its_communicators(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text(start(0) + start(1) + call(0, 0) + call(1, 0))

    def rotate() -> None:
        (tmp_path / "0.log").unlink()
        (tmp_path / "1.log").write_text(call(0, 1) + call(1, 1) + call(0, 2))

    lines, _ = watched([str(tmp_path)], None, 20, Clock({1: rotate}))
    assert lines[-1].startswith("+15 rank 1 (gpu01, process 401) is behind in 0x8d2a9c4be1f07733: at operation 2 of 3")


# --- whole jobs, by a clock ------------------------------------------------------------------------------------


@pytest.mark.part(3)
@pytest.mark.parametrize("name", live_job.QUIET)
def test_jobs_that_run_well_are_no_news(tmp_path: Path, name: str) -> None:
    job = live_job.KINDS[name](tmp_path, 16)
    events, state = job.watched(max(330.0, *(50.0 + end for _, end in job.pauses), 0.0))
    assert events == []
    assert (state.state, state.troubled) == ("running", False)


def test_a_job_that_ends_well_ends_the_watch(tmp_path: Path) -> None:
    job = Job(tmp_path, 8, at={60.0: Job.finish})
    events, state = job.watched(1000.0)
    assert [(at, event.kind) for at, event in events] == [(70.0, "ended")]
    assert (state.state, state.troubled) == ("ended", False)


def test_one_rank_that_stops_is_named_and_a_stall_of_all_is_told_later(tmp_path: Path) -> None:
    events, state = Job(tmp_path / "a", 16, at={60.0: lambda job: job.stopped.add(5)}).watched(400.0)
    assert [(at, event.kind, event.ranks) for at, event in events] == [(70.0, "behind", (5,)), (120.0, "stall", (5,))]
    assert state.troubled
    events, state = Job(tmp_path / "b", 16, at={60.0: live_job.stop}).watched(400.0)
    assert [(at, event.kind, event.ranks) for at, event in events] == [(300.0, "stall", ())]
    assert state.troubled


def test_silence_after_a_warning_is_a_stall_sooner(tmp_path: Path) -> None:
    events, _ = Job(tmp_path, 8, at={60.0: live_job.warn}).watched(400.0)
    assert [(at, event.kind) for at, event in events] == [(60.0, "warning"), (120.0, "stall")]
    assert events[1][1].commands[0] == "ssh node000 py-spy dump --pid 1001"


def test_a_killed_rank_ends_the_job_and_one_that_is_started_again_does_not(tmp_path: Path) -> None:
    def again(job: Job) -> None:
        job.over, job.begun, job.pid = False, 200, 5000
        for rank in range(job.ranks):
            job.add(
                rank, live_job.opened(rank, job.ranks, job.host(rank), 5000 + rank, comm=1).replace("439c1", "439c0")
            )

    events, state = Job(tmp_path / "a", 8, at={60.0: live_job.kill}).watched(200.0)
    assert [(at, event.kind) for at, event in events] == [(60.0, "end"), (120.0, "ended")]
    assert (state.state, state.troubled) == ("failed", True)
    job = Job(tmp_path / "b", 8, at={60.0: live_job.kill, 90.0: again})
    events, state = job.watched(200.0)
    assert [(at, event.kind) for at, event in events] == [(60.0, "end"), (90.0, "restart")]
    assert (state.state, state.troubled) == ("running", True)


def test_sends_of_a_pipeline_are_not_compared(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0) + start(1))

    def stage(number: int) -> Callable[[], None]:
        def add() -> None:
            with log.open("a") as stream:
                stream.write("".join(call(0, n).replace("AllReduce", "Send") for n in range(4)))
                stream.write(call(1, number).replace("AllReduce", "Recv"))

        return add

    lines, state = watched([str(log)], None, 70, Clock({turn: stage(turn) for turn in range(1, 14)}))
    assert lines[1:] == []
    assert not state.troubled


def test_an_init_that_somebody_does_not_join(tmp_path: Path) -> None:
    job = Job(tmp_path, 8)
    for rank in range(7):
        job.add(rank, live_job.opened(rank, 8, job.host(rank), 1000 + rank, comm=3, state="START"))
    job.over = True
    events, state = job.watched(200.0)
    assert [(at, event.kind, event.ranks) for at, event in events] == [(120.0, "init", (7,))]
    assert "7 of 8 ranks are in it, rank 7 has not begun" in events[0][1].text
    assert state.troubled


def test_a_process_of_this_host_that_is_gone(tmp_path: Path) -> None:
    """The numbers of a log are this host's only where the process has the file open."""
    host = socket.gethostname()
    logs = [tmp_path / f"{rank}.log" for rank in (0, 1)]
    code = (
        "import sys, time\n"
        "stream = open(sys.argv[1], 'a')\n"
        "stream.write(sys.argv[2].replace('PID', str(__import__('os').getpid())))\n"
        "stream.flush(); time.sleep(60)\n"
    )
    running = []
    for rank, log in enumerate(logs):
        line = start(rank).replace(f"gpu01:{400 + rank}:{400 + rank}", f"{host}:PID:PID")
        running.append(subprocess.Popen([sys.executable, "-c", code, str(log), line]))
    try:
        while not all(log.exists() and log.stat().st_size for log in logs):
            time.sleep(0.01)

        def kill(number: int) -> Callable[[], None]:
            return lambda: (running[number].kill(), running[number].wait(), None)[-1]

        lines, state = watched([str(tmp_path)], None, 60, Clock({1: kill(1), 3: kill(0)}))
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert lines == [
        f"+5 rank 1 ({host}, process {running[1].pid}): the process is gone, without having closed its communicators",
        "+15 the job has ended: its processes are gone",
    ]
    assert state.troubled


# --- what the program says of itself -----------------------------------------------------------------------


def spoken(tmp_path: Path, texts: dict[float, str], **more: Any) -> tuple[list[tuple[float, str]], Watch]:
    """A job of 8 ranks; what rank 0 prints besides, and when."""
    job = Job(tmp_path, 8, **more)
    for moment, text in texts.items():
        before = job.at.get(moment)

        def say(job: Job, text: str = text, before: Callable[[Job], None] | None = before) -> None:
            job.add(0, text + "\n")
            if before is not None:
                before(job)

        job.at[moment] = say
    events, state = job.watched(330.0)
    return [(at, event.kind) for at, event in events], state


def test_steps_are_counted_as_the_program_prints_them(tmp_path: Path) -> None:
    line = " iteration {:8d}/     400 | elapsed time per iteration (ms): 512.5 | lm loss: 2.1E+00 |"
    said, state = spoken(tmp_path, {float(n): line.format(n) for n in range(10, 60)})
    assert said == []
    assert (state.step, state.step_s) == (59, 0.5125)


def test_the_last_step_and_the_programs_own_word_end_the_watch(tmp_path: Path) -> None:
    stop = {60.0: live_job.stop}
    said, state = spoken(tmp_path / "a", {60.0: " iteration      400/     400 | lm loss: 2.1E+00 |"}, at=dict(stop))
    assert said == [(120.0, "ended")]
    said, state = spoken(tmp_path / "b", {60.0: "Training completed successfully."}, at=dict(stop))
    assert said == [(120.0, "ended")]
    assert not state.troubled


def test_a_bar_of_files_that_are_loaded_is_not_the_end(tmp_path: Path) -> None:
    bar = "Loading checkpoint shards: 100%|##########| 30/30 [00:41<00:00,  1.37s/it]"
    said, state = spoken(tmp_path, {60.0: bar}, pauses=((61.0, 180.0),))
    assert said == []
    assert state.state == "running"


def test_the_first_rank_may_save_for_all(tmp_path: Path) -> None:
    """It says so, and nothing is news; it does not, and the others wait for it: no stall before a long time."""
    at: dict[float, Callable[[Job], None]] = {60.0: lambda job: job.stopped.add(0)}
    said, _ = spoken(tmp_path / "a", {59.0: "saving checkpoint at iteration     118 to /ckpt"}, at=dict(at))
    assert said == [(300.0, "behind"), (300.0, "stall")]
    said, _ = spoken(tmp_path / "b", {}, at=dict(at))
    assert said == [(70.0, "behind"), (300.0, "stall")]


def test_ranks_are_late_by_the_measure_of_their_steps(tmp_path: Path) -> None:
    """A rank that comes twelve seconds after the others is behind where steps take seconds, not where they take 45."""
    slow = Job(tmp_path / "a", 8, step_s=45.0, late={3: 12.0})
    assert slow.watched(500.0)[0] == []


# --- for other programs ----------------------------------------------------------------------------------------


def test_metrics_in_a_file_and_over_http(tmp_path: Path) -> None:
    state = Watch(10, 60)
    list(state.take(Seen(counts={"c": {0: 7, 1: 5}}, grew=True), 100.0))
    text = to_openmetrics(state, 103.0)
    for line in (
        'nccl_insight_watch_job_state{state="running"} 1',
        'nccl_insight_watch_comm_operation{comm="c"} 7',
        'nccl_insight_watch_comm_spread{comm="c"} 2',
        "nccl_insight_watch_seconds_since_operation 3",
        "nccl_insight_watch_warnings_total 0",
    ):
        assert line in text.splitlines()
    assert text.endswith("# EOF\n")
    page = Metrics(str(tmp_path / "nccl.prom"))
    page.show(state, 103.0)
    assert (tmp_path / "nccl.prom").read_text() == text
    served = Metrics("127.0.0.1:0")
    try:
        served.show(state, 103.0)
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert answer.read().decode() == text
        with pytest.raises(UsageError):
            Metrics(f"127.0.0.1:{served.port}")
    finally:
        served.close()


def test_a_command_runs_once_for_each_event(tmp_path: Path) -> None:
    script = tmp_path / "page"
    script.write_text(f'#!/bin/sh\ncat >> {tmp_path}/heard; echo "$NCCL_INSIGHT_EVENT" >> {tmp_path}/kinds\n')
    script.chmod(0o755)
    command = Command(str(script))
    assert list(command.run(Event("behind", "x"), '{"event": "behind"}')) == []
    command.close()
    assert (tmp_path / "heard").read_text() == '{"event": "behind"}\n'
    assert (tmp_path / "kinds").read_text() == "behind\n"
    with pytest.raises(UsageError):
        Command("no-such-command-here")


def test_a_line_that_should_come_every_so_often(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("saved checkpoint 1\n")

    def save() -> None:
        with log.open("a") as stream:
            stream.write("saved checkpoint 2\n")

    clock = Clock({8: save})
    job = loop.Job([str(log)], every=[loop.Every.parse("30:saved checkpoint [0-9]+$")])
    events = loop.watch(job, Watch(10, 60), 5.0, 60, clock=loop.Clock(clock.now, clock.sleep, lambda: 0.0))
    assert [(clock.text(), event.kind) for event in events if event.kind != "note"] == [
        ("+35", "overdue"),
        ("+40", "on-time"),
    ]
    for text in ("30", "x:y", "30:(", "0:a"):
        with pytest.raises(UsageError):
            loop.Every.parse(text)


def test_flight_recorder_dumps_are_judged_when_all_are_there(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0) + call(0, 0))

    def dump(rank: int, seq: int) -> None:
        entry = {"record_id": seq, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": seq,
                 "p2p_seq_id": 0, "op_id": seq, "profiling_name": "nccl:all_reduce", "time_created_ns": seq,
                 "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"], "output_dtypes": ["Float"],
                 "state": "scheduled", "retired": False, "timeout_ms": 600000, "is_p2p": False}  # fmt: skip
        found = {"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
                 "pg_status": {"0": {"last_enqueued_collective": seq, "last_started_collective": -1,
                                     "last_completed_collective": seq - 1}}, "entries": [entry]}  # fmt: skip
        (tmp_path / f"nccl_trace_rank_{rank}").write_text(json.dumps(found))

    lines, _ = watched(
        [str(tmp_path)], None, 25, Clock({1: lambda: dump(0, 7), 2: lambda: (dump(1, 7), dump(2, 6), None)[-1]})
    )
    found = [line for line in lines if "Flight Recorder dumps:" in line]
    assert len(found) == 1
    assert found[0].startswith("+15 3 Flight Recorder dumps:")
    assert "Rank 2" in found[0]


def test_the_command_gives_json_and_ends_with_the_launcher(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0) + start(1) + call(0, 0) + call(1, 0))
    launcher = subprocess.Popen(["sleep", "1"])
    try:
        done = run_cli("watch", str(log), "--json", "--interval", "0.2", "--pid", str(launcher.pid),
                       "--metrics", str(tmp_path / "nccl.prom"), "--exec", "cat")  # fmt: skip
    finally:
        launcher.wait()
    assert done.returncode == 0
    (event,) = map(json.loads, done.stdout.splitlines())
    assert (event["event"], event["text"]) == ("ended", f"the job has ended: process {launcher.pid} is gone")
    assert 'state="ended"} 1' in (tmp_path / "nccl.prom").read_text()


def test_logs_that_cannot_be_read_any_more_are_told_and_show_no_stall(tmp_path: Path) -> None:
    log, other = tmp_path / "run.log", tmp_path / "elsewhere" / "kept"
    other.parent.mkdir()
    log.write_text(start(0) + call(0, 0) + start(1) + call(1, 0))

    def move(old: Path, new: Path) -> None:
        old.rename(new)

    clock = Clock({1: lambda: move(log, other), 9: lambda: move(other, log)})
    lines, state = watched([str(log)], None, 50, clock, stall=10)
    assert lines[:2] == [f"+15 {log} is not read any more: gone", f"+45 {log} is read again"]
    assert any("stall" in line for line in lines[2:])
    assert state.troubled


def test_many_files_that_cannot_be_read_are_one_line_and_a_rotation_with_a_gap_is_none(tmp_path: Path) -> None:
    logs = [tmp_path / f"{number}.log" for number in range(5)]

    def write() -> None:
        for log in logs:
            log.write_text("text\n")

    def delete() -> None:
        for log in logs:
            log.unlink()

    write()
    keep = tmp_path / "x.log"
    keep.write_text("text\n")
    lines, _ = watched([str(tmp_path)], None, 60, Clock({1: delete, 3: write, 5: delete}))
    assert [line for line in lines if "read" in line] == [
        f"+35 {logs[0]}, {logs[1]}, {logs[2]} and 2 more are not read any more: gone"
    ]


def test_text_that_cannot_be_read_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(paths: object) -> None:
        raise NotJudgedError("no grammar")

    monkeypatch.setattr(loop.api, "load", fail)
    (tmp_path / "run.log").write_text(start(0))
    lines, _ = watched([str(tmp_path)], None, 10, Clock({1: lambda: (tmp_path / "b.log").write_text("x\n") and None}))
    assert [line for line in lines if "cannot" in line] == ["+0 what the files say cannot be read: no grammar"]


def test_nothing_to_read_at_the_end_is_no_verdict(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0) + call(0, 0))
    with pytest.raises(NotJudgedError, match="not known"):
        watched([str(log)], None, 60, Clock({1: log.unlink}))


def test_pipes_and_missing_files_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, said in ((pipe, "a pipe cannot be watched"), (tmp_path / "none", "no such file")):
        done = run_cli("watch", str(path), "--for", "1")
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


def test_memory_grows_with_ranks_and_not_with_time() -> None:
    state = Watch(10, 60)
    for turn in range(3000):
        errors = (("gpu01", 1, f"WARN call {turn} failed at 0x{turn:x}", False),)
        list(state.take(Seen(counts={"c": {0: turn, 1: turn}}, errors=errors), float(turn)))
    assert len(state.comms["c"].ranks) == 2
    assert len(state._said) == 1


def test_the_command(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve([report([5, 4])])
    done = run_cli(
        "watch", "--ras", f"127.0.0.1:{service.port}", "--interval", "0.1", "--patience", "0", "--for", "0.3"
    )
    assert done.returncode == 1
    assert "rank 1 (10.0.0.1, process 5001) is behind" in done.stdout
    assert run_cli("watch", str(tmp_path / "none")).returncode == 2


def test_alerts_and_dashboard_ask_for_metrics_that_there_are() -> None:
    state = Watch(10, 60)
    list(state.take(Seen(counts={"c": {0: 7}}, step=3, step_s=1.0, grew=True), 1.0))
    given = set(re.findall(r"^(nccl_insight_watch_\w+)", to_openmetrics(state, 2.0), re.M))
    folder = Path(__file__).parents[3] / "docs" / "jobs"
    for name in ("watch-alerts.yaml", "watch-dashboard.json"):
        asked = set(re.findall(r"nccl_insight_watch_\w+", (folder / name).read_text()))
        assert asked, name
        assert asked <= given, name
    json.loads((folder / "watch-dashboard.json").read_text())
    yaml.safe_load((folder / "watch-alerts.yaml").read_text())

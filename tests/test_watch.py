"""Watching a running job: a stand-in for NCCL's RAS service, a log that grows, Inspector records."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.errors import NotJudgedError, UsageError
from nccl_insight.live.watch import loop, ras
from nccl_insight.live.watch.files import Follower
from nccl_insight.live.watch.progress import Seen, Watch
from tests.cli import run_cli


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
                        stream.write(
                            b"OK\n" if self.json_form else b"ERROR: Unknown command SET FORMAT json\n"
                        )
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
        return {"rank": rank, "host": f"10.0.0.{rank // 2 + 1}", "pid": 5000 + rank, "cuda_dev": rank % 2,
                **more}  # fmt: skip

    status = {
        "init_state": 0,
        "async_error": 0,
        "finalize_called": False,
        "destroy_flag": False,
        "abort_flag": False,
    }
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
    lines = loop.watch(
        paths, address, state, 5.0, seconds, now=clock.now, sleep=clock.sleep, clock=clock.text
    )
    return list(lines), state


def test_a_rank_that_falls_behind_is_named_once_and_the_stall_says_what_next(
    serve: Callable[..., Service],
) -> None:
    service = serve([report([5, 5, 5, 5]), report([6, 6, 5, 6])])
    lines, state = watched([], ("127.0.0.1", service.port), 60, Clock())
    assert lines[0] == (
        "+10 rank 2 (10.0.0.2, process 5002) is behind in ae94423cfbb2ef4a: at operation 7 of 8, since 10 s"
    )
    assert lines[1] == (
        "+35 stall in ae94423cfbb2ef4a: no rank has begun an operation for 30 s, "
        "waiting for rank 2 (10.0.0.2, process 5002)"
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
    steps = [
        report([9, 4]),
        report([9, 4]),
        report([9, 4]),
        report([10, 10]),
        report([11, 11]),
        report([12, 12]),
    ]
    lines, state = watched([], ("127.0.0.1", serve(steps).port), 25, Clock())
    assert ["behind" in lines[0], "caught up" in lines[1], len(lines)] == [True, True, 2]
    assert not state.troubled


def test_a_rank_that_is_gone(serve: Callable[..., Service]) -> None:
    steps = [
        report([3, 3]),
        report([3, 3], (1,)),
        report([3, 3], (1,), dead=True),
        report([3, 3], (1,), dead=True),
    ]
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
        "+10 rank 13 (172.16.64.211, process 483072) is behind in 27a079b828ff1a75: "
        "at operation 6650 of 6651, since 10 s"
    ]


def test_a_service_that_goes_away_and_one_that_is_none(serve: Callable[..., Service]) -> None:
    service = serve([report([1, 1])])

    def stop() -> None:
        service._listener.shutdown(socket.SHUT_RDWR)
        service.close()

    lines, _ = watched([], ("127.0.0.1", service.port), 20, Clock({2: stop}))
    assert len(lines) == 1
    assert lines[0].startswith("+10 RAS at 127.0.0.1:")
    assert "the job may have ended" in lines[0]
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
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(NotJudgedError, match="no answer within"),
    ):
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
        "+15 rank 1 (gpu01, process 401) is behind", "+40 stall",
    ]  # fmt: skip
    assert "0x8d2a9c4be1f07733: at operation 1 of 2" in lines[0]
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
                             "hostname": "gpu01", "pid": 7},
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
    assert lines == ["+10 rank 1 is behind in 0xabc AllReduce: at operation 1 of 2, since 10 s"]


def test_what_a_follower_reads(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("one\ntw")
    follower = Follower([str(tmp_path)])
    assert [piece for _, piece in follower.new()] == [b"one\n"]
    with log.open("a") as stream:
        stream.write("o\nthree\n")
    assert [piece for _, piece in follower.new()] == [b"two\nthree\n"]
    assert list(follower.new()) == []
    log.unlink()
    log.write_text("new\n")
    assert [piece for _, piece in follower.new()] == [b"new\n"]


def test_a_log_that_is_rotated_is_read_on_under_its_new_name(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("one\n")
    follower = Follower([str(tmp_path)])
    assert [piece for _, piece in follower.new()] == [b"one\n"]
    with log.open("a") as stream:
        stream.write("two\n")
    log.rename(tmp_path / "run.log.1")
    log.write_text("three\n")
    assert {path.name: piece for path, piece in follower.new()} == {
        "run.log": b"three\n",
        "run.log.1": b"two\n",
    }
    assert follower.news() == []


def test_a_log_that_is_emptied_is_read_on_with_its_communicators(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(start(0) + call(0, 0))
    follower = Follower([str(log)])
    assert [piece.decode() for _, piece in follower.new()] == [start(0) + call(0, 0)]
    with log.open("r+") as stream:
        stream.truncate(0)
        stream.write(call(0, 1))
    assert [piece.decode() for _, piece in follower.new()] == [start(0) + call(0, 1)]


def test_logs_that_cannot_be_read_any_more_are_told_and_show_no_stall(tmp_path: Path) -> None:
    log, other = tmp_path / "run.log", tmp_path / "kept"
    log.write_text(start(0) + call(0, 0) + start(1) + call(1, 0))

    def move(old: Path, new: Path) -> None:
        old.rename(new)

    clock = Clock({1: lambda: move(log, other), 9: lambda: move(other, log)})
    lines, state = watched([str(log)], None, 50, clock)
    assert lines[:2] == [f"+5 {log} is not read any more: it is gone", f"+45 {log} is read again"]
    assert any("stall" in line for line in lines[2:])
    assert state.troubled


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
        errors = (("gpu01 1", f"WARN call {turn} failed at 0x{turn:x}"),)
        list(state.take(Seen({"c": {0: turn, 1: turn}}, errors=errors), float(turn), "t"))
    assert len(state._marks["c"]) == 2
    assert len(state._said) == 1


def test_the_command(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve([report([5, 4])])
    done = run_cli(
        "watch", "--ras", f"127.0.0.1:{service.port}", "--interval", "0.1", "--patience", "0", "--for", "0.3"
    )
    assert done.returncode == 1
    assert "rank 1 (10.0.0.1, process 5001) is behind" in done.stdout
    assert run_cli("watch", str(tmp_path / "none")).returncode == 2

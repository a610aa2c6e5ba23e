"""Watching a running job: a stand-in for NCCL's RAS service, a log that grows, Inspector records."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nccl_insight.base.errors import NotJudgedError, UsageError
from nccl_insight.live.watch import loop
from nccl_insight.live.watch.progress import Watch
from tests import live_job
from tests.cli import run_cli
from tests.live.watch.watched import Clock, Service, call, report, start, watched
from tests.live_job import Job

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


def test_a_rank_that_is_out_of_reach_once_is_no_trouble(serve: Callable[..., Service]) -> None:
    steps = [report([n, n], (1,) if n == 5 else ()) for n in (3, 4, 5, 6, 7, 8)]
    lines, state = watched([], ("127.0.0.1", serve(steps).port), 30, Clock())
    assert [line.split(" in ")[0] for line in lines] == [
        "+10 rank 1 (10.0.0.1, process 5001) does not answer",
        "+15 rank 1 (10.0.0.1, process 5001) answers again",
    ]
    assert not state.troubled


def test_a_missing_process_whose_rank_the_text_does_not_tell_is_no_rank(serve: Callable[..., Service]) -> None:
    text = TEXT.format(ahead=6650, behind=6650)
    missing = text.replace("Warnings\n", (
        "Errors\n======\n\n#0-0 (27a079b828ff1a75) INCOMPLETE\n  Missing communicator data from 1 job process\n"
        "  Process 483075 on node 172.16.64.211 managing GPU 3\n\nWarnings\n"
    ), 1)  # fmt: skip
    assert missing != text
    lines, _ = watched([], ("127.0.0.1", serve([text, missing], json_form=False).port), 10, Clock())
    assert lines == ["+5 process 483075 on 172.16.64.211 does not answer in 27a079b828ff1a75"]


def test_the_text_of_releases_without_json(serve: Callable[..., Service]) -> None:
    steps = [TEXT.format(ahead=6650, behind=6650), TEXT.format(ahead=6651, behind=6650)]
    service = serve(steps, json_form=False)
    lines, _ = watched([], ("127.0.0.1", service.port), 20, Clock())
    assert lines == [
        "+15 rank 13 (172.16.64.211, process 483072) is behind in 27a079b828ff1a75: "
        "at operation 6650 of 6651, since 10 s"
    ]


def test_a_rank_that_the_text_lists_no_more_is_as_far_as_the_others(serve: Callable[..., Service]) -> None:
    one = TEXT.format(ahead=6651, behind=6650)
    other = one.replace("Rank 13 -- GPU 5 managed by process 483072", "Rank 9 -- GPU 1 managed by process 483068")
    assert other != one
    lines, _ = watched([], ("127.0.0.1", serve([one, other], json_form=False).port), 25, Clock())
    assert [line.partition(" is behind")[0] for line in lines] == ["+15 rank 9 (172.16.64.211, process 483068)"]


def test_nobody_falls_behind_while_the_service_is_silent(serve: Callable[..., Service]) -> None:
    service = serve([report([5, 5, 5, 5]), report([6, 6, 5, 6]), report([7, 7, 5, 7])])

    def stop() -> None:
        service._listener.shutdown(socket.SHUT_RDWR)
        service.close()

    lines, state = watched([], ("127.0.0.1", service.port), 60, Clock({3: stop}))
    assert "the job may have ended" in lines[0]
    assert [line for line in lines if "behind" in line] == []
    assert state.over
    assert not state.troubled


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


def test_a_new_file_of_a_process_belongs_to_its_communicators(tmp_path: Path) -> None:
    (tmp_path / "0.log").write_text(start(0) + start(1) + call(0, 0) + call(1, 0))

    def rotate() -> None:
        (tmp_path / "0.log").unlink()
        (tmp_path / "1.log").write_text(call(0, 1) + call(1, 1) + call(0, 2))

    lines, _ = watched([str(tmp_path)], None, 20, Clock({1: rotate}))
    assert lines[-1].startswith("+15 rank 1 (gpu01, process 401) is behind in 0x8d2a9c4be1f07733: at operation 2 of 3")


# --- whole jobs, by a clock ------------------------------------------------------------------------------------


@pytest.mark.part(5)
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


def test_ranks_are_late_by_the_measure_of_their_steps(tmp_path: Path) -> None:
    """A rank that comes twelve seconds after the others is behind where steps take seconds, not where they take 45."""
    slow = Job(tmp_path / "a", 8, step_s=45.0, late={3: 12.0})
    assert slow.watched(500.0)[0] == []


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


def test_the_command(tmp_path: Path, serve: Callable[..., Service]) -> None:
    service = serve([report([5, 4])])
    done = run_cli(
        "watch", "--ras", f"127.0.0.1:{service.port}", "--interval", "0.1", "--patience", "0", "--for", "0.3"
    )
    assert done.returncode == 1
    assert "rank 1 (10.0.0.1, process 5001) is behind" in done.stdout
    assert run_cli("watch", str(tmp_path / "none")).returncode == 2

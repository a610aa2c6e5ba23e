"""A job that came to its end, or that a person ended, has no error, whatever its processes say on their way out."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Ref
from nccl_insight.facts.said.course import Course, course, left_in_order, signs_of_life
from tests.by_hand import run
from tests.kernel_lines import HOSTS, PIDS, dmesg_oom, host_of, segfault

STARTED = [
    f"{host_of(r)}:{PIDS[r]}:{PIDS[r]} [{r % 4}] NCCL INFO ncclCommInitRank comm 0x55d0a{r} rank {r} nranks 8 cudaDev "
    f"{r % 4} nvmlDev {r % 4} busId {r % 4 + 1}b000 commId 0x7d1ab3c1 - Init {state}"
    for state in ("START", "COMPLETE")
    for r in range(8)
]
CLOSED = [
    f"{host_of(r)}:{PIDS[r]}:{PIDS[r]} [{r % 4}] NCCL INFO comm 0x55d0a{r} rank {r} nranks 8 cudaDev {r % 4} busId "
    f"{r % 4 + 1}b000 - Destroy COMPLETE"
    for r in range(8)
]
STEPS = [f"2026-11-17 11:{m:02d}:00,194 - INFO - step: {m}  loss: 2.1" for m in range(10, 50)]
RESET = [
    f"[2026-11-17 11:50:05] {host_of(r)}:{PIDS[r]}:{PIDS[r] + 900} [{r % 4}] misc/socket.cc:71 NCCL WARN "
    "socketProgress: Connection closed by remote peer gpu02<40110>"
    for r in (0, 3, 6)
]
SIGINT = (
    "W1117 11:50:03.000000 9120 torch/distributed/elastic/agent/server/api.py:723] Received Signals.SIGINT death "
    "signal, shutting down workers"
)
XID = "[Tue Nov 17 {at} 2026] NVRM: Xid (PCI:0000:61:00): 79, pid=1133, name=python3, GPU has fallen off the bus."
DONE = "2026-11-17 11:50:01,101 - INFO - Training completed"


def status(tmp_path: Path, **files: list[str]) -> str:
    for name, lines in files.items():
        (tmp_path / f"{name}.log").write_text("".join(f"{line}\n" for line in lines))
    return nccl_insight.analyze([tmp_path]).status


def errors(tmp_path: Path, **files: list[str]) -> list[tuple[str, str, str]]:
    for name, lines in files.items():
        (tmp_path / f"{name}.log").write_text("".join(f"{line}\n" for line in lines))
    found = nccl_insight.analyze([tmp_path]).findings
    return [(f.severity.value, f.name, f.title) for f in found if f.severity.value in ("warning", "error")]


@pytest.mark.parametrize(
    "kernel",
    [
        dmesg_oom(4411, "09:00:00"),
        dmesg_oom(4411, "11:20:00"),
        dmesg_oom(4411, "13:00:00"),
        dmesg_oom(4411, "11:20:00", "login07"),
        [segfault(881, at="09:00:00").replace("python3[", "nginx[")],
        [XID.format(at="08:00:00")],
    ],
    ids=["oom before", "oom during", "oom after", "oom on a stranger", "segfault", "xid before"],
)
@pytest.mark.part(2)
@pytest.mark.parametrize("end", [CLOSED, [DONE]], ids=["closed", "said so"])
def test_the_kernels_lines_beside_a_job_that_came_to_its_end(tmp_path: Path, kernel: list[str], end: list[str]) -> None:
    assert not errors(tmp_path, job=[*STARTED, *STEPS, *end], dmesg=kernel)
    assert status(tmp_path) == "ok"


def test_a_launcher_that_saw_a_task_fail_is_believed(tmp_path: Path) -> None:
    """Beside the log of a job that seems through, in a file of its own."""
    failed = ["srun: error: gpu02: task 5: Exited with exit code 3"]
    assert status(tmp_path, job=[*STARTED, *STEPS, DONE], launcher=failed) != "ok"


def test_connections_that_close_behind_the_end_are_how_processes_leave(tmp_path: Path) -> None:
    assert not errors(tmp_path, job=[*STARTED, *STEPS, DONE, *RESET])
    assert not errors(tmp_path, job=[*STARTED, *STEPS[:20], *RESET, *STEPS[20:], DONE])


@pytest.mark.parametrize(
    "end",
    [
        [],
        ["2026-11-17 11:50:01,101 - INFO - evaluation completed"],
        ["2026-11-17 11:50:01,101 - INFO - saving checkpoint completed"],
        [DONE, "2026-11-17 11:50:02,101 - INFO - step: 51  loss: 2.1"],
    ],
    ids=["no end", "an evaluation", "a checkpoint", "gone on"],
)
def test_without_an_end_they_are_a_failure(tmp_path: Path, end: list[str]) -> None:
    assert [e[:2] for e in errors(tmp_path, job=[*STARTED, *STEPS, *end, *RESET])] == [("error", "peer-died")]


def test_a_rank_that_dies_in_a_job_that_seems_through_is_an_error(tmp_path: Path) -> None:
    killed = "srun: error: gpu02: task 5: Killed"
    found = errors(tmp_path, job=[*STARTED, *STEPS, DONE, killed, *RESET])
    assert found[0][:2] == ("error", "process-killed")


def test_what_follows_ctrl_c_is_no_error_and_what_came_before_is(tmp_path: Path) -> None:
    assert not errors(tmp_path, job=[*STARTED, *STEPS, SIGINT, *RESET])
    failed = (
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "/a.py", line 3',
        "[rank3]: KeyError: 'x'",
    )
    stamped = [f"[2026-11-17 11:40:05] {line.split('] ', 1)[1]}" for line in RESET]
    found = errors(tmp_path, job=[*STARTED, *STEPS, *failed, *stamped, SIGINT])
    assert found[0][:2] == ("error", "application-exception")


@pytest.mark.parametrize(
    "typed",
    [
        ["^CTraceback (most recent call last):", '  File "/app/train.py", line 88, in <module>', "KeyboardInterrupt"],
        ["^Cmpirun: killing job...", ""],
    ],
    ids=["Python", "mpirun"],
)
def test_ctrl_c_as_the_terminal_shows_it(tmp_path: Path, typed: list[str]) -> None:
    assert not errors(tmp_path, job=[*STARTED, *STEPS, *typed, *RESET])


def test_a_rank_whose_loss_the_job_got_over_is_no_error(tmp_path: Path) -> None:
    killed = "srun: error: gpu02: task 5: Killed"
    found = errors(tmp_path, job=[*STARTED, *STEPS[:10], killed, *RESET, *STEPS[10:], DONE])
    assert [e[:2] for e in found] == [("warning", "process-killed")]
    (tmp_path / "job.log").unlink()
    found = errors(tmp_path, other=[*STARTED, *STEPS, killed, *RESET, DONE])
    assert found[0][:2] == ("error", "process-killed")


def test_a_cancelled_step_is_told_by_its_own_line(tmp_path: Path) -> None:
    said = [
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
        "slurmstepd: error: *** STEP 7.0 ON gpu01 CANCELLED AT 2026-11-17T11:50:03 ***",
    ]
    found = errors(tmp_path, job=[*STARTED, *STEPS, *RESET, *said, "srun: error: gpu02: task 5: Killed"])
    assert [e[:2] for e in found] == [("warning", "job-ended-by-scheduler")]


def test_a_pod_that_was_told_to_end_before_the_others_failed_is_the_cause(tmp_path: Path) -> None:
    told = SIGINT.replace("SIGINT", "SIGTERM")
    mine = {h: [line for line in STARTED if line.startswith(h)] for h in HOSTS}
    found = errors(tmp_path, gpu01=[*mine["gpu01"], *RESET[:2]], gpu02=[*mine["gpu02"], told])
    assert found[0][:2] == ("error", "job-ended-by-scheduler")
    assert "gpu02" in found[0][2]
    late = told.replace("11:50:03", "11:52:30")
    found = errors(tmp_path, gpu01=[*mine["gpu01"], *RESET[:2]], gpu02=[*mine["gpu02"], late])
    assert found[0][:2] == ("error", "peer-died")


RAISED = [f"[rank3]: {line}" for line in ("Traceback (most recent call last):", '  File "a.py", line 8, in <module>')]
EXITED = (
    "E1117 11:58:00.500000 7001 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) "
    "local_rank: 3 (pid: 4103) of binary: /usr/bin/python3"
)


def test_a_failed_job_outlived_what_the_kernel_killed_before_its_last_steps(tmp_path: Path) -> None:
    job = [*STARTED, *STEPS, *RAISED, "[rank3]: KeyError: 'layers.2'", *RESET]
    assert errors(tmp_path, job=job, gpu01_dmesg=dmesg_oom(4411, "11:20:00"))[0][1] == "application-exception"
    assert errors(tmp_path, job=job, gpu01_dmesg=dmesg_oom(4411, "11:50:00"))[0][1] == "process-killed"


def test_an_exception_without_a_clock_is_as_old_as_its_place_not_as_the_exit_that_tells_of_it(tmp_path: Path) -> None:
    waited = [
        f"[rank{r}]:[E1117 11:57:00.000000000 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=81, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran "
        "for 600050 milliseconds before timing out."
        for r in range(8)
        if r != 3
    ]
    raised = [*RAISED, "[rank3]: AssertionError: found NaN in local grad norm", *waited, EXITED]
    found = errors(tmp_path, job=[*STARTED, *STEPS[:30], *raised])
    assert [e[:2] for e in found] == [("error", "application-exception"), ("warning", "watchdog-timeout")]


def test_retries_that_end_behind_a_cancelled_step_are_how_its_processes_left(tmp_path: Path) -> None:
    said = "slurmstepd: error: *** STEP 7.0 ON gpu01 CANCELLED AT 2026-11-17T11:50:03 ***"
    retried = (
        "[2026-11-17 11:{at}] gpu01:4101:5001 [1] transport/net_ib.cc:1305 NCCL WARN NET/IB: Got completion from peer "
        "10.0.1.11<44321> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_1"
    )
    found = errors(tmp_path, job=[*STARTED, *STEPS, said, *RESET, retried.format(at="50:40")])
    assert {e[0] for e in found} == {"warning"}
    assert found[0][1] == "job-ended-by-scheduler"
    found = errors(tmp_path, job=[*STARTED, *STEPS[:30], retried.format(at="40:40"), said, *RESET])
    assert found[0][:2] == ("error", "ib-completion-retry-exceeded")


def test_the_port_that_an_attempt_left_taken_is_an_effect_of_its_end(tmp_path: Path) -> None:
    head = "[2026-11-17 12:02:00] gpu02:6200:6200 [0] misc/socket.cc:312 NCCL WARN"
    taken = f"{head} Call to bind failed: Address already in use"
    found = errors(tmp_path, one=[*STARTED, *STEPS], gpu02=dmesg_oom(5201, "11:50:00"), two=[taken])
    assert [e[:2] for e in found][:1] == [("error", "process-killed")]
    assert "error" not in {e[0] for e in found[1:]}


RANKS = [{"comm_id": "c", "rank": r, "nranks": 2, "host": "a", "pid": r} for r in range(2)]


def marks(*ends: str) -> list[dict[str, object]]:
    return [
        {
            "comm_id": "c",
            "rank": r,
            "input_id": 0,
            "line": 9,
            "launched": 2 + r,
            "init_started": 5,
            "destroyed": 40 + r,
            "end": end,
        }
        for r, end in enumerate(ends)
    ]


def test_a_job_whose_ranks_all_left_in_order_came_to_its_end() -> None:
    done = run(ranks=RANKS, milestones=marks("destroyed", "destroyed"))
    assert left_in_order(done)
    assert course(done).through == {0: 40}
    assert course(done).inputs == {0: 2}
    assert not left_in_order(run(ranks=RANKS, milestones=marks("destroyed", "aborted")))
    more = [{**row, "nranks": 3} for row in RANKS]
    assert not left_in_order(run(ranks=more, milestones=marks("destroyed", "destroyed")))
    assert not left_in_order(run())


def test_what_the_program_says_of_its_end_counts_behind_its_last_step() -> None:
    going = marks("running", "running")
    end = {"input_id": 0, "kind": "good end", "text": "training finished", "line": 60}
    step = {"input_id": 0, "kind": "last step", "text": "step 9", "line": 50}
    assert course(run(milestones=going, endings=[step, end])).through == {0: 60}
    assert course(run(milestones=going, endings=[{**step, "line": 70}, end])).through == {}
    assert course(run(milestones=going, endings=[{**end, "line": 3}])).through == {}
    assert course(run()) == Course()


def test_the_last_step_of_a_rank_is_a_sign_of_life() -> None:
    assert signs_of_life(run(milestones=marks("destroyed", "destroyed"))) == {0: 41}
    assert signs_of_life(run()) == {}


def test_lines_before_and_within_a_job_that_came_to_its_end() -> None:
    done = Course(through={0: 40}, inputs={0: 5})
    assert done.got_over([Ref(0, 20)])
    assert not done.got_over([Ref(0, 20), Ref(1, 1)])
    assert not done.got_over([])
    assert done.in_front([Ref(0, 4)])
    assert not done.in_front([Ref(0, 5)])
    assert not Course(inputs={0: 5}).got_over([Ref(0, 20)])


# Jobs without a line of NCCL's own: only the program's output tells their course.
RUN_STOP = (
    '0: :::MLLOG {"namespace": "", "time_ms": 1763380000000, "event_type": "INTERVAL_END", "key": "run_stop", "value": '
    'null, "metadata": {"file": "/srv/train.py", "lineno": 210, "status": "success", "step_num": 900}}'
)
COUNTED = [f"0: step {n}/900 loss 2.{n % 10}" for n in range(0, 900, 20)]
LEFT = [f"{n % 8}: rank {n % 8} waits for the loader's workers to leave" for n in range(30)]
PMIX = "3: [gpu01:446124] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168"
PREPARED = "srun: error: gpu01: task 0: Exited with exit code 1"
PROLOG = "srun: error: Prolog hung on node gpu07"
PROXY = [
    "5: [E1117 11:46:13.812290483 ProcessGroupNCCL.cpp:541] [Rank 5] found async exception when checking for NCCL "
    "errors: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.22.3",
    "5: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. ",
    "5: Last error:",
    "5: [Proxy Service 5] Failed to execute operation Close from rank 5, retcode 3",
]


@pytest.mark.parametrize("behind", [[RUN_STOP, *LEFT], [*LEFT, DONE]], ids=["structured", "in words"])
@pytest.mark.parametrize("said", [PMIX, PREPARED, PROLOG], ids=["PMIx's lock", "an earlier step", "a prolog"])
def test_what_stands_in_front_of_a_whole_run_did_not_end_it(said: str, behind: list[str], tmp_path: Path) -> None:
    assert errors(tmp_path, job=["0: starts", said, *COUNTED, *behind]) == []


@pytest.mark.parametrize("said", [PMIX, PREPARED, PROLOG], ids=["PMIx's lock", "the last step", "a prolog"])
def test_the_same_at_the_end_of_the_output_is_the_failure(said: str, tmp_path: Path) -> None:
    assert status(tmp_path, job=["0: starts", *COUNTED, said]) == "findings"


def test_a_proxy_that_fails_to_close_behind_the_end_of_the_run_stops_nothing(tmp_path: Path) -> None:
    assert errors(tmp_path, job=[*COUNTED, RUN_STOP, *LEFT, *PROXY]) == []
    assert [name for _, name, _ in errors(tmp_path, job=[*COUNTED, *LEFT, *PROXY])] != []


def test_ranks_that_died_before_the_time_limit_come_first(tmp_path: Path) -> None:
    died = [
        f"{r}: what():  NCCL error in: NCCLUtils.cpp:77, invalid usage, NCCL version 2.25.1\n"
        f"{r}: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n{r}: Last error:\n"
        f"{r}: NET/IB : Requested properties for vNic 4, only 4 vNics have been created\n"
        f"srun: error: gpu01: task {r}: Exited with exit code 134"
        for r in range(1, 8)
    ]
    limit = "0: slurmstepd: error: *** STEP 82.12 ON gpu01 CANCELLED AT 2026-11-17T11:46:38 DUE TO TIME LIMIT ***"
    found = errors(tmp_path, job=[*COUNTED, RUN_STOP, *LEFT, *died, limit])
    assert [name for _, name, _ in found] == ["nccl-internal-error", "job-ended-by-scheduler"]
    assert [name for _, name, _ in errors(tmp_path, job=[*COUNTED, *LEFT, limit])] == ["job-ended-by-scheduler"]


def test_a_setting_that_a_library_complains_of_fails_no_job_that_came_to_its_end(tmp_path: Path) -> None:
    said = (
        "[1665498536.093121] [gpu01:249  :0]     ucp_context.c:964  UCX  WARN  network device ':1' is not available, "
        "please use one or more of: 'eth0'(tcp), 'lo'(tcp)"
    )
    ended = errors(tmp_path, job=[said, *COUNTED, RUN_STOP])
    assert [(severity, name) for severity, name, _ in ended] == [("warning", "env-invalid-value")]
    assert [severity for severity, *_ in errors(tmp_path, job=[said, "0: starts"])] == ["error"]

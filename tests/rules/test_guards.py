"""What keeps checks from judging: guards that the examples of the rules do not reach."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import CannotJudge, Hit, Severity
from nccl_insight.facts.said.ends import ends
from tests.checks import check, page


def first_log(code: str) -> str:
    """The first log of a rule's fixture, which makes a finding."""
    return page(code).split("```log\n")[1].split("```")[0]


def test_calls_are_not_counted_in_a_log_that_is_cut(tmp_path: Path) -> None:
    whole, log = first_log("NI513"), tmp_path / "run.log"
    log.write_text(whole)
    found = list(check("NI513", nccl_insight.load(log)))
    assert [type(item) for item in found] == [Hit]
    # The last record is cut: the call that rank 1 lacks may have stood behind it.
    log.write_text(whole + "gpu01:4121:4190 [0] NCCL INFO AllReduce: opCo")
    found = list(check("NI513", nccl_insight.load(log)))
    assert [type(item) for item in found] == [CannotJudge]
    log.write_text("".join(line for line in whole.splitlines(keepends=True) if "AllReduce" not in line))
    assert list(check("NI513", nccl_insight.load(log))) == []


def test_sockets_are_no_choice_where_the_plugin_failed(tmp_path: Path) -> None:
    whole, log = first_log("NI211"), tmp_path / "run.log"
    log.write_text(whole)
    assert list(check("NI211", nccl_insight.load(log)))
    head = whole.splitlines()[0].partition("NCCL INFO")[0]
    failed = "NET/OFI aws-ofi-nccl initialization failed"
    log.write_text(whole + f"{head}NCCL INFO {failed}\n")
    assert list(check("NI211", nccl_insight.load(log))) == []


HEADS = ("gpu01:4121:4190 [0] NCCL INFO", "gpu02:5121:5190 [0] NCCL INFO")
CLOSED_BY_PEER = (
    "gpu02:5121:5190 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer gpu01<40101>"
)
GID_CHANGED = (
    "gpu01:4121:4190 [0] transport/net_ib.cc:170 NCCL WARN NET/IB : mlx5_2:1 Got async event : GID table change"
)
TIME_LIMIT = "slurmstepd: error: *** STEP 91.0 ON gpu01 CANCELLED AT 2025-03-02T11:00:07 DUE TO TIME LIMIT ***"


def _said(rank: int, what: str, size: int = 2) -> str:
    comm = f"comm 0x5{rank}00 rank {rank} nranks {size} cudaDev 0 busId 1b000"
    return f"{HEADS[rank]} {comm} commId 0xfeed - {what} COMPLETE"


def _run(tmp_path: Path, *lines: str, size: int = 2) -> nccl_insight.Run:
    log = tmp_path / "run.log"
    start = [f"{head} NCCL version 2.27.7+cuda12.8" for head in HEADS]
    log.write_text("\n".join([*start, _said(0, "Init", size), _said(1, "Init", size), *lines]) + "\n")
    return nccl_insight.load(log)


def _severities(run: nccl_insight.Run, code: str) -> list[Severity | None]:
    found = check(code, run)
    return [hit.severity for hit in found if isinstance(hit, Hit)]


def test_ranks_that_leave_one_after_another_lost_nobody(tmp_path: Path) -> None:
    gone = _said(0, "Destroy")
    assert _severities(_run(tmp_path, gone, CLOSED_BY_PEER, _said(1, "Destroy")), "NI501") == [Severity.INFO]
    # A rank that says nothing of its end, one that aborts, one that is not in the log, and another failure.
    assert _severities(_run(tmp_path, CLOSED_BY_PEER, _said(1, "Destroy")), "NI501") == [None]
    assert _severities(_run(tmp_path, gone, CLOSED_BY_PEER, _said(1, "Abort")), "NI501") == [None]
    assert _severities(_run(tmp_path, gone, CLOSED_BY_PEER, _said(1, "Destroy"), size=4), "NI501") == [None]
    crash = "[gpu01:04121] *** Process received signal ***\n[gpu01:04121] Signal: Segmentation fault (11)"
    assert _severities(_run(tmp_path, gone, crash, CLOSED_BY_PEER, _said(1, "Destroy")), "NI501") == [None]


def test_an_address_that_changed_is_noted_where_the_job_went_on(tmp_path: Path) -> None:
    done = (_said(0, "Destroy"), _said(1, "Destroy"))
    assert _severities(_run(tmp_path, GID_CHANGED, *done), "NI271") == [Severity.INFO]
    assert _severities(_run(tmp_path, GID_CHANGED), "NI271") == [None]
    assert _severities(_run(tmp_path, GID_CHANGED, done[1]), "NI271") == [None]
    assert _severities(_run(tmp_path, GID_CHANGED, CLOSED_BY_PEER, *done), "NI271") == [None]


def test_a_limit_after_the_last_communicator_cut_off_no_collective(tmp_path: Path) -> None:
    done = (_said(0, "Destroy"), _said(1, "Destroy"))
    assert _severities(_run(tmp_path, *done, TIME_LIMIT), "NI553") == [Severity.WARNING]
    assert _severities(_run(tmp_path, TIME_LIMIT, *done), "NI553") == [None]
    assert _severities(_run(tmp_path, done[0], TIME_LIMIT), "NI553") == [None]
    # Who cancels what is left of a job that closed everything chose to.
    cancelled = TIME_LIMIT.replace(" DUE TO TIME LIMIT", "")
    assert _severities(_run(tmp_path, *done, cancelled), "NI553") == [Severity.INFO]
    assert _severities(_run(tmp_path, cancelled), "NI553") == [Severity.WARNING]


def test_a_killed_process_is_none_of_the_ranks_that_closed_later(tmp_path: Path) -> None:
    done = (_said(0, "Destroy"), _said(1, "Destroy"))
    kernel = "[ 4021.118233] Out of memory: Killed process {} (indexer) total-vm:81920kB, anon-rss:4096kB, file-rss:0kB"
    other, own = kernel.format(901), kernel.format(4121)
    assert _severities(_run(tmp_path, other, *done), "NI551") == [Severity.INFO]
    assert _severities(_run(tmp_path, other, done[1]), "NI551") == [None]
    assert _severities(_run(tmp_path, *done, other), "NI551") == [None]
    assert _severities(_run(tmp_path, own, *done), "NI551") == [None]


def test_a_session_that_was_closed_is_no_scheduler(tmp_path: Path) -> None:
    line = (
        "W0302 11:00:07.100000 812 torch/distributed/elastic/agent/server/api.py:704] Received {} death signal, "
        "shutting down workers"
    )
    (hit,) = check("NI553", _run(tmp_path, line.format(1)))
    assert isinstance(hit, Hit)
    assert "session" in hit.title
    assert "sacct" not in hit.next_step
    (hit,) = check("NI553", _run(tmp_path, line.format(15)))
    assert isinstance(hit, Hit)
    assert "session" not in hit.title


@pytest.mark.parametrize(
    ("block", "kinds"),
    [
        ("  Local host:    gpu01\n  Local device:  mlx5_4", []),
        ("  Local host:   gpu01\n  Local adapter: bnxt_re0\n  Local port:    1", []),
        ("  Local host: gpu01\n  Local PID:  7721\n  Peer host:  gpu02", ["process-crashed"]),
        ("    State:          Waiting\n      Reason:       PodInitializing", []),
        ("    State:          Waiting", []),
        ("    State:          Waiting\n      Reason:       CrashLoopBackOff", ["application-exception"]),
    ],
)
def test_the_first_line_of_a_block_proves_nothing(block: str, kinds: list[str], tmp_path: Path) -> None:
    assert [e.kind for e in ends(_run(tmp_path, block))] == kinds

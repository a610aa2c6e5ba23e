"""Jobs whose ranks write to one output: what real runs of four ranks on one GPU printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bare_logs import judge
from tests.bare_logs import log as healthy
from tests.dumps import done, entry
from tests.hangs import dumps, inits, judged, log, timeout

PEER_GONE = (
    "[rank{r}]:[E1127 04:03:51.{r}48937254 ProcessGroupNCCL.cpp:612] [Rank {r}] Collective WorkNCCL(SeqNum=5, "
    "OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=15000) raised the following async exception: "
    "NCCL error: remote process exited or there was a network error, NCCL version 2.28.9"
)
FAILED = (
    "[rank{r}]:[E1127 04:03:51.{r}50399548 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  "
    "failure detected by watchdog at work sequence id: 5 PG status: last enqueued work: 6, last completed work: 4"
)


def test_what_the_missing_rank_said_last_is_quoted_from_a_shared_output(tmp_path: Path) -> None:
    begun = [f"[05:06:0{r}] rank {r}: starting pid {4000 + r}" for r in range(4)]
    waits = [line for r in range(3) for line in timeout(r, 6, 6, 5)]
    _, found = judged(log(tmp_path / "run.log", *begun, *inits(), "rank 3: waiting for tokenizer lock", *waits))
    assert [f.ranks for f in found] == [(3,)]
    assert 'rank 3 last said: "rank 3: waiting for tokenizer lock"' in f"{found[0].next_step} {found[0].observed}"
    (tmp_path / "alike").mkdir()
    _, found = judged(log(tmp_path / "alike" / "run.log", *inits(), *begun, *waits))
    assert [f.ranks for f in found] == [(3,)]
    assert "last said" not in f"{found[0].next_step} {found[0].observed}"


def test_a_missing_rank_that_waits_for_the_partner_of_a_first_receive_is_told(tmp_path: Path) -> None:
    joins = (
        "gpu01:4001:4101 [1] NCCL INFO ncclCommInitRankConfig comm 0x40923910 rank 0 nranks 2 cudaDev 1 nvmlDev 1 "
        "busId 2b000 commId 0x3319b5da877e696 - Init START"
    )
    waits = [line for r in (0, 2, 3) for line in timeout(r, 7, 7, 6)]
    _, found = judged(log(tmp_path / "run.log", *inits(), joins, *waits))
    assert [f.ranks for f in found] == [(1,)]
    assert "rank 1 waits in the init of a communicator of 2 ranks" in found[0].observed
    assert "which no other rank joined" in found[0].observed
    (tmp_path / "done").mkdir()
    done_ = joins.replace("START", "COMPLETE")
    _, found = judged(log(tmp_path / "done" / "run.log", *inits(), joins, done_, *waits))
    assert [f.ranks for f in found] == [(1,)]
    assert "waits in the init" not in found[0].observed


def test_a_rank_whose_dump_lists_what_others_wait_in_came_to_it(tmp_path: Path) -> None:
    """Ranks 0, 1 and 3 are in a barrier, which the watchdog does not count; rank 2 left it out."""
    waits = timeout(2, 6, 6, 5)
    signal = (
        "[rank{r}]:[E619 05:06:38.{r}88358012 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank {r}] "
        "Received a dump signal due to a collective timeout from  rank 2 and we will try our best to dump the debug "
        "info. Last enqueued NCCL work: 5, last completed NCCL work: 5.This is most likely caused by incorrect usages "
        "of collectives, e.g., wrong sizes used across ranks, the order of collectives is not same for all ranks or "
        "the scheduled collective, for some reason, didn't run. Additionally, this can be caused by GIL deadlock or "
        "other reasons such as network errors or bugs in the communications library (e.g. NCCL), etc. "
    )
    output = log(tmp_path / "run.log", *inits(), *waits, *(signal.format(r=r) for r in (0, 1, 3)))
    _, found = judged(output)
    assert [(f.name, f.ranks) for f in found] == [("rank-desync", (0, 1, 3))]
    barrier = entry(6, "all_reduce_barrier", input_sizes=[[1]], output_sizes=[[1]], state="completed", retired=True)
    entries = {r: [done(5), barrier if r != 2 else entry(6)] for r in range(4)}
    analysis, found = judged(output, dumps(tmp_path / "dumps", entries))
    assert found == []
    assert [f.ranks for f in analysis.findings if f.name == "collective-mismatch"] == [(2,)]


def test_a_damaged_heap_is_no_echo_of_what_the_peers_report(tmp_path: Path) -> None:
    lines = [
        *healthy(4, 4),
        "free(): double free detected in tcache 2",
        "[2026-11-27 04:03:51] node1:103:200 [3] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by "
        "remote peer localhost<52572>",
        PEER_GONE.format(r=1), FAILED.format(r=1), PEER_GONE.format(r=3), FAILED.format(r=3),
        "E1127 04:03:52.163000 2376 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -6) "
        "local_rank: 2 (pid: 102) of binary: /opt/venv/bin/python",
    ]  # fmt: skip
    analysis = judge(tmp_path, lines)
    first = analysis.findings[0]
    assert (first.name, first.severity.value, first.ranks) == ("process-crashed", "error", (2,))
    assert "free(): double free detected in tcache 2" in first.title
    watchdog = next(f for f in analysis.findings if f.name == "watchdog-timeout")
    assert watchdog.title.startswith("The watchdog gave up on")
    assert "timed out" not in watchdog.title


def test_processes_that_met_over_loopback_are_on_one_host(tmp_path: Path) -> None:
    """NCCL_HOSTID parts the ranks of a host; a second communicator of theirs never ends its init."""
    head = "node1:{p}:{p} [0] NCCL INFO "
    init = "ncclCommInitRankConfig comm 0x{c} rank {r} nranks {n} cudaDev 0 nvmlDev 0 busId 60 commId 0x{i} - Init "
    lines = ["node1:100:100 [0] NCCL INFO NCCL version 2.28.9+cuda13.0"]
    lines += [head.format(p=100 + r) + "Bootstrap: Using lo:127.0.0.1<0>" for r in range(4)]
    lines += [head.format(p=100 + r) + init.format(c=f"a{r}", r=r, n=4, i="abc") + "START" for r in range(4)]
    lines += [
        head.format(p=100 + r) + f"comm 0xa{r} rank {r} nRanks 4 nNodes 4 localRanks 1 localRank 0 MNNVL 0"
        for r in range(4)
    ]
    lines += [head.format(p=100 + r) + init.format(c=f"a{r}", r=r, n=4, i="abc") + "COMPLETE" for r in range(4)]
    lines += [head.format(p=101) + init.format(c="b1", r=0, n=2, i="def") + "START"]
    analysis = judge(tmp_path, lines)
    assert "ifname-wrong" not in {f.name for f in analysis.findings if f.severity.value == "error"}


RAISED = {
    "_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f78d37d91c0>: attribute lookup <lambda> on __main__ "
    "failed": "at the top of a module",
    "RuntimeError: basic_ios::clear: iostream error": "free space or raise the quota",
    "ValueError: Must flatten tensors with uniform dtype but got torch.float32 and torch.float16": "one dtype",
}


@pytest.mark.parametrize("said", RAISED)
def test_what_a_program_raised_brings_the_step_that_mends_it(tmp_path: Path, said: str) -> None:
    stack = [
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/home/user/train.py", line 109, in <module>',
        "[rank1]:     main()",
        f"[rank1]: {said}",
    ]
    first = judge(tmp_path, [*healthy(4, 4), *stack]).findings[0]
    assert (first.name, first.ranks) == ("application-exception", (1,))
    assert RAISED[said] in first.next_step

"""What the user saw (``--symptom``) is never ok; silence behind an init is told as a hang."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Analysis
from tests.bare_logs import log

CHANNEL = "node1:10{r}:10{r} [{r}] NCCL INFO Channel 00/0 : {r}[{r}] -> {o}[{o}] via {via}"
CALL = (
    "node1:10{r}:10{r} [{r}] NCCL INFO AllReduce: opCount {n} sendbuff 0x7f recvbuff 0x7f count 4 datatype 7 op 0 "
    "root 0 comm 0x{c:x} [nranks=2] stream 0x55"
)


def judge(tmp_path: Path, lines: list[str], symptom: str) -> Analysis:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return nccl_insight.analyze([path], symptom=symptom)


def connected(via: str) -> list[str]:
    lines = log()
    return [*lines[:3], *(CHANNEL.format(r=r, o=1 - r, via=via) for r in (0, 1)), *lines[3:]]


def calls(n: int) -> list[str]:
    return [CALL.format(r=r, n=n, c=100 + r) for r in (0, 1)]


@pytest.mark.parametrize("more", [[], calls(0)])
def test_silence_behind_init_names_the_path(tmp_path: Path, more: list[str]) -> None:
    found = [
        f for f in judge(tmp_path, [*connected("P2P/CUMEM"), *more], "hang").findings if f.severity.value != "info"
    ]
    assert [f.name for f in found] == ["hang-after-init"]
    assert "NCCL_P2P_DISABLE=1" in found[0].next_step
    assert "ACS" in found[0].next_step


def test_a_path_over_the_network_is_tested_as_one(tmp_path: Path) -> None:
    (found,) = [f for f in judge(tmp_path, connected("NET/IB/0"), "hang").findings if f.name == "hang-after-init"]
    assert "NCCL_NET_GDR_LEVEL=LOC" in found.next_step
    assert "NCCL_P2P_DISABLE" not in found.next_step


@pytest.mark.parametrize("symptom", ["", "slow", "crash"])
def test_silence_is_no_finding_unless_a_hang_was_seen(tmp_path: Path, symptom: str) -> None:
    analysis = judge(tmp_path, connected("P2P/CUMEM"), symptom)
    assert analysis.status == "inconclusive"
    assert not [f for f in analysis.findings if f.name == "hang-after-init"]


@pytest.mark.parametrize("more", [[*calls(0), *calls(1)], ["step 1 loss 2.0", "step 2 loss 1.9"]])
def test_a_job_that_got_further_did_not_hang_in_its_first_collective(tmp_path: Path, more: list[str]) -> None:
    analysis = judge(tmp_path, [*connected("P2P/CUMEM"), *more], "hang")
    assert not [f for f in analysis.findings if f.name == "hang-after-init"]


def test_a_job_of_which_something_was_seen_is_not_ok(tmp_path: Path) -> None:
    whole = log(closed=2)
    assert judge(tmp_path, whole, "").status == "ok"
    for symptom in ("hang", "slow", "crash"):
        assert judge(tmp_path, whole, symptom).status == "inconclusive"


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        pytest.param(["it hangs, help"], "NCCL_DEBUG=INFO", id="prose"),
        pytest.param([f"step {n} loss 2.0" for n in range(3)], "NCCL_DEBUG=INFO", id="steps alone"),
        pytest.param(log(1, 8), "NCCL_DEBUG_FILE", id="one of eight ranks"),
        pytest.param(log()[:1], "record-env", id="a version alone"),
        pytest.param(["node1:1:1 [0] foo.cc:12 NCCL WARN Something odd"], "record-env", id="an unknown warning"),
    ],
)
def test_what_cannot_be_judged_names_a_next_step(tmp_path: Path, lines: list[str], step: str) -> None:
    analysis = judge(tmp_path, lines, "")
    assert analysis.status in ("inconclusive", "not_judged")
    assert step in analysis.more[0].add


def test_nobody_is_told_to_use_a_release_that_is_older_than_theirs(tmp_path: Path) -> None:
    assert not [m for m in judge(tmp_path, log(), "").more if "2.19" in m.add]


_OLD = (
    "[E ProcessGroupNCCL.cpp:737] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
)


def test_the_number_between_the_ranks_that_time_out_is_named_in_old_wordings_too(tmp_path: Path) -> None:
    names = {f.name: f for f in judge(tmp_path, [_OLD.format(r=r) for r in (0, 1, 2, 3, 5, 6, 7)], "").findings}
    assert names["collective-not-reached"].ranks == (4,)
    all_came = judge(tmp_path, [_OLD.format(r=r) for r in range(8)], "").findings
    assert "collective-not-reached" not in {f.name for f in all_came}


@pytest.mark.parametrize(("number", "first"), [(1, True), (12, False)])
def test_operation_1_is_the_first_of_a_torch_that_does_not_tell_what_it_completed(
    tmp_path: Path, number: int, first: bool
) -> None:
    lines = [_OLD.format(r=r).replace("SeqNum=12", f"SeqNum={number}") for r in range(2)]
    (found,) = [f for f in judge(tmp_path, lines, "").findings if f.name == "watchdog-timeout"]
    assert ("the first ALLREDUCE of a group" in found.title) is first
    assert ("NCCL_P2P_DISABLE=1" in found.next_step) is first


def test_a_watchdog_names_its_process_group(tmp_path: Path) -> None:
    tag = "[rank2]:[E108 16:19:09.618302713 ProcessGroupNCCL.cpp:{n}] "
    lines = [
        tag.format(n=685) + "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
        "OpType=COALESCED, NumelIn=0, NumelOut=0, Timeout(ms)=600000) ran for 636397 milliseconds before timing out.",
        tag.format(n=2251) + "[PG ID 6 PG GUID 62(TENSOR_GROUP) Rank 1]  failure detected by watchdog at work sequence "
        "id: 1 PG status: last enqueued work: 1, last completed work: -1",
    ]
    (found,) = [f for f in judge(tmp_path, lines, "").findings if f.name == "watchdog-timeout"]
    assert "the first COALESCED of TENSOR_GROUP" in found.title


IOMMU = (
    'gpu01:4121:4190 [0] /src/init.cc:136 NCCL WARN Missing "iommu=pt" from kernel command line which can lead to '
    "system instablity or hang!"
)


@pytest.mark.parametrize(("symptom", "severity"), [("", "info"), ("hang", "warning"), ("crash", "info")])
def test_a_note_that_leads_to_the_symptom_is_a_warning(tmp_path: Path, symptom: str, severity: str) -> None:
    (found,) = [f for f in judge(tmp_path, [IOMMU], symptom).findings if f.code == "NI307"]
    assert found.severity.value == severity


def test_a_process_that_only_chose_a_network_hangs_where_the_user_says_so(tmp_path: Path) -> None:
    lines = [
        "pod-0:31:31 [0] NCCL INFO Bootstrap : Using [0]eth0:10.0.0.4<0>",
        "pod-0:31:31 [0] NCCL INFO Using network Socket",
    ]
    assert "hang-in-init" not in {f.name for f in judge(tmp_path, lines, "").findings}
    (found,) = [f for f in judge(tmp_path, lines, "hang").findings if f.name == "hang-in-init"]
    assert "NCCL_SOCKET_IFNAME=lo" in found.next_step

"""The first finding of a failed job, whom it blames, and what must not be said, on cases with a known root."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import nccl_insight

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CASES = sorted((Path(__file__).parents[1] / "fixtures" / "triage").glob("*/case.toml"))


def short(hosts: object) -> set[str]:
    return {str(h).split(".")[0] for h in (hosts if isinstance(hosts, (list, tuple)) else ())}


@pytest.mark.part(3)
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.parent.name)
def test_root_and_blame(path: Path) -> None:
    case: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    findings = nccl_insight.analyze([path.parent / case.get("input", "run.log")]).findings
    loud = [f for f in findings if f.severity.value in ("warning", "error")]
    told = [(f.severity.value, f.name, f.title) for f in loud]
    if not loud:
        assert not case["root"] or case.get("none_ok"), told
        return
    assert loud[0].name in case["root"], told
    blamed = case.get("blamed", {})
    if "ranks" in blamed:
        assert set(loud[0].ranks) == set(blamed["ranks"]), told
    if "hosts" in blamed:
        assert short(loud[0].hosts) == short(blamed["hosts"]), told
    assert not [f.name for f in loud if f.name in case["must_not"]], told
    assert not [f.name for f in loud if f.action.value in case["actions_not"]], told


def _closed_and_raised(tmp_path: Path, *more: str) -> nccl_insight.Analysis:
    """Two hosts: gpu01 lost gpu02 at 12:00:02, and an exception on gpu02 is stamped 12:07:12."""
    lines = [
        f"gpu0{r // 2 + 1}:{4000 + r}:{4000 + r} [{r % 2}] NCCL INFO ncclCommInitRank comm 0x55d0a{r} rank {r} "
        f"nranks 4 cudaDev {r % 2} nvmlDev {r % 2} busId {r % 2 + 1}b000 commId 0xabc1 - Init {state}"
        for state in ("START", "COMPLETE")
        for r in range(4)
    ]
    closed = "socketProgress: Connection closed by remote peer gpu02<40110>"
    lines += [f"[2026-11-17 12:00:02] gpu01:4001:4201 [1] x.cc:1 NCCL WARN {closed}", *more]
    lines += [
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "/app/train.py", line 3, in <module>',
        "[rank2]: KeyError: 'labels'",
        "E1117 12:07:12.500000 7001 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) "
        "local_rank: 0 (pid: 4002) of binary: /usr/bin/python3",
        "Root Cause (first observed failure):", "[0]:", "  time      : 2026-11-17_12:07:12", "  host      : gpu02",
        "  rank      : 2 (local_rank: 0)", "  exitcode  : 1 (pid: 4002)", "  error_file: <N/A>",
    ]  # fmt: skip
    log = tmp_path / "run.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    return nccl_insight.analyze([log])


def test_a_clock_that_is_minutes_ahead_hides_no_cause(tmp_path: Path) -> None:
    analysis = _closed_and_raised(tmp_path)
    first, peer = analysis.findings[0], next(f for f in analysis.findings if f.name == "peer-died")
    assert (first.name, first.ranks, first.role.value) == ("application-exception", (2,), "root")
    assert "The clock of gpu02 seems to be 7 minutes ahead" in first.explanation
    assert "12:07:12" in analysis.headline
    assert "12:00" not in analysis.headline
    assert (peer.caused_by, peer.severity.value) == ("application-exception", "info")


@pytest.mark.parametrize(
    "line",
    [
        # gpu02 says the same time as gpu01
        "[2026-11-17 12:00:03] gpu02:4003:4203 [1] x.cc:1 NCCL WARN socketProgress: Connection closed by remote peer "
        "gpu01<40111>",
        # something else explains why the connection was closed
        "[2026-11-17 12:00:01] gpu02:4002:4202 [0] x.cc:1 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
    ],
)
def test_a_clock_is_not_blamed_where_there_is_another_reason(tmp_path: Path, line: str) -> None:
    found = _closed_and_raised(tmp_path, line).findings
    assert not [f for f in found if "clock of" in f.explanation]


def test_there_are_cases() -> None:
    assert len(CASES) >= 20


def test_the_watchdog_table_holds_a_row_for_each_rank_and_group(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "[rank0]:[E814 13:15:55.5 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600036 milliseconds "
        "before timing out.\n"
        "[rank0]:[E814 13:15:55.6 ProcessGroupNCCL.cpp:1664] [PG ID 0 PG GUID 0(default_pg) Rank 0] Timeout at NCCL "
        "work: 41, last enqueued NCCL work: 43, last completed NCCL work: 40.\n"
        "[rank1]:[E814 13:15:55.7 ProcessGroupNCCL.cpp:1664] [PG ID 0 PG GUID 0(default_pg) Rank 1] Timeout at NCCL "
        "work: 39, last enqueued NCCL work: 39, last completed NCCL work: 38.\n"
    )
    rows = nccl_insight.load([log]).table("watchdog").sort("rank")
    assert rows["group"].to_list() == ["default", "default"]
    assert rows["rank"].to_list() == [0, 1]
    assert rows["last_enqueued"].to_list() == [43, 39]
    assert rows["last_completed"].to_list() == [40, 38]
    assert rows["timed_out_seq"].to_list() == [41, 39]
    assert rows["op"].to_list() == ["ALLREDUCE", None]
    assert rows["ran_ms"].to_list() == [600036, None]
    assert rows["timestamp"][1] == "E814 13:15:55.7"


def test_the_sender_of_a_wrong_value_does_not_report_it(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(
        "From rank 1: [7.0] (expected 1.0, got 7.0)\n[rank 3] all_gather from rank 2: expected: 2.0, got: 0.0\n"
        "From rank 0: [0.0] (expected 0.0, got 0.0)\ngpu01:4121:4190 [0] NCCL INFO Connected all rings\n"
    )
    rows = nccl_insight.load([log]).table("value_checks")
    assert rows["rank"].to_list() == [None, 3]
    assert rows["expected"].to_list() == [1.0, 2.0]
    assert rows["observed"].to_list() == [7.0, 0.0]

"""Flight Recorder dumps: reading, safety, and the verdict over several ranks."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.model import Finding, Hit
from nccl_insight.facts.lateness.wire import recorded
from nccl_insight.facts.progress.flight_recorder import mismatches
from nccl_insight.rules._links import traced_efficiency
from nccl_insight.tables.run import build_run
from tests import runs
from tests.checks import check
from tests.dumps import claims, done, dump, dumps, entry, load, started

SHARED = runs.SHARED / "traces"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="reference traces : set NCCL_INSIGHT_REFERENCE_DATA")


def test_timed_collectives_have_a_bandwidth(tmp_path: Path) -> None:
    """The rank that came last waited for nobody: its time is the transfer's."""

    def timed(rank: int, seq: int) -> dict[str, Any]:
        size = {"input_sizes": [[4 << 20]], "output_sizes": [[4 << 20]]}
        return done(seq, duration_ms=3.0 if rank == seq % 4 else 40.0, **size)

    run = dumps(tmp_path, {r: [timed(r, n) for n in range(1, 7)] + [done(9)] for r in range(4)})
    rows = recorded(run)
    assert rows["ranks"].to_list() == [[0, 1, 2, 3]] * 6
    assert set(rows["wire_ns"]) == {3_000_000}
    assert rows["busbw_gbps"].to_list() == pytest.approx([(16 << 20) / 3e6 * 1.5] * 6)
    # NCCL said 1 ms for this size: a third of the bandwidth.
    said = pl.DataFrame(
        {"comm_id": ["0x1"], "op": ["AllReduce"], "size_bytes": [16 << 20], "algorithm": ["RING"],
         "protocol": ["SIMPLE"], "predicted_ns": [1e6], "chosen": [True], "input_id": [9], "line": [1]}
    )  # fmt: skip
    comms = pl.DataFrame({"comm_id": ["0x1"], "nranks": [4], "n_nodes": [1], "input_id": [9], "line": [1]})
    both = build_run({"collectives": run.table("collectives"), "predicted": said, "communicators": comms})
    (row,) = traced_efficiency(both).iter_rows(named=True)
    assert row["of_expected"] == pytest.approx(1 / 3)
    (hit,) = check("NI607", both)
    assert isinstance(hit, Hit)
    assert "AllReduce of 16.0 MiB on 4 ranks" in hit.title


def test_a_rank_without_a_dump_gives_no_bandwidth(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1, duration_ms=40.0)] for r in range(3)})
    assert recorded(run).is_empty()


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("type", {"profiling_name": "nccl:broadcast"}),
        ("data type", {"input_dtypes": ["BFloat16"]}),
        ("size", {"input_sizes": [[512, 2]]}),
    ],
)
def test_differing_operations_under_one_number(tmp_path: Path, what: str, changed: dict[str, Any]) -> None:
    run = dumps(tmp_path, {r: [done(1), entry(2, **(changed if r == 1 else {}))] for r in range(4)})
    (found,) = mismatches(run)
    assert (found.what, found.seq) == (what, 2)
    assert [ranks for *_, ranks in found.variants] == [(1,), (0, 2, 3)]


def test_sizes_of_all_to_all_may_differ(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [entry(2, "all_to_all", input_sizes=[[100 + r]])] for r in range(4)})
    assert mismatches(run) == ()


@needs_shared
def test_sixteen_ranks_with_an_injected_fault() -> None:
    """The set's fault_injection.log names ranks 12 and 14."""
    run = load(SHARED / "flight_recorder_16rank_gpu_error")
    (hit,) = [h for h in check("NI503", run) if isinstance(h, Hit)]
    assert hit.ranks == (12, 14)
    assert "74 (EXPERT_MODEL_PARALLEL_GROUP)" in {c.group for c in claims(run) if "rank 12 never issued" in c.said}
    assert mismatches(run) == ()


@needs_shared
def test_a_healthy_gloo_job_is_silent() -> None:
    run = load(SHARED / "gloo_own_4rank_healthy")
    assert run.table("flight_recorder")["rank"].n_unique() == 4
    assert list(check("NI503", run)) == []
    assert mismatches(run) == ()


def write_dump(path: Path, entries: list[dict[str, Any]], members: dict[str, list[int]]) -> None:
    """A dump of one rank that lists these process groups and their ranks."""
    content = dump(entries)
    content["pg_config"] = {name: {"name": name, "desc": "", "ranks": str(ranks)} for name, ranks in members.items()}
    path.write_bytes(pickle.dumps(content, protocol=2))


def findings_of(folder: Path) -> dict[str, Finding]:
    """Findings of the dumps in a folder, by name."""
    return {f.name: f for f in nccl_insight.analyze(nccl_insight.load([folder])).findings}


def test_who_stands_in_a_stalled_group_is_not_behind_in_another(tmp_path: Path) -> None:
    """Ranks 2 and 3 stand in a transfer of their own group; 0 and 1 wait for them in groups that join the pairs."""
    members = {"0": [0, 1, 2, 3], "t0": [0, 1], "t1": [2, 3], "d0": [0, 2], "d1": [1, 3]}
    for rank in range(4):
        tensor, data = f"t{rank // 2}", f"d{rank % 2}"
        entries = [done(n, group=tensor) for n in range(1, 5)] + [done(1, group=data)]
        entries.append(started(5, group=tensor) if rank >= 2 else started(2, group=data))
        write_dump(tmp_path / f"dump_{rank}", entries, members)
    found = findings_of(tmp_path)
    assert found["collective-stalled"].ranks == (2, 3)
    assert "rank-desync" not in found


def test_who_waits_for_a_rank_without_a_dump_is_not_behind_in_another(tmp_path: Path) -> None:
    """Rank 5 is gone: 3 and 4 wait for it, and 0, 1 for these in groups that join the triples."""
    members = {"0": list(range(6)), "t0": [0, 1, 2], "t1": [3, 4, 5], "d0": [0, 3], "d1": [1, 4], "d2": [2, 5]}
    for rank in range(5):
        tensor, data = f"t{rank // 3}", f"d{rank % 3}"
        entries = [done(n, group=tensor) for n in range(1, 5)] + [done(1, group=data)]
        entries.append(started(5, group=tensor) if rank >= 3 else started(2, group=data))
        write_dump(tmp_path / f"dump_{rank}", entries, members)
    found = findings_of(tmp_path)
    assert found["rank-desync"].ranks == (5,)


def test_a_dump_with_an_operation_begun_is_no_proof_beside_a_log(tmp_path: Path) -> None:
    """What a hang of one rank left: the log of its init, the dump that the watchdog wrote, a topology."""
    entry = {
        "record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 1, "p2p_seq_id": 0,
        "op_id": 1, "profiling_name": "nccl:all_reduce", "is_p2p": False, "input_sizes": [[8]], "output_sizes": [[8]],
        "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "completed", "retired": True, "frames": [],
        "time_created_ns": 1_795_698_297_290_516_293, "timeout_ms": 10_000,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": 1_795_698_297_373_811_750,
    }  # fmt: skip
    waiting = {**entry, "record_id": 1, "collective_seq_id": 2, "op_id": 2, "state": "scheduled", "retired": False}
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0]"}}
    (tmp_path / "run.log").write_text(
        "vm:7:7 [0] NCCL INFO ncclCommInitRankConfig comm 0x7 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 60 commId "
        "0xd8 - Init COMPLETE\n"
    )
    (tmp_path / "topo.txt").write_text("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n")

    def status(*entries: dict[str, object]) -> tuple[str, str]:
        dump = {"version": "2.10", "entries": list(entries), "pg_config": groups}
        (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(dump))
        found = nccl_insight.analyze(tmp_path)
        return found.status, found.headline

    assert status(entry, waiting)[0] == "inconclusive"
    assert "AllReduce 2 of rank 0 begun and not completed" in status(entry, waiting)[1]
    assert "how it ended, is not in the log" in status(entry)[1]


def test_an_operation_begun_is_no_ok_where_the_dump_names_no_rank(tmp_path: Path) -> None:
    entry = {
        "record_id": 1, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 1, "op_id": 1,
        "profiling_name": "nccl:all_reduce", "is_p2p": False, "input_sizes": [[8]], "output_sizes": [[8]],
        "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "started", "timeout_ms": 1,
        "time_created_ns": 1,
    }  # fmt: skip
    (tmp_path / "fr.json").write_text(json.dumps({"version": "2.9", "entries": [entry]}))
    found = nccl_insight.analyze(tmp_path / "fr.json")
    assert found.status == "inconclusive"
    assert "AllReduce 1 of a rank begun and not completed" in found.headline


@pytest.mark.parametrize(("number", "told"), [(5, 1), (17, 2)])
def test_dumps_and_time_outs_are_one_difference_where_they_number_it_alike(
    tmp_path: Path, number: int, told: int
) -> None:
    dumps(tmp_path, {r: [entry(5, "broadcast" if r == 3 else "all_reduce")] for r in range(4)})
    called = ["ALLREDUCE", "ALLREDUCE", "ALLREDUCE", "BROADCAST"]
    (tmp_path / "run.log").write_text(
        "".join(
            f"[rank{r}]:[E1117 12:00:02.049474725 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective "
            f"operation timeout: WorkNCCL(SeqNum={number}, OpType={called[r]}, NumelIn=2048, "
            "NumelOut=2048, Timeout(ms)=600000) ran for 600046 milliseconds before timing out.\n"
            for r in range(4)
        )
    )
    findings = nccl_insight.analyze(tmp_path).findings
    assert [f.ranks for f in findings if f.name == "collective-mismatch"] == [(3,)] * told


def test_a_receive_that_has_not_begun_is_not_what_a_rank_waits_in(tmp_path: Path) -> None:
    """All ranks stand in a broadcast; what is queued behind it on the GPU waits for nobody yet."""

    def entry(number: int, group: str, name: str, state: str, **more: object) -> dict[str, object]:
        return {
            "record_id": number, "pg_id": int(group), "process_group": [group, f"group {group}"], "state": state,
            "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": number, "profiling_name": f"nccl:{name}", "frames": [],
            "is_p2p": False, "input_sizes": [[8]], "output_sizes": [[8]], "input_dtypes": ["Float"],
            "output_dtypes": ["Float"], "retired": False, "time_created_ns": 1_795_698_297_290_516_293 + number,
            "timeout_ms": 600_000, "time_discovered_started_ns": None, "time_discovered_completed_ns": None, **more,
        }  # fmt: skip

    groups = {"0": [0, 1, 2, 3], "1": [0, 1], "2": [0, 2], "3": [1, 3]}
    config = {g: {"name": g, "desc": f"group {g}", "ranks": str(r)} for g, r in groups.items()}
    for rank in range(4):
        behind = (
            entry(1, "1", "all_gather", "scheduled")
            if rank < 2
            else entry(1, str(rank), "recv 1<-0", "scheduled", is_p2p=True)
        )
        dump = {"version": "2.10", "rank": rank, "pg_config": config}
        entries = [entry(0, "0", "broadcast", "started"), behind]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps({**dump, "entries": entries}))
    found = nccl_insight.analyze(tmp_path)
    assert "send-recv-unmatched" not in {f.name for f in found.findings}
    assert "Broadcast 1 of ranks 0-3 begun and not completed" in found.headline

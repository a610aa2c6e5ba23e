"""Flight Recorder dumps: reading, safety, and the verdict over several ranks."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.model import CannotJudge, Confidence, Finding, Hit, Role, Severity
from nccl_insight.facts.claims import DUMPS, Claim
from nccl_insight.facts.flight_recorder import mismatches
from nccl_insight.facts.waitfor import verdict
from nccl_insight.facts.wire import recorded
from nccl_insight.inputs.find import InputFile, find_inputs
from nccl_insight.readers.flight_recorder import format as flight_recorder
from nccl_insight.readers.flight_recorder.pickle import load_plain
from nccl_insight.rules._links import traced_efficiency
from nccl_insight.share import api
from nccl_insight.tables.run import Run, build_run
from tests import runs
from tests.checks import check
from tests.facts.dumps import done, dump, entry

SHARED = runs.SHARED / "traces"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="reference traces : set NCCL_INSIGHT_REFERENCE_DATA")


def load(directory: Path) -> Run:
    tables: dict[str, list[pl.DataFrame]] = {}
    for source in find_inputs([str(directory)]):
        for name, frame in flight_recorder.read(source).tables.items():
            tables.setdefault(name, []).append(frame)
    return build_run({n: pl.concat(f, how="diagonal_relaxed") for n, f in tables.items()})


def dumps(directory: Path, by_rank: dict[int, list[dict[str, Any]]], ranks: int = 4) -> Run:
    for rank, entries in by_rank.items():
        (directory / f"dump_{rank}").write_bytes(pickle.dumps(dump(entries, ranks), protocol=2))
    return load(directory)


def claims(run: Run) -> tuple[Claim, ...]:
    """What the dumps say about ranks that others wait for."""
    return verdict(run, DUMPS).claims


def one(path: Path) -> InputFile:
    return find_inputs([str(path)])[0]


def test_a_rank_whose_gpu_has_not_come_to_it_is_ahead_and_does_not_wait(tmp_path: Path) -> None:
    """Dumps of a running job, with starts: rank 1 has issued one collective more than the others."""
    times = {"time_discovered_started_ns": 5, "time_discovered_completed_ns": 6}
    until = [done(seq, **times) for seq in (1, 2, 3)]
    ahead = {r: until + ([entry(4)] if r == 1 else []) for r in range(4)}
    assert claims(dumps(tmp_path, ahead)) == ()
    started = entry(4, state="started", time_discovered_started_ns=7)
    (tmp_path / "waits").mkdir()
    assert [c.ranks for c in claims(dumps(tmp_path / "waits", ahead | {1: [*until, started]}))] == [(0, 2, 3)]


def test_pickle_and_json_give_the_same_rows(tmp_path: Path) -> None:
    content = dump([done(1), entry(2, "_all_gather_base", input_sizes=[[8]], output_sizes=[[32]])])
    (tmp_path / "fr_rank3.pkl").write_bytes(pickle.dumps(content, protocol=2))
    (tmp_path / "fr_rank3.json").write_text(json.dumps(content))
    rows = [
        flight_recorder.read(one(tmp_path / name)).tables["flight_recorder"].drop("input_id")
        for name in ("fr_rank3.pkl", "fr_rank3.json")
    ]
    assert rows[0].equals(rows[1])
    second = rows[0].row(1, named=True)
    assert (second["rank"], second["op"], second["size_bytes"], second["state"]) == (3, "AllGather", 128, "scheduled")
    assert second["group_ranks"] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "rank"),
    [("_dump_0", 0), ("nccl_trace_rank_12", 12), ("fr_rank3.json", 3), ("run2024_rank7.pkl.gz", 7), ("dump", None)],
)
def test_the_rank_comes_from_the_file_name(name: str, rank: int | None) -> None:
    assert flight_recorder.rank_of_name(f"/logs/job99/{name}") == rank


class Evil:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (Path.touch, (self.target,))


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "touched"
    bad = dump([entry(1)])
    bad["extra"] = Evil(marker)
    path = tmp_path / "dump_0"
    path.write_bytes(pickle.dumps(bad, protocol=2))
    result = flight_recorder.read(one(path)).tables
    assert not marker.exists()
    assert "flight_recorder" not in result
    assert "could run code" in result["notes"]["detail"][0]


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_cut_pickle_gives_the_complete_entries(tmp_path: Path, protocol: int) -> None:
    whole = pickle.dumps(dump([done(n) for n in range(1, 41)]), protocol=protocol)
    path = tmp_path / "dump_0"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    result = flight_recorder.read(one(path)).tables
    assert 10 < result["flight_recorder"].height < 40
    assert result["notes"]["kind"].to_list() == ["trace-truncated"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_kinds_of_plain_values(protocol: int) -> None:
    value = {
        "int": [0, 255, 256, 65535, 65536, -1, 2**31, -(2**63), 2**200],
        "float": [0.5, -1e300],
        "text": ["", "\u00e9", "x" * 300],
        "nested": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [[]], {"a": {"b": None}}],
        "flags": [True, False, None],
    }
    shared = ["again", "again"]
    assert load_plain(pickle.dumps([value, shared, shared], protocol)) == ([value, shared, shared], "")


@pytest.mark.parametrize("bad", [print, Path("x"), {1, 2}, bytearray(b"x"), complex(1, 2)])
def test_other_objects_are_refused(bad: object) -> None:
    found, problem = load_plain(pickle.dumps([bad], 2))
    assert found is None
    assert "could run code" in problem


def test_a_value_that_grows_when_printed_costs_nothing(tmp_path: Path) -> None:
    bomb: Any = ("x",)
    for _ in range(60):
        bomb = (bomb, bomb)
    content = dump(
        [entry(1, process_group=[bomb, bomb], profiling_name=bomb, input_sizes=bomb, frames=[{"filename": bomb}])]
    )
    content["pg_config"]["1"] = {"name": bomb, "desc": bomb, "ranks": bomb}
    path = tmp_path / "dump_0"
    path.write_bytes(pickle.dumps(content, 2))
    assert flight_recorder.read(one(path)).tables["flight_recorder"].height == 1


def test_a_huge_memo_index_does_not_allocate(tmp_path: Path) -> None:
    path = tmp_path / "dump_0"
    path.write_bytes(b"\x80\x02}r\xff\xff\xff\x7fX\x0e\x00\x00\x00profiling_name")
    assert "notes" in flight_recorder.read(one(path)).tables


@pytest.mark.parametrize("cut", [0.3, 0.6, 0.99])
def test_cut_json_gives_the_complete_entries(tmp_path: Path, cut: float) -> None:
    text = json.dumps(dump([done(n) for n in range(1, 41)]))
    path = tmp_path / "dump_0.json"
    path.write_text(text[: int(len(text) * cut)])
    result = flight_recorder.read(one(path)).tables
    assert 0 < result["flight_recorder"].height <= 40
    assert result["notes"]["kind"].to_list() == ["trace-truncated"]


def test_values_beyond_bounds_become_unknown(tmp_path: Path) -> None:
    path = tmp_path / "dump_0.json"
    odd = entry(2**70, time_created_ns=-5, input_sizes=[[2**62, 2**62]], state=7, process_group=[None], pg_id="x")
    path.write_text(json.dumps(dump([odd, "no entry", entry(1)])))  # type: ignore[list-item]
    rows = flight_recorder.read(one(path)).tables["flight_recorder"]
    assert rows["collective_seq"].to_list() == [None, 1]


def test_a_rank_that_never_issued_a_collective_is_named(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1), entry(2)] if r != 2 else [done(1)] for r in range(4)})
    assert [(c.ranks, c.waiting) for c in claims(run)] == [((2,), (0, 1, 3))]
    hits = [h for h in check("NI503", run) if isinstance(h, Hit)]
    assert [h.ranks for h in hits] == [(2,)]
    assert "never issued collective 2 (all_reduce 1024x2 Float)" in hits[0].title


def test_a_rank_that_waits_for_the_missing_one_is_not_blamed(tmp_path: Path) -> None:
    pair = {"process_group": ["7", "pair"], "pg_id": 1}
    run = dumps(
        tmp_path, {0: [entry(5)], 1: [entry(5)], 2: [done(4), {**entry(9), **pair}], 3: [done(4), {**done(8), **pair}]}
    )
    assert {c.ranks for c in claims(run)} == {(3,)}
    assert {c.waiting for c in claims(run)} == {(0, 1), (2,)}


def test_a_rank_that_never_finishes_what_others_finished_is_named(tmp_path: Path) -> None:
    ahead = [done(1), done(2), entry(3)]
    run = dumps(tmp_path, {0: ahead, 1: ahead, 2: [done(1), entry(2), entry(3)], 3: ahead})
    assert [(c.proof, c.ranks, c.waiting) for c in claims(run)] == [("lagging", (2,), (0, 1, 3))]


def test_all_waiting_in_the_same_collective_blames_nobody(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1), entry(2)] for r in range(4)})
    assert list(check("NI503", run)) == []


def test_a_rank_without_a_dump_is_pointed_at_when_all_others_wait(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1), entry(2)] for r in (0, 1, 3)})
    (hit,) = [h for h in check("NI503", run) if isinstance(h, Hit)]
    assert (hit.ranks, hit.severity, hit.confidence) == ((2,), Severity.WARNING, Confidence.LOW)


def test_a_few_dumps_of_many_ranks_point_at_nobody(tmp_path: Path) -> None:
    run = dumps(tmp_path, {0: [done(1), entry(2)]})
    assert not [h for h in check("NI503", run) if isinstance(h, Hit)]


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


def test_retired_counts_as_done_for_gloo(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [entry(1, retired=True), entry(2, retired=True)] for r in range(4)})
    assert claims(run) == ()
    assert verdict(run, DUMPS).waiting == frozenset()


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


def test_one_dump_of_two_ranks_blames_nobody(tmp_path: Path) -> None:
    """Whether the other rank wrote a dump that was only not given cannot be known."""
    run = dumps(tmp_path, {0: [done(1), entry(2)]}, ranks=2)
    (found,) = check("NI503", run)
    assert isinstance(found, CannotJudge)
    assert "one rank" in found.reason


def test_the_mismatch_is_a_finding_with_the_minority_named(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1), entry(2, "broadcast" if r == 1 else "all_reduce")] for r in range(4)})
    (hit,) = [h for h in check("NI502", run) if isinstance(h, Hit)]
    assert hit.ranks == (1,)
    assert "rank 1 issued broadcast 1024x2 Float" in hit.title
    assert hit.expected == "all_reduce 1024x2 Float"


def started(seq: int, **more: Any) -> dict[str, Any]:
    return entry(seq, state="started", time_discovered_started_ns=1_700_000_000_000_000_100 + seq, **more)


def test_all_started_and_none_finished_is_a_stalled_transfer(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1), started(2)] for r in range(4)})
    (hit,) = [h for h in check("NI613", run) if isinstance(h, Hit)]
    assert hit.ranks == (0, 1, 2, 3)
    assert "collective 2 (all_reduce 1024x2 Float)" in hit.title
    assert list(check("NI503", run)) == []


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


def test_issued_but_never_entered(tmp_path: Path) -> None:
    early = done(1, time_discovered_started_ns=1_700_000_000_000_000_050)
    run = dumps(tmp_path, {r: [early, entry(2) if r == 3 else started(2)] for r in range(4)})
    (hit,) = [h for h in check("NI503", run) if isinstance(h, Hit)]
    assert hit.ranks == (3,)
    assert "never entered" in hit.title
    assert list(check("NI613", run)) == []


def p2p(record: int, text: str, **more: Any) -> dict[str, Any]:
    return entry(1, record_id=record, profiling_name=f"nccl:{text}", is_p2p=True, **more)


@pytest.mark.parametrize(("mine", "ranks"), [("send 0->1", (0, 1)), ("recv 0<-2", (0, 2))])
def test_one_side_of_a_transfer_never_came(tmp_path: Path, mine: str, ranks: tuple[int, ...]) -> None:
    run = dumps(tmp_path, {r: [done(1), *([p2p(2, mine, state="started")] if r == 0 else [])] for r in range(4)})
    (hit,) = [h for h in check("NI514", run) if isinstance(h, Hit)]
    assert hit.ranks == ranks


def test_transfers_without_a_partner_follow_from_the_rank_that_is_behind(tmp_path: Path) -> None:
    # Rank 1 never came to collective 2. Rank 0 waits there and so never came to the send that rank 3 waits for.
    waiting = [done(1), entry(2, state="started")]
    by_rank = {0: waiting, 1: [done(1)], 2: waiting, 3: [*waiting, p2p(3, "recv 3<-0", state="started")]}
    run = dumps(tmp_path, by_rank)
    (pair,) = [h for h in check("NI514", run) if isinstance(h, Hit)]
    assert pair.caused_by == ("rank-desync",)
    assert pair.title == "Rank 3 waits to receive from rank 0, which never posted the send"
    assert [(f.name, f.role) for f in api.analyze(run).findings[:2]] == [
        ("rank-desync", Role.ROOT),
        ("send-recv-unmatched", Role.CASCADE),
    ]


def test_the_rank_that_is_behind_because_of_a_transfer_is_no_root(tmp_path: Path) -> None:
    # Rank 1 is not in collective 2: it waits for a send of rank 4, which nobody holds up.
    waiting = [done(1), entry(2, state="started")]
    late = [done(1), p2p(2, "recv 1<-4", state="started", process_group=["9", "pipe"])]
    by_rank = {0: waiting, 1: late, 2: waiting, 3: waiting, 4: [done(1, process_group=["8", "other"])]}
    for rank, entries in by_rank.items():
        content = dump(entries)
        content["pg_config"] |= {
            "9": {"name": "9", "desc": "pipe", "ranks": "[0, 1, 2, 3, 4]"},
            "8": {"name": "8", "desc": "other", "ranks": "[4]"},
        }
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    run = load(tmp_path)
    found = [f.name for f in api.analyze(run).findings]
    assert "send-recv-unmatched" in found
    assert "rank-desync" not in found


def test_both_sides_open_or_coalesced_is_no_missing_receive(tmp_path: Path) -> None:
    both = {0: [done(1), p2p(2, "send 0->1", state="started")], 1: [done(1), p2p(2, "recv 1<-0")]}
    assert list(check("NI514", dumps(tmp_path, both))) == []
    batch = [p2p(5, "send 0->1"), p2p(6, "coalesced", state="completed", retired=True)]
    folder = tmp_path / "batch"
    folder.mkdir()
    run = dumps(folder, {0: [done(4), *batch], 1: [done(4)]})
    assert list(check("NI514", run)) == []


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

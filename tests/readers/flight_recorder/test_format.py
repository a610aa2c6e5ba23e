"""PyTorch Flight Recorder dumps, pickle or JSON."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import nccl_insight
from nccl_insight.base.model import CannotJudge, Confidence, Hit, Role, Severity
from nccl_insight.inputs.find import InputFile, find_inputs
from nccl_insight.readers.flight_recorder import format as flight_recorder
from nccl_insight.share import api
from tests.checks import check
from tests.dumps import done, dump, dumps, entry, load, started


def one(path: Path) -> InputFile:
    return find_inputs([str(path)])[0]


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


def test_dumps_and_the_log_tell_one_mismatch_once(tmp_path: Path) -> None:
    dumps(tmp_path, {r: [done(1), entry(2, "broadcast" if r == 1 else "all_reduce")] for r in range(4)})
    (tmp_path / "run.log").write_text(
        "".join(
            f"[rank{r}]:[E1117 12:00:02.049474725 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective "
            f"operation timeout: WorkNCCL(SeqNum=2, OpType={'BROADCAST' if r == 1 else 'ALLREDUCE'}, NumelIn=2048, "
            "NumelOut=2048, Timeout(ms)=600000) ran for 600046 milliseconds before timing out.\n"
            for r in range(4)
        )
    )
    (found,) = [f for f in nccl_insight.analyze([tmp_path]).findings if f.name == "collective-mismatch"]
    assert (found.ranks, found.role.value) == ((1,), "root")
    assert "rank 1 issued broadcast 1024x2 Float" in found.title
    assert {Path(e.input).name for e in found.evidence} == {"dump_0", "dump_1", "run.log"}
    assert found.first_time is not None
    assert "12:00:02" in found.first_time


def test_all_started_and_none_finished_is_a_stalled_transfer(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1), started(2)] for r in range(4)})
    (hit,) = [h for h in check("NI613", run) if isinstance(h, Hit)]
    assert hit.ranks == (0, 1, 2, 3)
    assert "collective 2 (all_reduce 1024x2 Float)" in hit.title
    assert list(check("NI503", run)) == []


def test_issued_but_never_entered(tmp_path: Path) -> None:
    early = done(1, time_discovered_started_ns=1_700_000_000_000_000_050)
    run = dumps(tmp_path, {r: [early, entry(2) if r == 3 else started(2)] for r in range(4)})
    (hit,) = [h for h in check("NI503", run) if isinstance(h, Hit)]
    assert hit.ranks == (3,)
    assert "never entered" in hit.title
    assert list(check("NI613", run)) == []


def p2p(record: int, text: str, **more: Any) -> dict[str, Any]:
    return entry(1, record_id=record, profiling_name=f"nccl:{text}", is_p2p=True, **more)


@pytest.mark.parametrize(("mine", "ranks"), [("send 0->1", (1,)), ("recv 0<-2", (2,))])
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

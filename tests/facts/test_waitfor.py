"""Who waits for whom."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.base.model import Hit
from nccl_insight.facts.claims import DUMPS
from nccl_insight.facts.waitfor import verdict
from tests.checks import check
from tests.dumps import claims, done, dumps, entry
from tests.hangs import judged, log, timeout


def test_a_rank_whose_gpu_has_not_come_to_it_is_ahead_and_does_not_wait(tmp_path: Path) -> None:
    """Dumps of a running job, with starts: rank 1 has issued one collective more than the others."""
    times = {"time_discovered_started_ns": 5, "time_discovered_completed_ns": 6}
    until = [done(seq, **times) for seq in (1, 2, 3)]
    ahead = {r: until + ([entry(4)] if r == 1 else []) for r in range(4)}
    assert claims(dumps(tmp_path, ahead)) == ()
    started = entry(4, state="started", time_discovered_started_ns=7)
    (tmp_path / "waits").mkdir()
    assert [c.ranks for c in claims(dumps(tmp_path / "waits", ahead | {1: [*until, started]}))] == [(0, 2, 3)]


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


def test_retired_counts_as_done_for_gloo(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [entry(1, retired=True), entry(2, retired=True)] for r in range(4)})
    assert claims(run) == ()
    assert verdict(run, DUMPS).waiting == frozenset()


def _group(rank: int, number: int, name: str, place: int, seq: int, op: str = "ALLREDUCE") -> str:
    """The two lines of a time-out in a group, as torch 2.6 prints them."""
    first, second = timeout(rank, seq, seq, seq - 1, str(number), name)
    first, second = (line.replace(f" Rank {rank}]", f" Rank {place}]") for line in (first, second))
    return "\n".join((first.replace(f"[Rank {rank}]", f"[Rank {place}]").replace("ALLREDUCE", op), second))


def _files(path: Path, by_rank: dict[int, list[str]]) -> str:
    for rank, lines in by_rank.items():
        log(path / f"rank{rank}.log", *lines)
    return str(path)


def test_two_time_outs_of_one_number_belong_to_their_groups(tmp_path: Path) -> None:
    """All stand in number 3 of two groups each: the first line of a time-out names no group."""
    lines = [
        _group(r, n, f"{guid}", r % 2, 3, op)
        for r in range(4)
        for n, guid, op in ((1, 5 + r // 2, "ALLREDUCE"), (2, 9 + r // 2, "ALLTOALL_BASE"))[:: 1 if r % 2 else -1]
    ]
    analysis, found = judged(log(tmp_path / "run.log", *lines))
    assert "collective-mismatch" not in {f.name for f in analysis.findings}
    assert all(f.name == "collective-stalled" for f in found)


def test_a_silent_rank_whose_output_is_here_goes_before_one_without(tmp_path: Path) -> None:
    """Tensor groups of four; ranks 1 and 6 wait nowhere, and of rank 6 there is no file."""
    waits = {r: [_group(r, 1, f"{5 + r // 4}(tp)", r % 4, 40)] for r in range(8) if r not in (1, 6)}
    _, found = judged(_files(tmp_path, waits | {1: ["step 10 loss 2.5", "step 20 loss 2.4"]}))
    assert [f.ranks for f in found] == [(1,)]


def test_no_rank_without_output_is_named_where_another_left_out_an_operation(tmp_path: Path) -> None:
    """Rank 1 waits in what all have issued, and not in what its tensor group waits in; the file of rank 3 is lost."""
    world = {r: [_group(r, 0, "0(default_pg)", r, 2)] for r in range(8) if r != 3}
    tensor = {r: [_group(r, 1, "1(tp)", r, 16)] if r in (0, 2) else [] for r in world}
    _, found = judged(_files(tmp_path, {r: [*world[r], *tensor[r]] for r in world}))
    assert found == []
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "x").mkdir()
    both = {r: [*world[r], *([_group(r, 1, "1(tp)", r, 16)] if r < 3 else [])] for r in world}
    _, found = judged(_files(tmp_path / "all" / "x", both))
    assert [f.ranks for f in found] == [(3,)]


def test_numbers_of_unlike_operations_without_a_group_are_not_compared(tmp_path: Path) -> None:
    """Torch 2.1 names no group: the number in another operation may be one of another group."""
    old = "[E ProcessGroupNCCL.cpp:474] [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={}, "
    old += "OpType={}, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
    unlike = [old.format(r, 2 if r > 5 else 8, "ALLREDUCE" if r > 5 else "BROADCAST") for r in range(8)]
    _, found = judged(log(tmp_path / "unlike.log", *unlike))
    assert [f.name for f in found if f.name == "rank-desync"] == []
    alike = [old.format(r, 2 if r > 5 else 8, "ALLREDUCE") for r in range(8)]
    _, found = judged(log(tmp_path / "alike.log", *alike))
    assert [(f.name, f.ranks) for f in found] == [("rank-desync", (6, 7))]

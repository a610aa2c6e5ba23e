"""Who waits for whom."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import nccl_insight
from nccl_insight.base.model import Hit
from nccl_insight.facts.progress.claims import DUMPS
from nccl_insight.facts.progress.waitfor import verdict
from tests.checks import check
from tests.dumps import claims, done, dump, dumps, entry, load
from tests.hangs import dumps as given
from tests.hangs import inits, judged, log, timeout


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


def _by_counter(rank: int, number: int, place: int, seq: int, op: str = "ALLREDUCE") -> str:
    """The same as torch 2.3 prints them: groups have the number in which their process made them."""
    head = f"[rank{rank}]:[E1126 05:06:30.701330940 ProcessGroupNCCL.cpp"
    work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 6000{rank:02}"
    return (
        f"{head}:563] [Rank {place}] Watchdog caught collective operation timeout: {work} milliseconds before timing "
        f"out.\n{head}:1537] [PG {number} Rank {place}] Timeout at NCCL work: {seq}, last enqueued NCCL work: {seq}, "
        f"last completed NCCL work: {seq - 1}."
    )


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


def test_of_two_silent_ranks_of_a_group_the_one_with_output_is_named(tmp_path: Path) -> None:
    """Ranks 4 and 7 wait nowhere, and of rank 4 there is no file: it may have waited as well."""
    waits = {r: [_group(r, 1, f"{5 + r // 4}(tp)", r % 4, 40)] for r in range(8) if r not in (4, 7)}
    _, found = judged(_files(tmp_path, waits | {7: ["step 10 loss 2.5", "step 20 loss 2.4"]}))
    assert [f.ranks for f in found] == [(7,)]


def test_two_silent_ranks_whose_output_is_here_are_late_where_all_others_wait(tmp_path: Path) -> None:
    """Ranks 5 and 7 lack in a data-parallel group of four; rank 6, that of the other one, waits to receive."""
    waits = {r: [_group(r, 2, f"{5 + r % 2}(dp)", r // 2, 40)] for r in (0, 1, 2, 3, 4)}
    waits |= {6: [_group(6, 3, "9(pp)", 0, 40, "RECV")]}
    _, found = judged(_files(tmp_path, waits | {r: ["step 10 loss 2.5"] for r in (5, 7)}))
    assert [f.ranks for f in found] == [(5, 7)]


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


def test_of_a_group_in_which_all_stand_nobody_is_late(tmp_path: Path) -> None:
    """Data-parallel group of ranks 0 and 4 stands still; the tensor mates of both wait for them, and say so."""
    pair = [_group(r, 2, "9(dp)", r // 4, 7) for r in (0, 4)]
    mates = [_group(r, 1, f"{5 + r // 4}(tp)", r % 4, 40) for r in range(8) if r % 4]
    _, found = judged(log(tmp_path / "run.log", *pair, *mates))
    assert [f.name for f in found] == ["collective-stalled"]


def test_a_silent_file_is_not_the_mate_of_one_rank_alone(tmp_path: Path) -> None:
    """Rank 10 alone gave up, number 0 of a group of two: with a stride of 1 its mate is rank 11, of 4 rank 14."""
    waits = _group(10, 3, "23(dp)", 0, 1, "_REDUCE_SCATTER_BASE").replace("NumelIn=16384", "NumelIn=32768")
    steps = {r: ["step 10 loss 2.5"] for r in range(16) if r not in (8, 14)}
    _, found = judged(_files(tmp_path, steps | {10: [waits]}))
    assert found == []


def test_a_rank_that_gives_up_alone_does_not_tell_who_else_there_is(tmp_path: Path) -> None:
    """Its job has at least two ranks, and perhaps two dozen."""
    waits = (
        "[rank0]:[E724 08:34:00.939894207 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=45000) ran for 45008 "
        "milliseconds before timing out.\n"
        "[rank0]:[E724 08:34:00.940031348 ProcessGroupNCCL.cpp:1795] [PG ID 0 PG GUID 0(default_pg) Rank 0] Exception "
        "(either an error or timeout) detected by watchdog at work: 3, last enqueued NCCL work: 3, last completed "
        "NCCL work: 2."
    )
    _, found = judged(log(tmp_path / "one.log", waits))
    assert found == []


def test_several_silent_ranks_of_a_log_that_ends_among_time_outs_are_not_named(tmp_path: Path) -> None:
    waits = [_group(r, 1, f"{5 + r // 4}(tp)", r % 4, 40) for r in range(16) if r not in (5, 14)]
    steps = [f"[rank{r}]: step 10 loss 2.5" for r in range(16)]
    _, found = judged(log(tmp_path / "cut.log", *steps, *waits))
    assert found == []


def test_one_silent_rank_of_the_groups_that_a_cut_log_still_tells_is_not_named(tmp_path: Path) -> None:
    """Rank 14 lacks in a group of three others; the log ends there, and most of the job said nothing yet."""
    waits = [_group(r, 23, "40(ep)", (r - 8) // 2, 4) for r in (8, 10, 12)]
    waits += [_group(2, 21, "38(ep)", 1, 3), _group(5, 22, "39(ep)", 2, 3)]
    _, found = judged(log(tmp_path / "cut.log", *waits))
    assert found == []


def test_groups_that_processes_count_for_themselves_are_not_compared(tmp_path: Path) -> None:
    """Ranks 0 and 3 are in the first group each made, of ranks 0-1 and 2-3; rank 2 took the other branch."""
    waits = [_by_counter(r, 0, r, 42) for r in (2, 4, 5, 6, 7)]
    waits += [_by_counter(1, 2, 0, 2, "RECV"), _by_counter(3, 1, 1, 3004), _by_counter(0, 1, 0, 3003)]
    _, found = judged(log(tmp_path / "job.log", *waits))
    assert found == []


def test_a_rank_without_a_dump_may_wait_where_another_one_called_something_else(tmp_path: Path) -> None:
    """Ranks 0 and 1 disagree on number 3, which rank 2 may have entered; rank 3 waits to receive from it."""
    pair = {"is_p2p": True, "p2p_seq_id": 1, "process_group": ["1", "pp"], "pg_id": 1}
    waits = entry(1, "recv 1<-0", **pair)
    given = {3: dump([done(2), waits]), 0: dump([done(2), entry(3, "_reduce_scatter_base")])}
    given |= {1: dump([done(2), entry(3, "_all_gather_base")])}
    given[3]["pg_config"]["1"] = {"name": "1", "desc": "pp", "ranks": "[2, 3]"}
    for rank, content in given.items():
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    assert [c.ranks for c in claims(load(tmp_path)) if 2 in c.ranks] == []
    del given[0], given[1]
    for rank in (0, 1):
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(dump([done(2)]), protocol=2))
    assert [c.ranks for c in claims(load(tmp_path))] == [(2,)]


def test_a_transfer_that_both_sides_began_stands_and_who_waits_behind_it_lacks_no_partner(tmp_path: Path) -> None:
    """Rank 1 sends to rank 2, which received; rank 0 sends to rank 1, which waits. Where rank 1 waits for nobody, it
    left the receive out."""
    pipe = {"is_p2p": True, "process_group": ["1", "pp"], "pg_id": 1, "state": "started"}
    first = entry(1, "send 0->1", **pipe, p2p_seq_id=1)
    second = [entry(1, f"{op}", **pipe, p2p_seq_id=1) for op in ("send 1->2", "recv 2<-1")]
    given = {0: [done(2), first], 1: [done(2), second[0]], 2: [done(2), second[1]]}

    def told(dumps: dict[int, list[dict[str, Any]]]) -> list[tuple[str, tuple[int, ...]]]:
        for rank, entries in dumps.items():
            content = dump(entries)
            content["pg_config"]["1"] = {"name": "1", "desc": "pp", "ranks": "[0, 1, 2]"}
            (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps(content, protocol=2))
        return [(f.name, f.ranks) for f in nccl_insight.analyze([tmp_path]).findings if f.severity.value == "error"]

    assert told(given) == [("collective-stalled", (1, 2))]
    assert told(given | {1: [done(2)], 2: [done(2)]}) == [("send-recv-unmatched", (1,))]


def test_groups_without_a_name_at_one_number_do_not_differ(tmp_path: Path) -> None:
    """Torch 2.1: rank 0 waits for rank 1 in number 2 of its tensor group, others in number 2 of another one."""
    stands = {0: (0, 2, 5824), 2: (1, 1, 5312), 3: (1, 1, 5312), **{r: (r, 2, 4736) for r in range(4, 8)}}
    waits = [
        f"{rank}: [E ProcessGroupNCCL.cpp:474] [Rank {place}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum={seq}, OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 60000{rank} "
        "milliseconds before timing out."
        for rank, (place, seq, numel) in stands.items()
    ]
    analysis, _ = judged(log(tmp_path / "job.log", *waits))
    assert "collective-mismatch" not in {f.name for f in analysis.findings}


def test_orders_that_cross_name_both_groups(tmp_path: Path) -> None:
    """All have issued number 2 of both groups; then two go on in the one, and two in the other."""
    groups = {"tp": {"process_group": ["1", "tp"], "pg_id": 1}, "dp": {"process_group": ["2", "dp"], "pg_id": 2}}
    before = [{**done(2), **group} for group in groups.values()]
    by_rank = {r: [*before, {**entry(3), **groups["tp" if r < 2 else "dp"]}] for r in range(4)}
    crossed = verdict(dumps(tmp_path, by_rank), DUMPS).crossed
    assert [(c.ranks, c.others) for c in crossed] == [((0, 1), (2, 3))]


def test_dumps_of_another_moment_do_not_speak_of_the_hang(tmp_path: Path) -> None:
    """In the dumps rank 1 is behind and all else is done; by the time-outs it came, and rank 3 did not."""
    lines = [line for r in (0, 1, 2) for line in timeout(r, 60, 60, 59)]
    _, alone = judged(log(tmp_path / "run.log", *inits(), *lines))
    by_rank = {r: [done(33), entry(34)] if r == 2 else [done(33)] for r in range(4)}
    _, found = judged(str(tmp_path / "run.log"), given(tmp_path / "dumps", by_rank))
    assert [f.ranks for f in alone] == [f.ranks for f in found] == [(3,)]


def test_who_may_wait_for_a_rank_whose_log_is_lost_is_not_named(tmp_path: Path) -> None:
    """Ranks 0 to 3: 0 and 1 are one group, 0 and 2 another. Rank 0 does not issue what rank 2 waits in; the log of
    rank 1, for which it may wait, is not here."""
    hashes, members = ("8a1f5f0c3d2e1b00", "8a1f5f0c3d2e1b01", "8a1f5f0c3d2e1b02"), ((0, 1, 2, 3), (0, 1), (0, 2))
    lines: dict[int, list[str]] = {r: [] for r in range(4)}
    for n, (own, ranks) in enumerate(zip(hashes, members, strict=True)):
        for r in ranks:
            at = f"comm 0x55d0{n}{r} rank {ranks.index(r)} nranks {len(ranks)} cudaDev 0 nvmlDev 0 busId 1b000 "
            text = f"node{r}:400{r}:410{r} [0] NCCL INFO ncclCommInitRank {at}commId 0x{own} - Init "
            lines[r] += [f"{text}START", f"{text}COMPLETE"]
    for r, n, count in ((0, 1, 3), (1, 1, 1), (2, 2, 2)):
        size = len(members[n])
        lines[r] += [
            f"node{r}:400{r}:410{r} [0] NCCL INFO AllReduce: opCount {i} sendbuff 0x7f00 recvbuff 0x7f00 count 16 "
            f"datatype 7 op 0 root 0 comm 0x55d0{n}{r} [nranks={size}] stream 0x7f00" for i in range(count)
        ]  # fmt: skip
    (tmp_path / "all").mkdir()
    _, found = judged(_files(tmp_path / "all", lines))
    assert [f.ranks for f in found] == [(1,)]
    (tmp_path / "some").mkdir()
    _, found = judged(_files(tmp_path / "some", {r: own for r, own in lines.items() if r != 1}))
    assert found == []


def test_two_silent_ranks_are_named_where_the_log_holds_every_death(tmp_path: Path) -> None:
    """Of eight ranks six give up, and each of them dies in the one log; without the deaths it may have been cut."""
    lines = [line for r in (0, 1, 2, 4, 5, 7) for line in timeout(r, 60, 60, 59)]
    dies = "terminate called after throwing an instance of 'c10::DistBackendError'"
    _, cut = judged(log(tmp_path / "cut.log", *lines))
    _, whole = judged(log(tmp_path / "run.log", *lines, *[dies] * 6))
    assert [f.ranks for f in whole] == [(3, 6)]
    assert [f.ranks for f in cut] == []


def _of_hosts(path: Path, silent: set[int], hosts: tuple[int, ...]) -> str:
    """A file of each of these hosts of four ranks; who gives up dies."""
    path.mkdir()
    for n in hosts:
        lines = [(*timeout(r, 60, 60, 59), _DIES) for r in range(4 * n, 4 * n + 4) if r not in silent]
        log(path / f"node{n}.log", *(line for own in lines for line in own))
    return str(path)


_DIES = "terminate called after throwing an instance of 'c10::DistBackendError'"


def test_a_rank_that_lacks_among_those_of_its_host_is_named_where_another_host_is_lost(tmp_path: Path) -> None:
    _, found = judged(_of_hosts(tmp_path / "one", {9}, (1, 2, 3)))
    assert [(f.ranks, f.confidence.value) for f in found] == [((9,), "high")]


def test_several_silent_ranks_of_a_host_may_be_cut_off(tmp_path: Path) -> None:
    """Of 64 ranks one is silent, and of another host three: the end of its file may be lost."""
    _, found = judged(_of_hosts(tmp_path / "some", {5, 29, 30, 31}, tuple(range(16))))
    assert all(f.confidence.value == "low" for f in found)

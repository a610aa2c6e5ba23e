"""Who did not come, when several sources tell how far the ranks of a job got: one finding, its confidence, its host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.facts.progress.absent import absences, refuted
from nccl_insight.facts.progress.claims import RAS
from nccl_insight.facts.progress.waitfor import verdict
from tests.dumps import done, entry
from tests.hangs import HANGS, HASH, call, dumps, host, inits, judged, log, old_timeout, ras, timeout


def test_one_source_alone_is_as_sure_as_it_can_be(tmp_path: Path) -> None:
    waits = [line for r in (0, 1, 2) for line in timeout(r, 35, 35, 34)]
    _, found = judged(log(tmp_path / "run.log", *inits(), *waits))
    assert [(f.name, f.ranks, f.hosts, f.confidence.value) for f in found] == [
        ("collective-not-reached", (3,), ("gpu02",), "high")
    ]
    _, found = judged(dumps(tmp_path / "dumps", {r: [done(34), entry(35)] for r in (0, 1, 2)}))
    assert [(f.name, f.ranks, f.confidence.value, f.severity.value) for f in found] == [
        ("rank-desync", (3,), "low", "warning")
    ]


@pytest.mark.parametrize("common", [True, False])
def test_what_a_silent_rank_alone_said_last_is_quoted(tmp_path: Path, common: bool) -> None:
    """A line that the files of all ranks have tells nothing of the one that did not come."""
    said = "WARNING:datasets.reader: retrying read of /lustre/shard_{}.bin"
    for r in range(4):
        own = [said.format(70 + r)] if common or r == 3 else ["loading checkpoint shards"]
        lines = [line for line in inits() if line.startswith(f"{host(r)}:{4000 + r}:")]
        log(tmp_path / f"rank{r}.log", *lines, *own, *(timeout(r, 35, 35, 34) if r != 3 else ()))
    _, found = judged(str(tmp_path))
    assert [(f.name, f.ranks) for f in found] == [("collective-not-reached", (3,))]
    quoted = [e for e in found[0].evidence if e.text == said.format(73)]
    assert [Path(e.input).name for e in quoted] == ([] if common else ["rank3.log"])
    assert (f'rank 3 last said: "{said.format(73)}"' in found[0].next_step) is not common


def test_a_rank_that_waits_elsewhere_is_told_where_and_what_it_said_before(tmp_path: Path) -> None:
    """What the watchdog of that rank prints as it gives up is no reason for its coming late."""
    said = "WARNING: profiler: all ranks meet before the profile is written"
    for r in range(4):
        lines = [line for line in inits() if line.startswith(f"{host(r)}:{4000 + r}:")]
        wait = timeout(3, 613, 613, 612) if r == 3 else timeout(r, 35, 35, 34, "1", "7")
        after = ["Exception raised from checkTimeout at Watchdog.cpp:632 (most recent call first):"] if r == 3 else []
        log(tmp_path / f"rank{r}.log", *lines, *([said] if r == 3 else ["loading shards"]), *wait, *after)
    _, found = judged(str(tmp_path))
    assert [(f.name, f.ranks) for f in found] == [("collective-not-reached", (3,))]
    assert "rank 3 itself timed out in ALLREDUCE 613 of all ranks, no other rank did" in (found[0].observed or "")
    assert f'rank 3 last said: "{said}"' in found[0].next_step
    assert {Path(e.input).name for e in found[0].evidence if "SeqNum=613" in (e.text or "")} == {"rank3.log"}


def test_watchdog_and_dumps_that_agree_make_one_finding(tmp_path: Path) -> None:
    waits = [line for r in (0, 1, 3) for line in timeout(r, 35, 35, 34)]
    text = log(tmp_path / "run.log", *inits(), *waits)
    by_rank = {r: [done(34), entry(35)] for r in (0, 1, 3)} | {2: [done(34)]}
    _, found = judged(text, dumps(tmp_path / "dumps", by_rank))
    assert [(f.name, f.ranks, f.hosts, f.confidence.value) for f in found] == [
        ("rank-desync", (2,), ("gpu02",), "high")
    ]
    assert "never issued collective 35" in found[0].title
    assert "The same by torch's watchdog:" in found[0].explanation
    assert {e.input.rsplit("/", 1)[-1] for e in found[0].evidence} >= {"run.log"}


def test_dumps_without_one_rank_are_believed_when_the_log_agrees(tmp_path: Path) -> None:
    waits = [line for r in (0, 1, 2) for line in timeout(r, 35, 35, 34)]
    text = log(tmp_path / "run.log", *waits)  # no init: the log does not say how many ranks there are
    _, found = judged(text, dumps(tmp_path / "dumps", {r: [done(34), entry(35)] for r in (0, 1, 2)}))
    assert [(f.ranks, f.severity.value) for f in found] == [((3,), "warning")]
    text = log(tmp_path / "run.log", *inits(), *waits)
    _, found = judged(text, str(tmp_path / "dumps"))
    assert [(f.ranks, f.severity.value, f.confidence.value) for f in found] == [((3,), "error", "high")]


@pytest.mark.parametrize("own", [True, False], ids=["a file of each rank", "one log that ends among the time-outs"])
def test_whose_output_is_not_here_may_wait_as_well(tmp_path: Path, own: bool) -> None:
    """A time-out in the missing lines would say that the data of all stands, and that nobody is late."""
    waits = {r: timeout(r, 35, 35, 34) for r in (0, 1, 3)}
    if own:
        for r, lines in waits.items():
            log(tmp_path / f"rank{r}.log", *lines)
    else:
        log(tmp_path / "run.log", *(line for lines in waits.values() for line in lines))
    _, found = judged(str(tmp_path))
    assert [(f.ranks, f.severity.value, f.confidence.value) for f in found] == [((2,), "error", "low")]
    assert found[0].title.startswith("Rank 2 is late, or its output is not here; ranks 0-1,3 timed out")


@pytest.mark.parametrize(("whole", "sure"), [(True, "medium"), (False, "low")])
def test_a_log_in_which_each_rank_says_as_much_is_not_cut(tmp_path: Path, whole: bool, sure: str) -> None:
    """It ends behind the last words of a watchdog, as those of the others; or one rank less has come to them."""
    down = (
        "[rank{0}]:[E1103 08:40:09.1 ProcessGroupNCCL.cpp:698] [Rank {0}] To avoid data inconsistency, we are taking "
    )
    waits = [line for r in (0, 1, 3) for line in timeout(r, 35, 35, 34)]
    said = [f"{down.format(r)}the entire process down." for r in (0, 3, 1) for _ in range(2)]
    _, found = judged(log(tmp_path / "run.log", *waits, *(said if whole else said[:-1])))
    assert [(f.ranks, f.confidence.value) for f in found] == [((2,), sure)]


def test_the_better_evidence_is_told_when_sources_disagree(tmp_path: Path) -> None:
    waits = [line for r in (0, 2, 3) for line in timeout(r, 35, 35, 34)]
    text = log(tmp_path / "run.log", *inits(), *waits)  # rank 1 is silent ...
    by_rank = {r: [done(34), entry(35)] for r in (0, 1, 3)} | {2: [done(33)]}  # ... but issued what rank 2 never did
    _, found = judged(text, dumps(tmp_path / "dumps", by_rank))
    assert [(f.name, f.ranks, f.hosts) for f in found] == [("rank-desync", (2,), ("gpu02",))]
    assert "says otherwise (rank 1 printed nothing" in found[0].explanation
    assert found[0].confidence.value == "medium"


def test_dumps_of_all_ranks_refute_a_silent_rank(tmp_path: Path) -> None:
    waits = [line for r in (0, 1, 2) for line in timeout(r, 35, 35, 34)]
    text = log(tmp_path / "run.log", *inits(), *waits)
    paths = (text, dumps(tmp_path / "dumps", {r: [done(34), entry(35)] for r in range(4)}))
    _, found = judged(*paths)
    assert [(f.name, f.ranks) for f in found] == [("collective-stalled", (0, 1, 2, 3))]
    assert "the dumps are the better evidence" in found[0].explanation
    run = nccl_insight.load(list(paths))
    assert [c.ranks for c in refuted(run)] == [(3,)]
    assert absences(run) == ()


def test_a_report_of_ras_alone_accuses_nobody(tmp_path: Path) -> None:
    analysis, found = judged(ras(tmp_path / "ras.json", {0: 50, 1: 50, 2: 50, 3: 47}))
    assert not found
    assert [f.severity.value for f in analysis.findings if f.name == "ras-mismatch"] == ["info"]


def test_two_reports_of_ras_in_which_nothing_moved_do(tmp_path: Path) -> None:
    text = log(tmp_path / "run.log", *inits())
    counts = {0: 50, 1: 50, 2: 50, 3: 49}
    reports = [ras(tmp_path / f"ras{n}.json", counts, second=n) for n in (10, 40)]
    analysis, found = judged(text, *reports)
    assert [(f.name, f.ranks, f.hosts) for f in found] == [("rank-desync", (3,), ("gpu02",))]
    assert "the same in two reports" not in found[0].title
    assert not [f for f in analysis.findings if f.name == "ras-mismatch"]
    moved = ras(tmp_path / "ras40.json", {0: 90, 1: 90, 2: 90, 3: 89})
    assert not judged(text, reports[0], moved)[1]


def test_ras_raises_the_confidence_of_a_silent_rank_and_is_not_told_twice(tmp_path: Path) -> None:
    waits = [line for r in (0, 1, 2) for line in timeout(r, 35, 35, 34)]
    text = log(tmp_path / "run.log", *waits)
    by_rank = {r: [done(34), entry(35)] for r in (0, 1, 2)}
    _, found = judged(dumps(tmp_path / "dumps", by_rank), ras(tmp_path / "ras.json", {0: 35, 1: 35, 2: 35}, dead=(3,)))
    assert [(f.name, f.ranks, f.severity.value, f.confidence.value) for f in found] == [
        ("rank-desync", (3,), "error", "medium")
    ]
    assert "The same by RAS: rank 3: its process is dead" in found[0].explanation
    _, found = judged(text, ras(tmp_path / "ras.json", {0: 35, 1: 35, 2: 35}, dead=(3,)))
    assert [(f.name, f.ranks) for f in found] == [("ras-incomplete", (3,))]


def test_a_rank_that_waits_for_another_one_is_not_blamed(tmp_path: Path) -> None:
    """Rank 1 did not come to the job's collective because it waits in a smaller group for rank 3."""
    lines = [*inits()]
    for r in (0, 2):
        lines += timeout(r, 35, 35, 34)
    lines += timeout(1, 7, 7, 6, group="3", guid="9(tp)")
    lines += [
        f"[rank{r}]:[E619 05:06:31.9{r}9096625 ProcessGroupNCCL.cpp:2268] [PG ID {pg} PG GUID {guid} Rank {r}]  "
        f"failure detected by watchdog at work sequence id: {n} PG status: last enqueued work: {n}, last completed "
        f"work: {n}"
        for r, pg, guid, n in ((1, 0, "0(default_pg)", 34), (3, 3, "9(tp)", 6))
    ]
    run = nccl_insight.load([log(tmp_path / "run.log", *lines)])
    assert [a.lead.ranks for a in absences(run)] == [(3,)]


def test_a_rank_that_waits_by_the_watchdog_is_not_late_by_what_ras_counts(tmp_path: Path) -> None:
    waits = [line for r in (0, 1, 2) for line in timeout(r, 35, 36, 34)]
    reports = [ras(tmp_path / f"ras{n}.json", {0: 9, 1: 8, 2: 9, 3: 8}, second=40 + n) for n in (1, 2)]
    _, found = judged(log(tmp_path / "run.log", *inits(), *waits), *reports)
    assert [f.ranks for f in found] == [(3,)]


def test_ranks_of_a_monitored_barrier_of_a_smaller_group_are_not_those_of_the_job(tmp_path: Path) -> None:
    said = "[rank{0}]: RuntimeError: [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 60000 ms"
    for first, named in ((0, (1,)), (2, ())):
        _, found = judged(log(tmp_path / f"{first}.log", *inits(), said.format(first)))
        assert [(f.name, f.ranks) for f in found] == [("collective-not-reached", named)]


def test_a_rank_that_waits_elsewhere_is_not_among_those_that_are_silent(tmp_path: Path) -> None:
    """Rank 1 is in no time-out of the job's group, because it waits in another one; rank 2 says nothing at all."""
    lines = [*inits(8)]
    for r in (0, 3, 4, 5, 6, 7):
        lines += timeout(r, 35, 35, 34)
    lines += timeout(1, 7, 7, 6, group="3", guid="9(pp)")
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [(f.name, f.ranks) for f in found if f.name == "collective-not-reached"] == [
        ("collective-not-reached", (2,))
    ]


RETRY = "NET/IB: Got completion from peer 10.0.0.2<40110> with status=12 opcode=0 len=0 vendor err 129 (Send)"


def warning(rank: int, text: str, time: str = "") -> str:
    stamp = f"[2026-06-19 {time}] " if time else ""
    return f"{stamp}{host(rank)}:{4000 + rank}:{4200 + rank} [{rank % 2}] x.cc:1 NCCL WARN {text}"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({1: RETRY}, []),  # its transfer failed: it was there
        ({1: "socketProgress: Connection closed by remote peer gpu01<40110>"}, [(1,)]),  # of whom, nobody says
    ],
)
def test_a_rank_whose_transfer_failed_had_come(
    tmp_path: Path, said: dict[int, str], named: list[tuple[int, ...]]
) -> None:
    waits = [line for r in (0, 2, 3) for line in timeout(r, 35, 35, 34)]
    lines = [*inits(), *(warning(r, text) for r, text in said.items()), *waits]
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [f.ranks for f in found if f.name == "collective-not-reached"] == named


def test_a_transfer_that_fails_after_the_time_out_excuses_nobody(tmp_path: Path) -> None:
    waits = [line for r in (0, 2, 3) for line in timeout(r, 35, 35, 34)]
    for clock, named in (("04:56:31", []), ("05:09:00", [(1,)])):
        _, found = judged(log(tmp_path / "run.log", *inits(), warning(1, RETRY, clock), *waits))
        assert [f.ranks for f in found if f.name == "collective-not-reached"] == named


def test_a_rank_that_lost_a_peer_is_not_named_beside_one_that_is_silent(tmp_path: Path) -> None:
    lines = [*inits(8), warning(1, "socketProgress: Connection closed by remote peer gpu02<40110>")]
    for r in (0, 3, 4, 5, 6, 7):
        lines += timeout(r, 35, 35, 34)
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [f.ranks for f in found if f.name == "collective-not-reached"] == [(2,)]


def test_two_groups_that_wait_for_one_rank_are_one_finding(tmp_path: Path) -> None:
    lines = [*inits(8)]
    for r in (0, 2, 3, 4, 5, 6, 7):
        lines += timeout(r, 35, 35, 34)
    for r, number in ((0, 0), (2, 2), (3, 3)):
        waits = timeout(r, 7, 7, 6, group="3", guid="9(tp)")
        lines += [w.replace(f"Rank {r}]", f"Rank {number}]") for w in waits]
    lines += [
        "[rank1]:[E619 05:06:31.919096625 ProcessGroupNCCL.cpp:2268] [PG ID 3 PG GUID 9(tp) Rank 1]  failure detected "
        "by watchdog at work sequence id: 6 PG status: last enqueued work: 6, last completed work: 6"
    ]
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [f.ranks for f in found] == [(1,)]
    assert "wait for it in another process group" in found[0].explanation


def test_call_log_and_ras_that_agree(tmp_path: Path) -> None:
    calls = [call(r, n) for n in range(15) for r in range(4) if r != 3 or n < 2]
    # So near to the end of a log its lines may just come later.
    _, found = judged(log(tmp_path / "run.log", *inits(), *calls[:17]))
    assert [(f.name, f.ranks, f.confidence.value) for f in found] == [("collective-not-reached", (3,), "low")]
    text = log(tmp_path / "run.log", *inits(), *calls)
    _, found = judged(text)
    assert [(f.name, f.ranks, f.confidence.value) for f in found] == [("collective-not-reached", (3,), "medium")]
    analysis, found = judged(text, ras(tmp_path / "ras.json", {0: 15, 1: 15, 2: 15, 3: 2}))
    assert [(f.name, f.ranks, f.hosts, f.confidence.value) for f in found] == [
        ("collective-not-reached", (3,), ("gpu02",), "high")
    ]
    assert not [f for f in analysis.findings if f.name == "ras-mismatch"]


def test_a_rank_that_prints_none_of_the_calls_that_all_others_print_issued_none(tmp_path: Path) -> None:
    _, found = judged(log(tmp_path / "run.log", *inits(), *(call(r, 0) for r in range(3))))
    assert [(f.name, f.ranks) for f in found] == [("collective-not-reached", (3,))]
    # Where half of the processes print none, calls are not logged there.
    _, found = judged(log(tmp_path / "run.log", *inits(), *(call(r, 0) for r in range(2))))
    assert found == []


REPORT = """\t - [0] Timeout at collective: ALLREDUCE, #5000
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
\t     [3] finished collective #4999, but didn't join collective #5000 (count from 1)"""


@pytest.mark.parametrize(("group", "late"), [(0, 3), (1, 7)])
def test_the_report_of_a_rank_names_others_by_their_numbers_in_its_group(tmp_path: Path, group: int, late: int) -> None:
    """Group 1 is of 4 neighbors: number 3 of the group of rank 4 is rank 7."""
    lines = [old_timeout(4 if group else 0, group, 0, 5000), REPORT]
    lines += [old_timeout(r, 1, r % 4, 5000) for r in (5, 6, 1, 2, 3)] if group else []
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [(f.name, f.ranks) for f in found] == [("rank-desync", (late,))]


def stack(path: Path, rank: int, *frames: str) -> None:
    shown = "".join(f"    {frame}\n" for frame in frames)
    path.write_text(f'Process {4000 + rank}: python3 train.py\nThread {4000 + rank} (active): "MainThread"\n{shown}')


@pytest.mark.parametrize("hangs", [True, False])
def test_the_stacks_of_a_job_that_hangs_show_who_is_not_in_a_collective(tmp_path: Path, hangs: bool) -> None:
    """The time-outs are of receives, which name nobody; of a job that runs, stacks prove nothing."""
    waits = [line.replace("ALLREDUCE", "RECV") for r in (0, 2) for line in timeout(r, 35, 35, 34, "2", "9(pp)")]
    for rank in range(4):
        frames = ["read (data.py:64)"] if rank == 1 else ["all_reduce (torch/distributed/distributed_c10d.py:2806)"]
        stack(tmp_path / f"py-spy_rank_{rank}.txt", rank, *frames, "main (train.py:90)")
    _, found = judged(log(tmp_path / "run.log", *inits(), *(waits if hangs else ())), str(tmp_path))
    assert [(f.ranks, f.hosts) for f in found] == ([((1,), ("gpu01",))] if hangs else [])
    assert not found or "read (data.py:64)" in found[0].observed


def grid_of_8(late: int, tensor_group: int, wait: str) -> list[str]:
    """2 x 4 ranks, tensor groups of 4 (PG 1) and data-parallel groups of 2 (PG 2): one rank does not come."""
    base = tensor_group * 4
    lines = [old_timeout(r, 1, r % 4, 5000 + tensor_group) for r in range(base, base + 4) if r != late]
    others = range(4) if base else range(4, 8)
    return [*lines, *(old_timeout(r, 2, r // 4, 800 + 7 * r, wait) for r in others)]


@pytest.mark.parametrize("late", range(8))
def test_the_rank_that_two_levels_of_groups_wait_for(tmp_path: Path, late: int) -> None:
    _, found = judged(log(tmp_path / "run.log", *grid_of_8(late, late // 4, "_REDUCE_SCATTER_BASE")))
    assert [f.ranks for f in found] == [(late,)]


def test_numbers_of_groups_that_share_a_name_are_not_compared(tmp_path: Path) -> None:
    """Both tensor groups wait in numbers of their own, as when data does not move."""
    lines = [old_timeout(r, 1, r % 4, 5000 + 300 * (r // 4)) for r in range(8)]
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [(f.name, f.ranks, f.confidence.value) for f in found] == [("collective-stalled", (), "low")]


def test_numbers_of_sends_and_receives_are_not_compared(tmp_path: Path) -> None:
    lines = [old_timeout(r, 3, r // 2, 70 + r, "RECV") for r in range(8) if r != 5]
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [f.ranks for f in found] == [(5,)]
    lines.append(old_timeout(5, 3, 2, 75, "RECV"))
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert found == []


def test_a_rank_alone_in_a_barrier_of_all_is_astray(tmp_path: Path) -> None:
    lines = [*grid_of_8(6, 1, "_REDUCE_SCATTER_BASE"), old_timeout(6, 0, 6, 12)]
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert [f.ranks for f in found] == [(6,)]


def test_operations_of_two_groups_in_another_order(tmp_path: Path) -> None:
    """Rank 2 calls the job's operation before that of its tensor group, ranks 0, 1 and 3 the other way around."""
    lines = [old_timeout(r, 1, r % 4, 5000) for r in (0, 1, 3)]
    lines += [old_timeout(r, 0, r, 12) for r in (2, 4, 5, 6, 7)]
    analysis, found = judged(log(tmp_path / "run.log", *lines))
    assert found == []
    (crossed,) = (f for f in analysis.findings if f.name == "collective-mismatch")
    assert crossed.ranks == (2,)
    assert "Another order" in crossed.title


@pytest.mark.parametrize(("lacking", "named"), [(3, []), (7, [(7,)])])
def test_elements_tell_the_size_of_a_group(tmp_path: Path, lacking: int, named: list[tuple[int, ...]]) -> None:
    """A gather of 4 times the elements has 4 members: the last rank of the job is told from one that is not there."""
    size = "NumelIn=16384, NumelOut=65536"
    lines = [old_timeout(r, 1, r % 4, 5000, "_ALLGATHER_BASE") for r in range(8 if lacking == 3 else 7)]
    _, found = judged(log(tmp_path / "run.log", *(x.replace("NumelIn=16384, NumelOut=16384", size) for x in lines)))
    assert [f.ranks for f in found if f.name == "collective-not-reached"] == named


def test_a_rank_that_gave_no_dump_and_waits_by_the_log_is_not_named(tmp_path: Path) -> None:
    waits = [line for r in range(4) for line in timeout(r, 35, 35, 34)]
    by_rank = {r: [done(34), entry(35)] for r in (0, 1, 2)}
    _, found = judged(log(tmp_path / "run.log", *waits), dumps(tmp_path / "dumps", by_rank))
    assert "rank-desync" not in [f.name for f in found]


def unnamed_timeout(number: int, seq: int) -> str:
    """A time-out of torch 2.0, whose lines name neither the group nor the rank of the job."""
    return (
        f"[E ProcessGroupNCCL.cpp:828] [Rank {number}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600065 milliseconds before timing out."
    )


def test_old_lines_of_several_groups_do_not_say_which_ranks_they_are_of(tmp_path: Path) -> None:
    lines = [*(unnamed_timeout(n, 5000) for n in (0, 1, 3)), *(unnamed_timeout(n, 800) for n in (0, 1, 4, 5))]
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert found == []


@pytest.mark.parametrize("late", [1, 6])
def test_files_of_ranks_tell_the_groups_that_old_lines_do_not_name(tmp_path: Path, late: int) -> None:
    """2 x 4 ranks, a file each: tensor groups of 4 stand at 5000, data-parallel groups of 2 at 800."""
    for rank in range(8):
        waits = unnamed_timeout(rank % 4, 5000) if rank // 4 == late // 4 else unnamed_timeout(rank // 4, 800)
        log(tmp_path / f"rank_{rank}.log", "starting", *([] if rank == late else [waits]))
    _, found = judged(str(tmp_path))
    assert [f.ranks for f in found] == [(late,)]


def test_an_earlier_attempt_does_not_mix_with_the_last_one(tmp_path: Path) -> None:
    """Without any line of NCCL: rank 1 was late before the workers began again, rank 3 is now."""
    again = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group"
    first, last = ([old_timeout(r, 0, r, seq) for r in range(6) if r != late] for late, seq in ((1, 40), (3, 20)))
    _, found = judged(log(tmp_path / "run.log", *first, again, *last))
    assert [(f.name, f.ranks) for f in found if f.name in HANGS] == [("collective-not-reached", (3,))]


def test_several_ranks_with_fewer_calls_are_not_named_where_each_may_wait_for_the_other(tmp_path: Path) -> None:
    calls = [call(r, n) for n in range(5) for r in range(6) if r > 1 or n < 2]
    _, found = judged(log(tmp_path / "run.log", *inits(6), *calls))
    assert [f.ranks for f in found] == [(0, 1)]
    # In another communicator both issued as much as rank 2, behind whom they may stand.
    for line in inits(6):
        calls.append(line.replace("0x55d0a", "0x66d0a").replace(f"0x{HASH}", "0x7b1f5f0c3d2e1b00"))
    calls += [call(r, 0).replace("0x55d0a", "0x66d0a") for r in range(6)]
    _, found = judged(log(tmp_path / "more.log", *inits(6), *calls))
    assert found == []


def test_ranks_that_lack_the_last_call_of_their_group_may_have_been_cut_off(tmp_path: Path) -> None:
    """Six ranks of eight issued the second call: the log may end before the other two did."""
    calls = [call(r, n) for n in range(2) for r in range(8) if n == 0 or r < 6]
    _, found = judged(log(tmp_path / "run.log", *inits(8), *calls))
    assert found == []


def test_of_several_silent_ranks_some_may_wait_themselves(tmp_path: Path) -> None:
    """Of 16 ranks with a file each two print nothing; the others wait in this and that."""
    for r in range(16):
        wait = timeout(r, 41 + r // 8, 42, 40, "1", str(20 + r // 8))
        log(tmp_path / f"rank{r}.log", "starting", *([] if r in (5, 11) else wait))
    _, found = judged(str(tmp_path))
    assert [(f.ranks, f.confidence.value) for f in found] == [((5, 11), "low")]


@pytest.mark.parametrize("nodes", [2, 3])
def test_more_silent_files_than_numbers_tell_not_who_is_silent(tmp_path: Path, nodes: int) -> None:
    """Ranks 0 to 4 and 6, 7 wait; of the files of two nodes one is silent, of those of three five are."""
    for n in range(4 * nodes):
        folder = tmp_path / f"node{n // 4}" / str(n % 4)
        folder.mkdir(parents=True)
        waits = timeout(n, 41 + n % 2, 42, 40, "1", str(20 + n % 2)) if n < 8 and n != 5 else []
        log(folder / "stderr.log", "starting", *waits)
    _, found = judged(str(tmp_path))
    assert [f.ranks for f in found] == ([(5,)] if nodes == 2 else [])


def test_a_dump_that_was_not_written_accuses_nobody_where_every_process_gave_up(tmp_path: Path) -> None:
    """The lines of torch 2.0 do not tell the group; the dumps of ranks 0, 2 and 3 do."""
    given = dumps(tmp_path / "dumps", {r: [done(34), entry(35)] for r in (0, 2, 3)})
    _, found = judged(given)
    assert [(f.ranks, f.confidence.value) for f in found] == [((1,), "low")]
    every = [log(tmp_path / f"node{n}.log", unnamed_timeout(n % 2, 35)) for n in range(4)]
    _, found = judged(given, *every)
    assert not [f for f in found if 1 in f.ranks]


def test_of_several_ranks_in_a_report_none_is_named_alone(tmp_path: Path) -> None:
    """Rank 3 may wait for rank 2 in another group, or rank 2 for rank 3."""
    report = REPORT.replace("[3] finished", "[2, 3] finished")
    _, found = judged(log(tmp_path / "run.log", old_timeout(0, 0, 0, 5000), report))
    assert [(f.name, f.ranks, f.confidence.value) for f in found] == [("rank-desync", (), "low")]


def test_time_outs_of_two_attempts_are_not_compared(tmp_path: Path) -> None:
    """Rank 3 was late in the first attempt, rank 1 in the second, and the file is one."""
    lives = [old_timeout(r, 0, r, n) for n, late in ((40, 3), (90, 1)) for r in range(4) if r != late]
    analysis, found = judged(log(tmp_path / "run.log", *lives))
    assert found == []
    assert "the time-outs of several attempts in one file" in str(analysis.not_judged)


def test_a_restart_between_time_outs_leaves_nothing_to_compare(tmp_path: Path) -> None:
    """Ranks 0-2 time out, then others of the next attempt: no rank twice."""
    says = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group"
    again = f"W0321 02:31:13.302000 112 torch/distributed/elastic/agent/server/api.py:900] {says}"
    lines = [*(old_timeout(r, 0, r, 40) for r in (0, 1, 2)), again, *(old_timeout(r, 0, r, 90) for r in (3, 4, 5))]
    _, found = judged(log(tmp_path / "run.log", *lines))
    assert found == []


def test_ras_blames_nobody_for_fewer_operations_where_orders_cross(tmp_path: Path) -> None:
    """Ranks 2 and 3 wait for each other; rank 1 may wait for rank 3 in a receive, which is not counted."""

    def group(name: str, counts: dict[int, int]) -> dict[str, object]:
        ranks = [
            {"rank": n, "host": "10.0.0.1", "pid": 4000 + r, "cuda_dev": r, "collective_counts": {"AllReduce": c}}
            for n, (r, c) in enumerate(counts.items())
        ]
        return {"hash": name, "size": len(ranks), "ranks_count": len(ranks), "missing_ranks_count": 0, "ranks": ranks,
                "missing_ranks": []}  # fmt: skip

    groups = [group("0x8a1f5f0c3d2e1b00", {0: 1, 1: 0, 2: 1, 3: 0}), group("0x8a1f5f0c3d2e1b02", {2: 1, 3: 2})]
    for second in (10, 40):
        (tmp_path / f"ras_{second}.json").write_text(json.dumps({
            "nccl_version": "2.28.9", "cuda_runtime_version": 12090, "cuda_driver_version": 12090,
            "timestamp": f"2026-06-19 05:06:{second}", "communicators_count": 2, "communicators": groups,
        }))  # fmt: skip
    run = nccl_insight.load([str(tmp_path)])
    assert verdict(run, RAS).waiting >= {2, 3}
    assert absences(run) == ()

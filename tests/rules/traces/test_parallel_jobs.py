"""Jobs with several parallel dimensions: the rank where a delay begins is named, and nobody in healthy ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.model import Finding
from nccl_insight.facts.lateness.replay import what_if
from tests import job_shapes
from tests.job_maker import Group, Layout, Op, Simulation, training
from tests.job_shapes import Plan

LATE = ("straggler-rank", "late-once", "collective-skew")


def said(simulation: Simulation, folder: Path, far: bool = False) -> dict[str, list[Finding]]:
    paths = simulation.write(folder, (lambda r: 1.7e6 * r) if far else (lambda _r: 0.0))
    found: dict[str, list[Finding]] = {}
    for finding in nccl_insight.analyze(nccl_insight.load(paths)).findings:
        found.setdefault(finding.name, []).append(finding)
    return found


def late(found: dict[str, list[Finding]]) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, f.ranks) for name in LATE for f in found.get(name, [])]


@pytest.mark.part(2)
@pytest.mark.parametrize("far", [False, True])
def test_tensor_data_and_pipeline_with_one_slow_rank(tmp_path: Path, far: bool) -> None:
    job = training(Layout(tp=2, dp=2, pp=2), slow=lambda r, _s: 1.2 if r == 5 else 1.0)
    found = said(job, tmp_path, far)
    assert late(found) == [("straggler-rank", (5,))]


@pytest.mark.part(3)
@pytest.mark.parametrize(
    ("layout", "overlap", "experts"),
    [(Layout(2, 2, 2), False, False), (Layout(2, 4, 2), True, False), (Layout(2, 4, 1), False, True)],
)
def test_healthy_jobs_are_silent(tmp_path: Path, layout: Layout, overlap: bool, experts: bool) -> None:
    found = said(training(layout, overlap=overlap, experts=experts), tmp_path)
    assert late(found) == []
    assert "busbw-outlier" not in found


def test_gradients_reduced_under_compute(tmp_path: Path) -> None:
    """Rank 7 waits for rank 6 in its tensor group and is late in its data group for that reason alone."""
    job = training(Layout(tp=2, dp=4, pp=1), slow=lambda r, _s: 1.15 if r == 6 else 1.0, overlap=True)
    assert late(said(job, tmp_path)) == [("straggler-rank", (6,))]


def test_experts_tensor_and_pipeline(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=2, pp=2), slow=lambda r, _s: 1.2 if r == 3 else 1.0, experts=True)
    assert late(said(job, tmp_path)) == [("straggler-rank", (3,))]


def test_sixteen_ranks_one_late_in_one_step(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=2, pp=4), slow=lambda r, s: 3.0 if (r, s) == (11, 3) else 1.0)
    found = said(job, tmp_path)
    assert late(found) == [("late-once", (11,))]
    assert "in step 3" in found["late-once"][0].title


def test_a_slow_link_between_two_stages_blames_no_rank(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=2, pp=4), link=lambda a, b: 8.0 if (a, b) == (5, 9) else 1.0)
    found = said(job, tmp_path)
    assert [f.ranks for f in found["busbw-outlier"]] == [(5, 9)]
    assert late(found) == []


@pytest.mark.parametrize(("factor", "expected"), [(1.3, [("straggler-rank", (2,))]), (1.0, [])])
def test_a_pipeline_without_any_collective(
    tmp_path: Path, factor: float, expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    slow = lambda r, _s: factor if r == 2 else 1.0  # noqa: E731
    job = training(Layout(tp=1, dp=1, pp=4), slow=slow, micro=8, final=False)
    assert late(said(job, tmp_path)) == expected


def test_lateness_that_moves_is_no_single_rank(tmp_path: Path) -> None:
    job = training(Layout(tp=2, dp=4, pp=1), steps=12, slow=lambda r, s: 1.5 if r == (3 * s) % 8 else 1.0)
    assert [name for name, _ in late(said(job, tmp_path))] == ["collective-skew"]


def slow(*ranks: int, factor: float = 1.2) -> Plan:
    return Plan(slow=lambda r, _s: factor if r in ranks else 1.0)


ALTERNATING = Layout(tp=2, dp=2, pp=4)
SHARDED = Layout(tp=2, dp=4, pp=2)
"""``pp`` counts the copies of the whole model."""


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (lambda: job_shapes.alternating(ALTERNATING, slow(9)), (9,)),
        (lambda: job_shapes.alternating(ALTERNATING, slow(4, 5, 6, 7, factor=1.3)), (4, 5, 6, 7)),
        (lambda: job_shapes.sharded(SHARDED, slow(13)), (13,)),
        (lambda: job_shapes.rings(SHARDED, slow(7)), (7,)),
        (lambda: job_shapes.gathered(Layout(2, 4, 1), slow(5, factor=1.25)), (5,)),
        (lambda: job_shapes.experts(SHARDED, slow(10, factor=1.25)), (10,)),
    ],
    ids=["alternating", "late stage", "sharded", "ring attention", "context parallel", "experts"],
)
def test_one_late_rank_or_stage_in_other_schedules(
    tmp_path: Path, job: Callable[[], Simulation], expected: tuple[int, ...]
) -> None:
    assert late(said(job(), tmp_path)) == [("straggler-rank", expected)]


@pytest.mark.part(3)
@pytest.mark.parametrize(
    "job",
    [
        lambda: job_shapes.alternating(ALTERNATING, Plan(jitter=0.05)),
        lambda: job_shapes.sharded(SHARDED, Plan(jitter=0.08)),
        lambda: job_shapes.experts(SHARDED, Plan(), varied=0.5),
    ],
    ids=["alternating", "sharded", "experts"],
)
def test_jitter_is_nobodys_fault(tmp_path: Path, job: Callable[[], Simulation]) -> None:
    found = said(job(), tmp_path)
    assert late(found) == []
    assert not {"busbw-outlier", "busbw-below-expected", "alltoall-imbalanced"} & set(found)


def test_one_rank_late_in_each_fourth_step(tmp_path: Path) -> None:
    """In a group of two one of two must be last; only the whole job shows that it is always the same rank."""
    pause = lambda r, s: 6000.0 if r == 6 and s % 4 == 2 else 0.0  # noqa: E731
    found = said(job_shapes.sharded(SHARDED, Plan(pause_us=pause, steps=16)), tmp_path)
    assert late(found) == [("straggler-rank", (6,))]
    assert "in steps 2, 6, 10, 14 of 16" in found["straggler-rank"][0].explanation


def test_the_gain_is_what_the_job_takes_less_without_the_late_rank(tmp_path: Path) -> None:
    job, twin = job_shapes.alternating(ALTERNATING, slow(9)), job_shapes.alternating(ALTERNATING, Plan())
    found = said(job, tmp_path)["straggler-rank"][0]
    before, after = map(float, re.findall(r"([\d.]+) ms", found.title))
    lost_us = max(r.now for r in job.ranks.values()) - max(r.now for r in twin.ranks.values())
    assert 6 * (before - after) == pytest.approx(lost_us / 1000, rel=0.1)


@pytest.mark.parametrize("late_us", [0.0, 900.0])
def test_the_delay_is_no_more_than_what_others_could_not_hide(tmp_path: Path, late_us: float) -> None:
    """The CPU of rank 2 is late in each layer. The others enter the next fetch early and compute under it, so they
    lose less than the time between the arrivals."""

    def job(late_us: float) -> Simulation:
        group = Group("shard", (0, 1, 2, 3))
        programs = {}
        for rank in group.ranks:
            made: list[tuple[int, Op]] = []
            for step in range(6):
                made.append((step, Op("collective", 150.0, group, "_allgather_base", 1 << 22)))
                for _ in range(6):
                    made.append((step, Op("collective", 150.0, group, "_allgather_base", 1 << 22, blocking=False)))
                    made.append((step, Op("idle", late_us if rank == 2 else 0.0)))
                    made += [(step, Op("compute", 500.0)), (step, Op("join"))]
            programs[rank] = made
        simulation = Simulation(programs, 4)
        simulation.run()
        return simulation

    slow = job(late_us)
    found = said(slow, tmp_path).get("straggler-rank", [])
    assert [f.ranks for f in found] == ([(2,)] if late_us else [])
    if found:
        end = lambda s: max(r.now for r in s.ranks.values())  # noqa: E731
        before, after = re.findall(r"([\d.]+) ms", found[0].title)[-2:]
        # One of six pauses of a step stands where the peers wait for the prefetch, too.
        assert 6 * (float(before) - float(after)) == pytest.approx((end(slow) - end(job(0.0))) / 1000, rel=0.2)


def test_a_send_in_the_background_holds_nobody_up(tmp_path: Path) -> None:
    """Rank 4 goes on while its slow sends run; that the others are in collectives meanwhile makes it no straggler."""
    link = lambda a, b: 12.0 if (a, b) == (4, 12) else 1.0  # noqa: E731
    job = job_shapes.decoding(SHARDED, Plan(link=link))
    paths = job.write(tmp_path, annotated=False)
    findings = {f.name: f for f in nccl_insight.analyze(nccl_insight.load(paths)).findings}
    assert findings["busbw-outlier"].ranks == (4, 12)
    assert "straggler-rank" not in findings


def test_a_late_rank_that_was_not_recorded_is_missing_and_nobody_else_is_blamed(tmp_path: Path) -> None:
    paths = job_shapes.alternating(ALTERNATING, slow(5, factor=1.3)).write(tmp_path, without=(5,))
    found = {f.name: f for f in nccl_insight.analyze(nccl_insight.load(paths)).findings}
    assert found["communicator-incomplete"].ranks == (5,)
    assert not {"straggler-rank", "busbw-outlier"} & set(found)


def test_lost_events_and_clocks_of_hosts_change_nothing(tmp_path: Path) -> None:
    job = job_shapes.alternating(ALTERNATING, slow(6))
    paths = job.write(
        tmp_path,
        clock_us=lambda r: 3.3e6 * (r // 4),
        host=lambda r: f"node{r // 4}",
        lost=lambda r: 0.01 if r in (3, 6) else 0.0,
    )
    found = {f.name: f for f in nccl_insight.analyze(nccl_insight.load(paths)).findings}
    assert found["straggler-rank"].ranks == (6,)


def test_transfers_without_their_other_side_are_said(tmp_path: Path) -> None:
    """Rank 3's profiler dropped every second event: sends to and from it have no other side."""
    job = job_shapes.rings(Layout(tp=1, dp=4, pp=1), Plan())
    run = nccl_insight.load(job.write(tmp_path, lost=lambda r: 0.5 if r == 3 else 0.0))
    table = run.table("collectives")
    alone = table.filter(table["op"].cast(pl.String).is_in(["Send", "Recv"]) & table["match_id"].is_null())
    said = [d for d in run.table("notes")["detail"] if "no other side" in d]
    assert len(said) == 1
    assert said[0].startswith(f"{alone.height:,} sends and receives")
    assert "rank 3" in said[0]
    whole = nccl_insight.load(job.write(tmp_path / "whole"))
    assert not [d for d in whole.table("notes")["detail"] if "no other side" in d]


def test_a_small_lateness_inside_a_stage_of_a_pipeline(tmp_path: Path) -> None:
    """Stages may do unequal work, the tensor and data groups of one stage may not."""
    job = job_shapes.alternating(Layout(2, 2, 2), Plan(slow=lambda r, _s: 1.08 if r == 5 else 1.0, steps=8))
    assert late(said(job, tmp_path / "a")) == [("straggler-rank", (5,))]
    uneven = job_shapes.alternating(Layout(1, 1, 4), Plan(slow=lambda r, _s: 1.03 if r == 3 else 1.0, steps=8))
    assert late(said(uneven, tmp_path / "b")) == []


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("slow", "expected", "words"),
    [
        (lambda a, b: (a // 2 == 2) != (b // 2 == 2), (4, 5), "of ranks 4-5 on node2 take"),
        (lambda a, b: {a // 2, b // 2} == {1, 2}, (2, 3, 4, 5), "of ranks 2-5 take"),
    ],
    ids=["node", "link"],
)
def test_a_slow_nic_names_its_node_and_a_slow_link_both_ends(
    tmp_path: Path, slow: Callable[[int, int], bool], expected: tuple[int, ...], words: str
) -> None:
    """With four stages on four nodes most pairs are slow when the NIC of an inner node is: no median tells it."""
    job = job_shapes.alternating(Layout(2, 1, 4), Plan(link=lambda a, b: 7.0 if slow(a, b) else 1.0))
    paths = job.write(tmp_path, host=lambda r: f"node{r // 2}")
    findings = [f for f in nccl_insight.analyze(nccl_insight.load(paths)).findings if f.name == "busbw-outlier"]
    assert [f.ranks for f in findings] == [expected]
    assert words in findings[0].title


def test_a_late_host_is_one_finding(tmp_path: Path) -> None:
    job = job_shapes.sharded(Layout(1, 4, 2), Plan(slow=lambda r, _s: 1.2 if r in (2, 3) else 1.0))
    paths = job.write(tmp_path, host=lambda r: f"node{r // 2}")
    findings = nccl_insight.analyze(nccl_insight.load(paths)).findings
    assert [(f.ranks, f.hosts) for f in findings if f.name == "straggler-rank"] == [((2, 3), ("node1",))]


@pytest.mark.parametrize("shape", [job_shapes.sharded, job_shapes.gathered])
def test_waiting_in_kernels_without_metadata_is_not_the_ranks_own(
    tmp_path: Path, shape: Callable[[Layout, Plan], Simulation]
) -> None:
    """Ranks 2 and 3 reduce with symmetric memory: rank 3 waits there for rank 2 and is late elsewhere."""
    job = shape(Layout(2, 4, 1), Plan(slow=lambda r, _s: 1.25 if r == 2 else 1.0))
    paths = job.write(tmp_path)
    for path in paths:
        content = json.loads(path.read_text())
        for item in content["traceEvents"]:
            if str(item["args"].get("Process Group Name", "")).startswith("tp"):
                item["name"] = "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 4>(x)"
                item["args"] = {k: item["args"][k] for k in ("device", "stream", "correlation")}
        path.write_text(json.dumps(content))
    findings = nccl_insight.analyze(nccl_insight.load(paths)).findings
    assert [(f.name, f.ranks) for f in findings if f.name in LATE] == [("straggler-rank", (2,))]


def test_a_lost_receive_makes_nobody_late(tmp_path: Path) -> None:
    """The trace of rank 5 lost a receive in which it waited long: what it did in that time is not known."""
    job = job_shapes.alternating(Layout(2, 2, 2), Plan(steps=6))
    paths = job.write(tmp_path)
    path = next(p for p in paths if p.name == "rank5.json")
    content = json.loads(path.read_text())
    waits = [e for e in content["traceEvents"] if e["args"].get("Collective name") == "recv"]
    longest = max(waits[6:], key=lambda e: float(e["dur"]))
    content["traceEvents"].remove(longest)
    path.write_text(json.dumps(content))
    findings = nccl_insight.analyze(nccl_insight.load(paths)).findings
    assert longest["dur"] > 1000
    assert [(f.name, f.ranks) for f in findings if f.name in LATE] == []


def test_numbers_that_nobody_has_are_not_lost(tmp_path: Path) -> None:
    """An operation without a kernel takes a number in every step, on all ranks alike."""
    job = job_shapes.alternating(Layout(2, 2, 2), Plan(slow=lambda r, _s: 1.2 if r == 6 else 1.0))
    paths = job.write(tmp_path)
    for path in paths:
        content = json.loads(path.read_text())
        for item in content["traceEvents"]:
            if "Seq" in item["args"]:
                item["args"]["Seq"] += item["args"]["Seq"] // 10
        path.write_text(json.dumps(content))
    findings = nccl_insight.analyze(nccl_insight.load(paths)).findings
    assert [(f.name, f.ranks) for f in findings if f.name in LATE] == [("straggler-rank", (6,))]


def test_waiting_in_a_tensor_group_is_not_the_ranks_own_where_shards_are_fetched_ahead(tmp_path: Path) -> None:
    """Rank 4 computes when the others already wait for the shards, because it waits for rank 5 in each layer."""
    job = job_shapes.fetched_under_tensor_groups(Layout(2, 8, 1), Plan(slow=lambda r, _s: 1.2 if r == 5 else 1.0))
    found = said(job, tmp_path)
    assert late(found) == [("straggler-rank", (5,))]


def test_what_waits_for_another_stream_is_not_late_by_itself(tmp_path: Path) -> None:
    """Ranks 8, 10 and 11 reduce over the copies only when rank 9 has come to the reduction over the shards."""
    job = job_shapes.replicated(Layout(4, 4, 1), Plan(slow=lambda r, _s: 1.2 if r == 9 else 1.0))
    found = said(job, tmp_path)
    assert late(found) == [("straggler-rank", (9,))]
    assert late(said(job_shapes.replicated(Layout(4, 4, 1), Plan(jitter=0.03)), tmp_path / "healthy")) == []


def test_clocks_of_unknown_hosts_that_drift_make_nobody_late(tmp_path: Path) -> None:
    """One group, no host names: kernels end together, and the clocks run apart by up to 1.4 ms a second."""
    job = training(Layout(1, 8, 1), steps=20, final=False, overlap=True, seed=4)
    for path in job.write(tmp_path):
        content = json.loads(path.read_text())
        rank = content["distributedInfo"]["rank"]
        for item in content["traceEvents"]:
            item["ts"] += (item["ts"] - 1000.0) * 200e-6 * rank
        path.write_text(json.dumps(content))
    found = nccl_insight.analyze(nccl_insight.load(sorted(tmp_path.glob("*.json")))).findings
    assert [f.name for f in found if f.name in LATE] == []


def test_steps_that_grow_because_of_a_late_rank_follow_from_it(tmp_path: Path) -> None:
    job = training(Layout(1, 8, 1), steps=16, slow=lambda r, s: 1.4 if r == 6 and s >= 8 else 1.0, overlap=True)
    found = said(job, tmp_path)
    assert late(found) == [("straggler-rank", (6,))]
    assert [(f.ranks, f.caused_by) for f in found["step-regression"]] == [((6,), "straggler-rank")]


def _renumbered(paths: list[Path]) -> list[Path]:
    """Each rank counts all its sends and receives together, in the order of their launches, as torch does."""
    for path in paths:
        content = json.loads(path.read_text())
        moves = [e for e in content["traceEvents"] if e["args"].get("Collective name") in ("send", "recv")]
        for number, item in enumerate(sorted(moves, key=lambda e: e["args"]["correlation"]), 1):
            item["args"]["Seq"] = number
        path.write_text(json.dumps(content))
    return paths


@pytest.mark.part(3)
@pytest.mark.parametrize("layout", [Layout(1, 1, 4), Layout(1, 2, 4), Layout(2, 1, 4)], ids=str)
def test_ranks_that_number_all_their_transfers_together_lose_none(tmp_path: Path, layout: Layout) -> None:
    """All forward, then all backward: the two ends of a pair have unlike numbers, nowhere in a regular way."""
    stage = tuple(layout.rank(2, copy, place) for copy in range(layout.dp) for place in range(layout.tp))
    job = training(layout, micro=8, slow=lambda r, _s: 1.4 if r in stage else 1.0, final=False)
    paths = _renumbered(job.write(tmp_path))
    findings = nccl_insight.analyze(nccl_insight.load(paths)).findings
    assert [f.ranks for f in findings if f.name == "straggler-rank"] == [stage]


def test_one_of_two_hosts_is_late_in_few_steps(tmp_path: Path) -> None:
    """In every group that spans the hosts two of four ranks are late, so they hide each other; being last in five of
    five steps is no proof where only two hosts can be last, but being later by as much each time is."""
    job = job_shapes.replicated(Layout(2, 4, 1), Plan(slow=lambda r, _s: 1.25 if r >= 4 else 1.0, steps=6))
    paths = job.write(tmp_path, host=lambda r: f"node{r // 4}")
    findings = nccl_insight.analyze(nccl_insight.load(paths)).findings
    assert [(f.ranks, f.hosts) for f in findings if f.name == "straggler-rank"] == [((4, 5, 6, 7), ("node1",))]


@pytest.mark.parametrize("late_ranks", [(0, 2, 4, 6), (4, 5, 6, 7)], ids=str)
def test_the_later_half_of_equal_ranks_is_named(tmp_path: Path, late_ranks: tuple[int, ...]) -> None:
    job = _under_backward(lambda r, _s: 1.2 if r in late_ranks else 1.0)
    assert late(said(job, tmp_path)) == [("straggler-rank", late_ranks)]


def test_two_of_four_hosts_are_late(tmp_path: Path) -> None:
    """Copies over hosts: in each such group two of four are late, and all the late ones are two whole hosts."""
    job = job_shapes.replicated(Layout(2, 4, 1), Plan(slow=lambda r, _s: 1.25 if 2 <= r < 6 else 1.0, steps=8))
    paths = job.write(tmp_path, host=lambda r: f"node{r // 2}")
    findings = nccl_insight.analyze(nccl_insight.load(paths)).findings
    found = [(f.ranks, f.hosts) for f in findings if f.name == "straggler-rank"]
    assert found == [((2, 3, 4, 5), ("node1", "node2"))]


def _late_cpu(late_us: float) -> Simulation:
    """Blocking reductions in tensor pairs, gradients over data pairs behind each other under compute; rank 3's CPU is
    late before each kernel."""
    pairs = {
        r: (Group(f"tp{r // 2}", (r // 2 * 2, r // 2 * 2 + 1)), Group(f"dp{r % 2}", (r % 2, r % 2 + 2)))
        for r in range(4)
    }
    programs = {}
    for rank, (tensor, data) in pairs.items():
        made: list[tuple[int, Op]] = []
        for step in range(12):
            for layer in range(6):
                made.append((step, Op("idle", late_us if rank == 3 else 0.0)))
                made.append((step, Op("compute", 500.0)))
                if layer > 2:
                    made.append((step, Op("collective", 260.0, data, "allreduce", 1 << 22, blocking=False)))
                made.append((step, Op("collective", 40.0, tensor, "allreduce", 1 << 20)))
            made += [(step, Op("join")), (step, Op("compute", 150.0))]
        programs[rank] = made
    simulation = Simulation(programs, 4)
    simulation.run()
    return simulation


def _records_of_inspector(simulation: Simulation, folder: Path) -> list[Path]:
    """Durations of collectives by communicator, without any time at which they began."""
    folder.mkdir()
    paths = []
    for number, rank in simulation.ranks.items():
        lines = []
        for event in sorted((e for e in rank.events if "Process Group Name" in e["args"]), key=lambda e: e["ts"]):
            args, took = event["args"], round(event["dur"])
            members = json.loads(args["Process Group Ranks"])
            size, n = 2 * args["In msg nelems"], len(members)
            name = "".join(f"{ord(c):02x}" for c in args["Process Group Name"])
            lines.append({
                "header": {"id": f"0x{name}", "rank": members.index(number), "n_ranks": n, "nnodes": 1},
                "metadata": {
                    "inspector_output_format_version": "v4.2", "git_rev": "", "hostname": "node0",
                    "rec_mechanism": "nccl_profiler_interface", "pid": 6000 + number,
                    "dump_timestamp_us": 1_790_000_000_000_000 + int(event["ts"]),
                },
                "coll_perf": {
                    "coll": "AllReduce", "coll_sn": args["Seq"], "coll_msg_size_bytes": size,
                    "coll_exec_time_us": took, "coll_timing_source": "kernel_gpu",
                    "coll_algobw_gbs": size / took / 1000, "coll_busbw_gbs": size / took / 1000 * 2 * (n - 1) / n,
                },
            })  # fmt: skip
        paths.append(folder / f"node0-pid{6000 + number}.log")
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    return paths


def test_without_times_nobody_is_named_in_several_groups(tmp_path: Path) -> None:
    """Each rank is in a tensor pair, in a data pair and in the world. Rank 3 is late in all of them; rank 2 is late in
    its data pair by what it waited in its tensor pair, which records without starts cannot tell."""
    world = Group("world", (0, 1, 2, 3))
    job = _late_cpu(900.0)
    programs = {r: [] for r in job.ranks}  # type: dict[int, list[tuple[int, Op]]]
    for rank, state in job.ranks.items():
        for step, op in state.program:
            programs[rank].append((step, op))
            if op.kind == "join":
                programs[rank].append((step, Op("collective", 20.0, world, "allreduce", 2)))
    simulation = Simulation(programs, 4)
    simulation.run()
    run = nccl_insight.load(_records_of_inspector(simulation, tmp_path / "i"))
    assert "several process groups" in what_if(run).refused
    assert not [f for f in nccl_insight.analyze(run).findings if f.name in LATE]


def _under_backward(slow: Callable[[int, int], float]) -> Simulation:
    """Six gradients a step in one stream, reduced while the rest of the backward pass runs."""
    group, programs = Group("0", tuple(range(8))), {}
    for rank in group.ranks:
        made: list[tuple[int, Op]] = []
        for step in range(16):
            for _ in range(4):
                made.append((step, Op("compute", 400.0 * slow(rank, step))))
            for _ in range(6):
                made.append((step, Op("compute", 400.0 * slow(rank, step))))
                made.append((step, Op("collective", 180.0, group, "allreduce", 1 << 23, blocking=False)))
            made += [(step, Op("join")), (step, Op("compute", 150.0))]
        programs[rank] = made
    simulation = Simulation(programs, 8)
    simulation.run()
    return simulation


def test_two_ranks_in_turn_cost_what_the_steps_took_longer(tmp_path: Path) -> None:
    """Each bucket of a step shows the lateness anew, while the others compute: only what nobody hides is a cost."""
    job = _under_backward(lambda r, s: 1.3 if r == (1 if s < 8 else 3) else 1.0)
    found = said(job, tmp_path)["straggler-rank"]
    assert sorted(f.ranks for f in found) == [(1,), (3,)]
    end = lambda s: max(r.now for r in s.ranks.values())  # noqa: E731
    cost_ms = (end(job) - end(_under_backward(lambda _r, _s: 1.0))) / 1000
    times = [map(float, re.findall(r"([\d.]+) ms", f.title)) for f in found]
    said_ms = 16 * sum(before - after for before, after in times)
    assert said_ms == pytest.approx(cost_ms, rel=0.25)


def test_an_exchange_takes_as_long_as_its_largest_part(tmp_path: Path) -> None:
    """One expert gets five times the tokens of another in one of six exchanges: no transfer is slow."""
    group, programs, tokens = Group("ep", (0, 1, 2, 3)), {}, 1 << 20
    for rank in group.ranks:
        made: list[tuple[int, Op]] = []
        for step in range(12):
            for layer in range(6):
                share = [5.0, 1.0, 1.0, 1.0] if layer == 4 else [1.0] * 4
                parts = [round(tokens * s / sum(share)) for s in share]
                sent = {"In split size": str(parts), "Out split size": str([parts[rank]] * 4)}
                worst = 4 * max(parts) / tokens
                made.append((step, Op("compute", 300.0)))
                made.append((step, Op("collective", 200.0 * worst, group, "all_to_allv", tokens, extra=dict(sent))))
        programs[rank] = made
    simulation = Simulation(programs, 4)
    simulation.run()
    found = said(simulation, tmp_path)
    assert "busbw-outlier" not in found

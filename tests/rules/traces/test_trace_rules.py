"""Matching over ranks, and the rules about traces, on synthetic jobs with planted causes."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from nccl_insight.base.model import Hit
from nccl_insight.facts.lateness.replay import what_if
from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.kineto import format as kineto
from nccl_insight.rules import discover
from nccl_insight.rules._traces import on_one_node
from nccl_insight.tables import match as _match
from nccl_insight.tables.run import Run, build_run
from tests import runs
from tests.trace_maker import all_reduce, event, job, trace, write

SHARED = runs.SHARED / "traces"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "traces"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="reference traces : set NCCL_INSIGHT_REFERENCE_DATA")


def load(paths: list[Path]) -> Run:
    files = find_inputs([str(p) for p in paths])
    parts = [kineto.read(f) for f in files]
    names = {n for p in parts for n in p.tables}
    tables = {
        n: pl.concat([p.tables[n] for p in parts if n in p.tables and p.tables[n].width], how="diagonal_relaxed")
        for n in names
    }
    tables["inputs"] = pl.DataFrame(
        {"input_id": [f.input_id for f in files], "path": [f.display for f in files]},
        schema_overrides={"input_id": pl.UInt16},
    )
    return build_run(_match.finish(tables))


def hits(run: Run) -> dict[str, list[Hit]]:
    """Findings of the rules about performance and traces, by name."""
    found: dict[str, list[Hit]] = {}
    for rule in discover():
        if rule.code[2] in "469" and any(run.has(t) for t in rule.needs):
            made = [h for h in rule.check(run) if isinstance(h, Hit)]
            if made:
                found[rule.name] = made
    return found


def test_healthy_job_is_silent(tmp_path: Path) -> None:
    found = hits(load(job(tmp_path)))
    assert not set(found) & {"straggler-rank", "collective-skew", "busbw-outlier", "clocks-not-comparable"}


@pytest.mark.part(2)
@pytest.mark.parametrize("seed", range(4))
def test_rank_late_in_one_of_ten_iterations_is_named(tmp_path: Path, seed: int) -> None:
    chosen = set(random.Random(seed).sample(range(200), 20))
    run = load(job(tmp_path, 8, 200, late=lambda r, i: 2000.0 if r == 5 and i in chosen else 0.0, seed=seed))
    found = hits(run)
    assert [h.ranks for h in found["straggler-rank"]] == [(5,)]
    assert "busbw-outlier" not in found
    assert what_if(run).gains[0].alone_ns == pytest.approx(20 * 2_000_000, rel=0.1)


@pytest.mark.part(2)
@pytest.mark.parametrize("seed", range(4))
def test_slow_transfer_blames_no_rank(tmp_path: Path, seed: int) -> None:
    chosen = set(random.Random(seed).sample(range(200), 20))
    found = hits(load(job(tmp_path, 8, 200, slow=lambda i: 2000.0 if i in chosen else 0.0, seed=seed)))
    assert "straggler-rank" not in found
    assert [h.ranks for h in found["busbw-outlier"]] == [()]
    assert "20 of 200" in found["busbw-outlier"][0].title


def test_messages_of_unknown_size_are_not_compared(tmp_path: Path) -> None:
    def kernel(i: int, rank: int) -> dict[str, Any]:
        long = 3000.0 if i % 10 == 0 else 200.0
        return event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(x)", 5000.0 * i + rank, long, device=0, stream=3)

    paths = [write(tmp_path / f"t{r}.json", trace(r, 2, [kernel(i, r) for i in range(100)])) for r in range(2)]
    assert "busbw-outlier" not in hits(load(paths))


def test_one_slow_group(tmp_path: Path) -> None:
    """Three pairs take 300 us, one 900 us for the same message; then all meet, so that it costs each of them 600 us."""
    paths = []
    for r in range(8):
        pair = [r // 2 * 2, r // 2 * 2 + 1]
        events = []
        for i in range(10):
            at, long = 5000.0 * i + r % 2, 900.0 if r in (4, 5) else 300.0
            events.append(event("kernel", "gemm", at - 3000, 2990.0, device=0, stream=7))
            events.append(all_reduce(at, long, 1 << 20, pair, seq=2 * i))
            events.append(all_reduce(at + long, 1000.0 - long, 1 << 10, list(range(8)), seq=2 * i + 1))
        paths.append(write(tmp_path / f"t{r}.json", trace(r, 8, events)))
    (found,) = hits(load(paths))["busbw-outlier"]
    assert found.ranks == (4, 5)
    assert "3.0 times as long" in found.title


def test_rank_that_is_always_late(tmp_path: Path) -> None:
    found = hits(load(job(tmp_path, 4, 20, late=lambda r, _i: 500.0 if r == 2 else 0.0)))
    assert [h.ranks for h in found["straggler-rank"]] == [(2,)]


@pytest.mark.parametrize("steps", [4, 5, 7])
def test_few_steps(tmp_path: Path, steps: int) -> None:
    """Four steps can tell, but only if the delays are those of one rank."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    found = hits(load(job(tmp_path / "one", 4, steps, late=lambda r, _i: 900.0 if r == 2 else 0.0)))
    assert [h.ranks for h in found["straggler-rank"]] == [(2,)]
    found = hits(load(job(tmp_path / "other", 4, steps, late=lambda r, i: 900.0 if r == i % 2 else 0.0)))
    assert "straggler-rank" not in found


def test_without_steps_single_collectives_are_counted(tmp_path: Path) -> None:
    found = hits(load(job(tmp_path, 4, 40, late=lambda r, _i: 500.0 if r == 1 else 0.0, steps=False)))
    assert [h.ranks for h in found["straggler-rank"]] == [(1,)]
    assert "what was recorded takes" in found["straggler-rank"][0].title


def test_one_long_delay_of_another_rank_does_not_hide_the_straggler(tmp_path: Path) -> None:
    """A profiler that starts late on rank 0 costs more than rank 2 does in all the rest."""

    def late(rank: int, iteration: int) -> float:
        return 60_000.0 if (rank, iteration) == (0, 0) else 500.0 if rank == 2 and iteration else 0.0

    found = hits(load(job(tmp_path, 4, 40, late=late, steps=False)))
    assert [h.ranks for h in found["straggler-rank"]] == [(2,)]


def test_lateness_that_moves_is_skew_not_a_straggler(tmp_path: Path) -> None:
    rng = random.Random(3)
    guilty = [rng.randrange(8) for _ in range(200)]
    found = hits(load(job(tmp_path, 8, 200, late=lambda r, i: 1500.0 if r == guilty[i] else 0.0)))
    assert "straggler-rank" not in found
    assert "collective-skew" in found


def test_hosts_without_a_common_clock(tmp_path: Path) -> None:
    """Clocks 5 ms apart: no skew is given, and the late rank is still found by durations."""
    paths = job(
        tmp_path,
        4,
        60,
        late=lambda r, _i: 400.0 if r == 3 else 0.0,
        host=lambda r: f"node-{r // 2}",
        clock_us=lambda r: 5000.0 * (r // 2),
    )
    run = load(paths)
    table = run.table("collectives")
    assert table["skew_ns"].null_count() == table.height
    assert table["min_duration_ns"].null_count() == 0
    found = hits(run)
    assert "clocks-not-comparable" in found
    assert [h.ranks for h in found["straggler-rank"]] == [(3,)]


def test_a_whole_host_is_late(tmp_path: Path) -> None:
    """Ranks 2 and 3 of node-1 are late together: the host is named, on one clock or none."""
    for name, shift in (("clock", 0.0), ("no-clock", 7000.0)):
        (tmp_path / name).mkdir()
        found = hits(
            load(
                job(
                    tmp_path / name,
                    6,
                    40,
                    late=lambda r, _i: 800.0 if r in (2, 3) else 0.0,
                    host=lambda r: f"node-{r // 2}",
                    clock_us=lambda r, s=shift: s * (r // 2),  # type: ignore[misc]
                )
            )
        )
        assert [(h.ranks, h.hosts) for h in found["straggler-rank"]] == [((2, 3), ("node-1",))]
        assert "collective-skew" not in found


def test_unknown_hosts_are_comparable_only_if_ends_agree(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    equal = load(job(tmp_path / "a", 3, 20, host=lambda _r: None)).table("collectives")
    apart = load(job(tmp_path / "b", 3, 20, host=lambda _r: None, clock_us=lambda r: 900.0 * r)).table("collectives")
    assert equal["skew_ns"].null_count() == 0
    assert apart["skew_ns"].null_count() == apart.height


def _runs(tmp_path: Path, events: dict[int, list[dict[str, Any]]], **header: Any) -> pl.DataFrame:
    paths = [write(tmp_path / f"t{r}.json", trace(r, len(events), e, **header)) for r, e in events.items()]
    return load(paths).table("collectives")


def test_sequence_numbers_match_in_spite_of_a_missing_event(tmp_path: Path) -> None:
    ranks = [0, 1]
    events = {r: [all_reduce(100.0 * i, 50.0 - 10 * r, 64, ranks, seq=i) for i in range(10)] for r in ranks}
    del events[1][4]
    rows = _runs(tmp_path, events)
    pairs = rows.filter(pl.col("match_id").is_not_null()).group_by("match_id").agg("seq", "start_ns", "match_method")
    assert pairs.height == 9
    assert all(len(set(p)) == 1 for p in pairs["seq"])
    assert rows.filter(pl.col("seq") == 4)["match_id"].to_list() == [None]
    assert set(rows["min_duration_ns"].drop_nulls()) == {40_000}


def test_without_numbers_a_missing_event_does_not_shift_the_rest(tmp_path: Path) -> None:
    """All messages alike: order proves nothing; the common clock of one host does."""
    ranks = [0, 1]
    events = {r: [all_reduce(100.0 * i + r, 50.0 - r, 64, ranks) for i in range(10)] for r in ranks}
    del events[1][4]
    rows = _runs(tmp_path, events)
    matched = rows.filter(pl.col("match_id").is_not_null())
    assert matched.height == 18
    spread = matched.group_by("match_id").agg(pl.col("start_ns").max() - pl.col("start_ns").min())
    assert set(spread["start_ns"]) == {1000}
    assert set(matched["match_method"].cast(pl.String)) == {"time"}


def test_without_numbers_and_clock_nothing_is_matched(tmp_path: Path) -> None:
    ranks = [0, 1]
    events = {r: [all_reduce(100.0 * i + r, 50.0 - r, 64, ranks) for i in range(10)] for r in ranks}
    del events[1][4]
    paths = [write(tmp_path / f"t{r}.json", trace(r, 2, events[r], host_name=f"h{r}")) for r in ranks]
    run = load(paths)
    assert run.table("collectives")["min_duration_ns"].null_count() == 19
    assert "could not be matched" in "".join(run.table("notes")["detail"])


def test_steps_anchor_the_order_when_one_rank_recorded_less(tmp_path: Path) -> None:
    def step(i: int) -> list[dict[str, Any]]:
        mark = event("user_annotation", f"ProfilerStep#{i}", 1000.0 * i, 990.0)
        return [mark, all_reduce(1000.0 * i + 100, 50, 64, [0, 1]), all_reduce(1000.0 * i + 300, 50, 64, [0, 1])]

    events = {0: [e for i in range(6) for e in step(i)], 1: [e for i in range(1, 6) for e in step(i)]}
    paths = [write(tmp_path / f"t{r}.json", trace(r, 2, e, host_name=f"h{r}")) for r, e in events.items()]
    rows = load(paths).table("collectives")
    assert rows.filter(pl.col("match_id").is_null())["step"].to_list() == [0, 0]
    pairs = rows.filter(pl.col("match_id").is_not_null()).group_by("match_id").agg(pl.col("start_ns").n_unique())
    assert set(pairs["start_ns"]) == {1}


def test_groups_of_different_ranks_with_one_name_stay_apart(tmp_path: Path) -> None:
    events = {
        r: [all_reduce(100.0 * i, 50.0, 64, [0, 1] if r < 2 else [2, 3], seq=i) for i in range(5)] for r in range(4)
    }
    rows = _runs(tmp_path, events)
    sets = rows.group_by("match_id").agg(pl.col("rank").sort())["rank"].to_list()
    assert sorted(map(tuple, sets)) == [(0, 1)] * 5 + [(2, 3)] * 5


def test_one_file_given_twice_changes_nothing(tmp_path: Path) -> None:
    paths = job(tmp_path, 2, 30)
    copy = tmp_path / "copy.json"
    copy.write_bytes(paths[0].read_bytes())
    rows = load([*paths, copy]).table("collectives")
    assert rows["match_id"].drop_nulls().n_unique() == 30


def test_exposed_and_dominating_communication(tmp_path: Path) -> None:
    """Per step of 10 ms: 4 ms compute, then 5 ms of communication that nothing hides."""
    events: list[dict[str, Any]] = []
    for i in range(5):
        at = 10_000.0 * i
        events.append(event("user_annotation", f"ProfilerStep#{i}", at, 10_000.0))
        events.append(event("kernel", "gemm", at, 4000.0, device=0, stream=7))
        events.append(all_reduce(at + 4000, 5000.0, 1 << 20, [0, 1]))
    found = hits(load([write(tmp_path / "t.json", trace(0, 2, events))]))
    assert "50%" in found["exposed-communication"][0].title
    assert "no-overlap" in found
    assert "comm-dominates-step" in found
    hidden = [e if e["name"] != "gemm" else {**e, "ts": e["ts"] + 4000, "dur": 5500.0} for e in events]
    found = hits(load([write(tmp_path / "t.json", trace(0, 2, hidden))]))
    assert "exposed-communication" not in found
    assert "no-overlap" not in found


def test_pageable_copies_on_the_critical_path(tmp_path: Path) -> None:
    def made(kind: str, copy_at: float) -> set[str]:
        events = [
            event("kernel", "gemm", 0.0, 50_000.0, device=0, stream=7),
            event("kernel", "gemm", 60_000.0, 40_000.0, device=0, stream=7),
            event("gpu_memcpy", f"Memcpy HtoD ({kind} -> Device)", copy_at, 5000.0, device=0, stream=9, bytes=1 << 20),
        ]
        return set(hits(load([write(tmp_path / "t.json", trace(0, 1, events))])))

    assert "pageable-copies" in made("Pageable", 52_000.0)
    assert "pageable-copies" not in made("Pinned", 52_000.0)
    assert "pageable-copies" not in made("Pageable", 10_000.0)


def test_bus_bandwidth_against_the_link(tmp_path: Path) -> None:
    """64 MiB AllReduce on 8 H100 of one node, which reach 350 GB/s and more in benchmarks."""

    def made(duration_us: float, world: int, recorded: int) -> set[str]:
        paths = []
        for r in range(recorded):
            events = [all_reduce(5000.0 * i, duration_us, 1 << 24, list(range(world))) for i in range(20)]
            paths.append(write(tmp_path / f"t{r}.json", trace(r, world, events, host_name=f"n{r // 8}")))
        return set(hits(load(paths)))

    # 64 MiB x 1.75 / 1300 us = 90 GB/s; / 350 us = 336 GB/s
    assert "busbw-below-expected" in made(1300.0, 8, 8)
    assert "busbw-below-expected" not in made(350.0, 8, 8)
    # the time of those recorded may be waiting for those that were not
    assert "busbw-below-expected" not in made(1300.0, 8, 7)
    # 16 ranks cannot be one node of 8 GPUs, and no log tells the NICs: not judged
    assert "busbw-below-expected" not in made(1300.0, 16, 16)


@pytest.mark.parametrize(
    ("durations_us", "said", "ranks"),
    [
        ((1300.0, 1600.0), "in 2 groups of 8 ranks reaches 90", range(16)),
        ((1300.0, 350.0, 1600.0), "in 2 of 3 groups of 8 ranks", (*range(8), *range(16, 24))),
    ],
)
def test_equal_groups_that_are_slow_are_one_finding(
    tmp_path: Path, durations_us: tuple[float, ...], said: str, ranks: Iterable[int]
) -> None:
    """A group on each host; 64 MiB x 1.75 / 1300 us = 90 GB/s, / 1600 us = 73 GB/s."""
    paths, world = [], 8 * len(durations_us)
    for r in range(world):
        group = list(range(r // 8 * 8, r // 8 * 8 + 8))
        events = [all_reduce(5000.0 * i, durations_us[r // 8], 1 << 24, group) for i in range(20)]
        paths.append(write(tmp_path / f"t{r}.json", trace(r, world, events, host_name=f"n{r // 8}")))
    (hit,) = hits(load(paths))["busbw-below-expected"]
    assert said in hit.title
    assert set(hit.ranks) == set(ranks)
    assert "the slowest, ranks" in hit.explanation
    assert "reaches 73" in hit.explanation


def _log_tables(transport: str) -> dict[str, pl.DataFrame]:
    """A log of 4 ranks on one host: the whole job in communicator 0xaa, ranks 2 and 3 also in 0xbb."""
    whole = [("0xaa", "node-a", 100 + r, r, 4, r) for r in range(4)]
    pair = [("0xbb", "node-a", 102 + r, r, 2, 2 + r) for r in range(2)]
    ranks = pl.DataFrame(whole + pair, schema=["comm_id", "host", "pid", "rank", "nranks", "cuda_dev"], orient="row")
    tuning = pl.DataFrame(
        {"comm_id": ["0xbb", "0xbb"], "op": ["AllReduce"] * 2, "size_bytes": [256, 512],
         "algorithm": ["Ring", "Tree"], "protocol": ["LL", "LL128"]}
    )  # fmt: skip
    connections = pl.DataFrame(
        {
            "comm_id": ["0xaa"] * 2,
            "src_rank": [0, 1],
            "dst_rank": [1, 2],
            "transport": [transport] * 2,
            "gdr": [None, None],
        },
        schema_overrides={"gdr": pl.Boolean},
    )
    return {"ranks": ranks, "tuning_choice": tuning, "connections": connections}


def test_groups_are_joined_with_communicators_of_the_log(tmp_path: Path) -> None:
    """Ranks 0 and 1 of communicator 0xbb are ranks 2 and 3 of the job."""
    events = [
        all_reduce(1.0, 5.0, 64, [2, 3]),
        all_reduce(11.0, 5.0, 64, [0, 1, 2, 3]),
        all_reduce(21.0, 5.0, 64, [0, 1]),
    ]
    part = kineto.read(find_inputs([str(write(tmp_path / "t.json", trace(2, 4, events)))])[0])
    run = build_run(_match.finish({**part.tables, **_log_tables("SHM")}))
    rows = run.table("collectives").sort("start_ns")
    assert rows["comm_id"].to_list() == ["0xbb", "0xaa", None]
    assert rows.select("algorithm", "protocol").rows() == [("Ring", "LL"), (None, None), (None, None)]


def test_slow_collectives_are_explained_by_the_transport(tmp_path: Path) -> None:
    parts = []
    for r in range(4):
        events = [all_reduce(5000.0 * i, 1300.0, 1 << 24, [0, 1, 2, 3]) for i in range(20)]
        path = write(tmp_path / f"t{r}.json", trace(r, 4, events))
        parts.append(kineto.read(find_inputs([str(path)])[0]).tables)
    names = {n for p in parts for n in p if p[n].width}
    tables = {n: pl.concat([p[n] for p in parts], how="diagonal_relaxed") for n in names}
    found = hits(build_run(_match.finish({**tables, **_log_tables("SHM")})))
    assert "SHM 100%" in found["busbw-below-expected"][0].explanation


def test_unequal_all_to_all(tmp_path: Path) -> None:
    def made(split: str) -> set[str]:
        events = []
        for i in range(12):
            item = all_reduce(1000.0 * i, 100.0, 400_000, [0, 1, 2, 3])
            item["name"] = "ncclDevKernel_SendRecv(x)"
            item["args"] |= {"Collective name": "all_to_allv", "In split size": split}
            events.append(item)
        return set(hits(load([write(tmp_path / "t.json", trace(0, 4, events))])))

    assert "alltoall-imbalanced" in made("[300000, 40000, 30000, 30000]")
    assert "alltoall-imbalanced" not in made("[110000, 90000, 100000, 100000]")


def test_small_collectives(tmp_path: Path) -> None:
    def made(elements: int) -> set[str]:
        events = [all_reduce(100.0 * i, 20.0, elements, [0, 1]) for i in range(400)]
        return set(hits(load([write(tmp_path / "t.json", trace(0, 2, events))])))

    assert "too-many-small-collectives" in made(256)
    assert "too-many-small-collectives" not in made(1 << 22)


@needs_shared
def test_dlrm_verdict_as_the_reference() -> None:
    """TraceLens: rank 7 arrives last in 5 of 8; HTA: overlap of each rank."""
    run = load(sorted((SHARED / "dlrm_v100_8rank").glob("*.json.gz")))
    found = hits(run)["straggler-rank"]
    assert [h.ranks for h in found] == [(7,)]
    assert "5 of 8" in found[0].title
    hta = {0: 4.5, 1: 2.47, 2: 7.88, 3: 3.31, 4: 0.56, 5: 0.64, 6: 7.56, 7: 9.51}
    steps = dict(run.table("steps").select("rank", "overlap_pct").iter_rows())
    assert steps == pytest.approx(hta, abs=0.01)


def test_recorded_gloo_jobs() -> None:
    """One job without a planted fault, one in which rank 2 slept 30 ms before each backward pass."""
    found = hits(load(sorted((FIXTURES / "gloo_healthy").glob("rank*.json.gz"))))
    assert not set(found) & {"straggler-rank", "busbw-outlier", "clocks-not-comparable"}
    found = hits(load(sorted((FIXTURES / "gloo_late_rank2").glob("rank*.json.gz"))))
    assert [h.ranks for h in found["straggler-rank"]] == [(2,)]


def test_two_nodes_of_the_log_are_not_judged_as_one(tmp_path: Path) -> None:
    """A node may have more GPUs than the job uses on it; the log says how many nodes there are."""
    paths = []
    for r in range(8):
        events = [all_reduce(5000.0 * i, 1300.0, 1 << 20, list(range(8)), seq=i) for i in range(20)]
        paths.append(write(tmp_path / f"t{r}.json", trace(r, 8, events)))
    assert on_one_node(load(paths), range(8), 8)
    tables = dict(load(paths).tables)
    tables["communicators"] = pl.DataFrame({"comm_id": ["0x1"], "nranks": [8], "n_nodes": [2]})
    assert not on_one_node(build_run(tables), range(8), 8)


def _send(ts: float, dur: float, src: int, dst: int, me: int, seq: int | None = None) -> dict[str, Any]:
    """One side of a transfer of 4 MiB on its own stream."""
    name, key, peer = ("send", "Dst Rank", dst) if me == src else ("recv", "Src Rank", src)
    args: dict[str, Any] = {
        "Collective name": name, "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "Group size": 4,
        "dtype": "Float", "Process Group Name": "pp", "Process Group Ranks": "[4, 5, 6, 7]", key: peer,
    }  # fmt: skip
    if seq is not None:
        args["Seq"] = seq
    return event("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", ts, dur, device=0,
                 stream=30 + (me == src), correlation=int(ts), **args)  # fmt: skip


def _pairs(folder: Path, slow: tuple[int, int], numbered: bool) -> list[Path]:
    """Ranks 4-7 send to the next one; peers count within the group. The receiver waits 300 us for the sender."""
    paths = []
    for me in range(4):
        events = []
        for i in range(12):
            for src in range(4):
                dst = (src + 1) % 4
                took = 800.0 if (src, dst) == slow else 100.0
                start = 10_000.0 * i + 2000.0 * src
                seq = 4 * i + src if numbered else None
                if me == src:
                    events.append(_send(start + 300.0, took, src, dst, src, seq))
                if me == dst:
                    events.append(_send(start, 300.0 + took, src, dst, dst, seq))
        paths.append(write(folder / f"p{me}.json", trace(4 + me, 8, events)))
    return paths


@pytest.mark.parametrize("numbered", [True, False])
def test_one_slow_pair(tmp_path: Path, numbered: bool) -> None:
    run = load(_pairs(tmp_path, (1, 2), numbered))
    rows = run.table("collectives")
    assert rows["match_id"].n_unique() == 48
    assert rows["matched_ranks"].unique().to_list() == [2]
    receives = rows.filter(pl.col("op") == "Recv")
    assert receives["wait_ns"].unique().to_list() == [300_000]
    assert sorted(rows["peer"].unique()) == [4, 5, 6, 7]
    found = hits(run)
    assert [f.ranks for f in found["busbw-outlier"]] == [(5, 6)]
    assert "straggler-rank" not in found


def test_late_once_names_rank_and_step(tmp_path: Path) -> None:
    paths = job(tmp_path, iterations=20, late=lambda r, i: 30_000.0 if (r, i) == (2, 11) else 0.0)
    found = hits(load(paths))
    assert [(f.ranks, "step 11" in f.title) for f in found["late-once"]] == [((2,), True)]
    assert "collective-skew" not in found
    assert "straggler-rank" not in found


def test_two_slow_ranks_are_named_together(tmp_path: Path) -> None:
    paths = job(tmp_path, ranks=8, iterations=12, late=lambda r, _i: 900.0 if r in (3, 6) else 0.0)
    found = hits(load(paths))
    assert [f.ranks for f in found["straggler-rank"]] == [(3, 6)]


def test_a_missing_member_is_named(tmp_path: Path) -> None:
    paths = job(tmp_path, ranks=4)
    found = hits(load([p for r, p in enumerate(paths) if r != 2]))
    assert [f.ranks for f in found["communicator-incomplete"]] == [(2,)]


def test_traces_of_two_jobs_are_not_compared(tmp_path: Path) -> None:
    """Ranks of a job of four and of a job of two in one directory; rank 1 is late in the smaller one."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    paths = job(folders[0], ranks=4, iterations=40)
    paths += job(folders[1], ranks=2, iterations=40, late=lambda r, _i: 900.0 if r == 1 else 0.0, seed=2)
    run = load(paths)
    assert run.table("trace_info").select("world_size", "job").unique().sort("job").height == 2
    assert "each compared by itself" in run.table("notes").filter(pl.col("kind") == "several-jobs")["detail"].item()
    rows = run.table("collectives").filter(pl.col("match_id").is_not_null())
    assert sorted(rows["matched_ranks"].unique()) == [2, 4]
    found = hits(run)
    assert [f.ranks for f in found["straggler-rank"]] == [(1,)]
    assert len(found["several-jobs"]) == 1

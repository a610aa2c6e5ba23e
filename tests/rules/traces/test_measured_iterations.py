"""What programs measure themselves is judged: iterations of nccl-tests (``-I 1 -J FILE``), NCCL's profiler plugins."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.model import Finding
from nccl_insight.tables.match import finish
from nccl_insight.tables.run import build_run
from nccl_insight.tables.schema import conform


def _findings(path: Path) -> dict[str, Finding]:
    return {f.name: f for f in nccl_insight.analyze(nccl_insight.load([path])).findings}


def _benchmark(path: Path, times: list[list[float]], apart: bool = True, size: int = 64 << 20) -> Path:
    """A run of all_reduce_perf with one process per GPU; ``times`` are microseconds by process and iteration."""
    slowest = [max(column) for column in zip(*times, strict=True)]
    per_iter: dict[str, Any] = {"skipped_iterations": 0, "min_us": min(slowest), "times_us": slowest}
    if apart:
        per_iter["per_process_max_times_us"] = times
    mean = sum(slowest) / len(slowest)
    side = {"time": mean, "alg_bw": size / mean / 1e3, "bus_bw": 1.75 * size / mean / 1e3, "nwrong": 0.0}
    devices = [{"rank": r, "hostname": "node-a", "device_info": "NVIDIA H100 80GB HBM3"} for r in range(len(times))]
    document = {
        "version": 3, "start_time": "2026-01-01 00:00:00", "args": ["./build/all_reduce_perf", "-I", "1"], "env": [],
        "nccl_version": 22907, "devices": devices,
        "results": [{"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
                     "out_of_place": side, "out_of_place_per_iter": per_iter, "in_place": None}],
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return path


def test_each_iteration_of_each_process_is_a_collective(tmp_path: Path) -> None:
    run = nccl_insight.load([_benchmark(tmp_path / "a.json", [[400.0, 410.0], [390.0, 410.0]])])
    rows = run.table("collectives").sort("seq", "rank")
    assert rows.select("rank", "seq", "op", "duration_ns", "group_size", "wait_ns").rows() == [
        (0, 0, "AllReduce", 400_000, 2, 10_000),
        (1, 0, "AllReduce", 390_000, 2, 0),
        (0, 1, "AllReduce", 410_000, 2, 0),
        (1, 1, "AllReduce", 410_000, 2, 0),
    ]
    assert rows["busbw_gbps"][0] == pytest.approx((64 << 20) / 400_000)


@pytest.mark.parametrize("apart", [True, False])
def test_slow_iterations_are_found(tmp_path: Path, apart: bool) -> None:
    rng = random.Random(3)
    each = [3900.0 if i % 7 == 3 else 380.0 + rng.uniform(0, 5) for i in range(60)]
    times = [[t + rng.uniform(0, 2) for t in each] for _ in range(8)]
    found = _findings(_benchmark(tmp_path / "a.json", times, apart))["busbw-outlier"]
    assert found.title.startswith("9 of 60 AllReduce of 64.0 MiB take 3.9")


def test_a_late_process_of_a_benchmark_is_named(tmp_path: Path) -> None:
    rng = random.Random(4)
    times = [[(400.0 if r == 5 else 900.0) + rng.uniform(0, 20) for _ in range(60)] for r in range(8)]
    assert list(_findings(_benchmark(tmp_path / "a.json", times))["straggler-rank"].ranks) == [5]


def test_a_steady_benchmark_is_silent(tmp_path: Path) -> None:
    rng = random.Random(5)
    times = [[380.0 + rng.uniform(0, 15) for _ in range(60)] for _ in range(8)]
    names = set(_findings(_benchmark(tmp_path / "a.json", times)))
    assert not names & {"straggler-rank", "busbw-outlier", "collective-skew", "late-once"}


def _nested(path: Path) -> Path:
    head = {"id": "0xab", "rank": 2, "n_ranks": 8, "nnodes": 1}
    meta = {"inspector_output_format_version": "v4.4", "dump_timestamp_us": 5, "hostname": "node-a", "pid": 77}
    where = {"parent_type": "coll", "parent_sn": 1407, "channel_id": 3, "peer": 5, "direction": "send"}
    stamps = {"proxy_step_start_ts": 100, "send_gpu_wait_ts": 110, "send_peer_wait_ts": 120, "send_wait_ts": 150,
              "proxy_step_stop_ts": 190}  # fmt: skip
    full = {"proxy_step_sn": 1, "step": 0, "trans_size_bytes": 4096, "event_trace_ts": stamps}
    bare = {"proxy_step_sn": 2, "step": 1, "trans_size_bytes": 512, "gpu_produce_us": 7, "peer_credit_us": 8,
            "wire_us": 9}  # fmt: skip
    records: list[dict[str, Any]] = [
        {"header": head, "metadata": meta, "dump_stats": {"coll_records": 0, "proxy_records": 4}},
        {"proxy_trace": {"record_type": "proxy_op_start", **where, "proxy_op_sn": 12, "n_steps": 3, "is_final": False,
                         "event_trace_ts": {"proxy_op_start_ts": 90}}},
        {"proxy_trace": {"record_type": "proxy_op_segment", **where, "proxy_op_sn": 12, "is_final": False,
                         "steps": [full, bare]}},
        {"proxy_trace": {"record_type": "proxy_op", **where, "proxy_op_sn": 12, "n_steps": 3, "n_steps_completed": 3,
                         "trans_size_bytes": 5000, "is_final": True, "steps": [{**bare, "step": 2}],
                         "event_trace_ts": {"proxy_op_start_ts": 90, "proxy_op_stop_ts": 200}}},
        {"proxy_trace": {"record_type": "proxy_op_start", **where, "proxy_op_sn": 13, "n_steps": 2, "is_final": False,
                         "event_trace_ts": {"proxy_op_start_ts": 210}}},
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


def test_steps_inside_proxy_records(tmp_path: Path) -> None:
    run = nccl_insight.load([_nested(tmp_path / "node-a-pid77.log")])
    rows = run.table("proxy_steps").select(
        "record", "rank", "peer", "channel", "step", "bytes", "state", "gpu_wait_ns", "peer_wait_ns", "wire_ns"
    )
    assert rows.rows() == [
        ("proxy_step", 2, 5, 3, 0, 4096, "done", 10_000, 30_000, 40_000),
        ("proxy_step", 2, 5, 3, 1, 512, "done", 7_000, 8_000, 9_000),
        ("proxy_op", 2, 5, 3, None, 5000, "done", None, None, None),
        ("proxy_step", 2, 5, 3, 2, 512, "done", 7_000, 8_000, 9_000),
        ("proxy_op_start", 2, 5, 3, None, None, "open", None, None, None),
    ]
    assert run.table("notes").height == 0


def test_events_of_the_profiler_plugin_are_judged(tmp_path: Path) -> None:
    """Eight ranks, one process each; rank 6 comes 900 us late to each of 40 AllReduce."""
    rng = random.Random(6)
    for rank in range(8):
        events: list[str] = []
        for i in range(40):
            end = 2000.0 * i + 1500
            begin = end - 300 - (0 if rank == 6 else 900) - rng.uniform(0, 15)
            both = f'"name": "AllReduce", "cat": "COLL", "id": {i}, "pid": {1000 + rank}, "tid": 1'
            args = (
                f'{{"SeqNum": {i}, "CommHash": 123456789, "Rank": {rank}, "Count": 1048576, '
                '"Datatype": "ncclFloat32", "Algorithm": "RING", "Protocol": "SIMPLE", "nChannels": 4}'
            )
            first, _, rest = both.partition(', "id"')
            events.append(f'{{{first}, "ph": "b", "id"{rest}, "ts": {begin:.3f}, "args": {args}}},')
            events.append(f'{{{first}, "ph": "e", "id"{rest}, "ts": {end:.3f}}},')
        (tmp_path / f"nccl_profiler-{rank}.txt").write_text("[\n" + "\n".join(events) + "\n{}]\n")
    analysis = nccl_insight.analyze(nccl_insight.load([tmp_path]))
    (found,) = [f for f in analysis.findings if f.name == "straggler-rank"]
    assert list(found.ranks) == [6]
    assert "(44% lost)" in found.title  # 900 of some 2000 us


@pytest.mark.parametrize("slower", [1, 3])
def test_a_slow_group_of_several_is_named_where_records_have_no_starts(slower: int) -> None:
    """NCCL Inspector: twelve operations of 64 MiB in 400 us in each of two groups, of which one may be slower."""
    rows = [
        (
            rank,
            seq,
            f"g{group}",
            ranks,
            12 * group + seq,
            400_000 * (slower if group else 1) + 1_000 * ((seq + rank) % 5),
        )
        for group, ranks in enumerate(([0, 1, 2, 3], [4, 5, 6, 7]))
        for seq in range(12)
        for rank in ranks
    ]
    names = ["rank", "seq", "process_group", "group_ranks", "match_id", "duration_ns"]
    table = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        input_id="rank", op=pl.lit("AllReduce"), size_bytes=64 << 20, dtype=pl.lit("float32"), group_size=4,
        source=pl.lit("inspector"),
    )  # fmt: skip
    run = build_run(finish({"collectives": conform("collectives", table)}), [])
    named = [f.ranks for f in nccl_insight.analyze(run).findings if f.name == "busbw-outlier"]
    assert named == ([(4, 5, 6, 7)] if slower > 1 else [])

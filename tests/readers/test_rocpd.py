"""ROCm profiler databases: the tables of rocprofv3 (schema 3), with a recording's id in their names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.rocpd import format as rocpd
from tests.rocpd_databases import ID, database
from tests.trace_maker import late_gpu


@pytest.mark.parametrize("suffix", [ID, ""])
def test_kernels_copies_and_exposed_time(tmp_path: Path, suffix: str) -> None:
    run = nccl_insight.load([database(tmp_path / "rank5_results.db", suffix)])
    rows = run.table("collectives")
    assert rows.select("rank", "duration_ns", "exposed_ns").rows() == [(5, 100_000, 50_000), (5, 50_000, 50_000)]
    (step,) = run.table("steps").to_dicts()
    assert (step["comm_ns"], step["compute_ns"], step["other_comm_ns"]) == (150_000, 150_000, 20_000)
    assert (step["memcpy_ns"], step["duration_ns"]) == (30_000, 530_000)
    assert run.table("other_communication").select("library", "op").rows() == [("vllm", "AllReduce")]
    assert run.table("memcpy").select("name", "size_bytes").rows() == [("MEMORY_COPY_DEVICE_TO_HOST", 4096)]
    assert run.table("inputs")["kind"].to_list() == ["rocpd"]


def test_a_damaged_database_says_so(tmp_path: Path) -> None:
    path = database(tmp_path / "a.db")
    path.write_bytes(path.read_bytes()[:9000])
    tables = rocpd.read(find_inputs([str(path)])[0]).tables
    assert tables["notes"]["kind"].to_list() == ["trace-truncated"]


TIMES = ((1, 100.0, 200.0), (2, 150.0, 300.0), (1, 400.0, 450.0), (3, 500.0, 520.0))


def results(path: Path, times: Sequence[tuple[int, float, float]] = TIMES) -> Path:
    """Kernels (those of :func:`database`) at ``times`` and its copy, as rocprofv3 writes them in JSON."""
    names = [
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64",
        "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>(aiter::RankData*)",
    ]
    agent, stream = {"handle": 37946}, {"handle": 1}
    process = {
        "metadata": {"node": {"hostname": "mi-07"}, "pid": 42},
        "strings": {
            "buffer_records": [{"kind": "MEMORY_COPY", "operations": ["NONE", "HOST_TO_HOST", "DEVICE_TO_HOST"]}]
        },
        "kernel_symbols": [
            {"kernel_id": i, "kernel_name": f"_Z{i}.kd", "formatted_kernel_name": name}
            for i, name in enumerate(names, 1)
        ],
        "buffer_records": {
            "kernel_dispatch": [
                {
                    "start_timestamp": int(start * 1000),
                    "end_timestamp": int(end * 1000),
                    "stream_id": stream,
                    "dispatch_info": {"agent_id": agent, "kernel_id": kernel},
                }
                for kernel, start, end in times
            ],
            "memory_copy": [
                {
                    "start_timestamp": 600_000,
                    "end_timestamp": 630_000,
                    "operation": 2,
                    "bytes": 4096,
                    "dst_agent_id": agent,
                    "stream_id": stream,
                }
            ],
        },
    }
    path.write_text(json.dumps({"rocprofiler-sdk-tool": [process]}))
    return path


def test_json_of_rocprofv3(tmp_path: Path) -> None:
    run = nccl_insight.load([results(tmp_path / "rank5_results.json")])
    rows = run.table("collectives").select("rank", "duration_ns", "exposed_ns").rows()
    assert rows == [(5, 100_000, 50_000), (5, 50_000, 50_000)]
    (step,) = run.table("steps").to_dicts()
    assert (step["comm_ns"], step["compute_ns"], step["other_comm_ns"]) == (150_000, 150_000, 20_000)
    assert (step["memcpy_ns"], step["duration_ns"]) == (30_000, 530_000)
    assert run.table("memcpy").select("name", "size_bytes").rows() == [("DEVICE_TO_HOST", 4096)]
    assert run.table("trace_info")["host"].to_list() == ["mi-07"]


def test_a_late_gpu_is_named_with_what_it_costs(tmp_path: Path) -> None:
    paths = [
        results(tmp_path / f"rank{rank}_results.json", [(1 if reduces else 2, *at) for reduces, *at in work])
        for rank, work in enumerate(late_gpu(1))
    ]
    (mend,) = nccl_insight.analyze(nccl_insight.load(paths)).what_if
    assert (mend.kind, mend.ranks) == ("rank", (1,))
    assert mend.alone_ns == pytest.approx(60 * 300_000, rel=0.1)


@pytest.mark.parametrize("cut", [0.5, 0.99])
def test_json_that_is_cut_says_so(tmp_path: Path, cut: float) -> None:
    path = results(tmp_path / "a.json")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * cut)])
    tables = rocpd.read(find_inputs([str(path)])[0]).tables
    assert tables["notes"]["kind"].to_list() == ["trace-truncated", "trace-metadata-missing"]


def test_json_of_other_shapes_is_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for inner in (
        "null",
        "{}",
        "[null, 3, {}]",
        '[{"buffer_records": {"kernel_dispatch": [1, {}, {"start_timestamp": "x"}]}}]',
    ):
        path.write_text(f'{{"rocprofiler-sdk-tool": {inner}}}')
        assert rocpd.read(find_inputs([str(path)])[0]).tables["notes"].height >= 1

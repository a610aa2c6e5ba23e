"""Kineto reader: scanner, times, metadata, exposed time, damaged and hostile files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers import chrome as _chrome
from nccl_insight.readers.kernels import COMM, COMPUTE, OTHER, classify, collective_op
from nccl_insight.readers.kineto import FORMAT
from nccl_insight.readers.kineto import format as kineto
from nccl_insight.readers.kineto.meta import Meta
from nccl_insight.tables.run import Partial
from tests import runs
from tests.trace_maker import BASE_NS, all_reduce, event, trace, write

SHARED = runs.SHARED / "traces"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="reference traces : set NCCL_INSIGHT_REFERENCE_DATA")


@pytest.fixture(scope="module", autouse=True, params=[0, 1 << 40], ids=["cut-by-polars", "by-boundaries"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways of the scanner, whatever the size of a trace; what they give is the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_chrome, "_TAKEN_LEAST_BYTES", request.param)
        yield


def read(path: Path) -> Partial:
    return kineto.read(find_inputs([str(path)])[0])


def notes(part: Partial) -> list[str]:
    return [f"{k}: {d}" for k, d in part.tables["notes"].select("kind", "detail").iter_rows()]


def collectives(tmp_path: Path, events: list[dict[str, Any]], **header: Any) -> pl.DataFrame:
    return read(write(tmp_path / "t.json", trace(3, 8, events, **header))).tables["collectives"]


def test_one_collective_in_full(tmp_path: Path) -> None:
    events = [
        event("kernel", "gemm", 100.0, 50.0, device=2, stream=7, correlation=1),
        {**all_reduce(120.5, 100.25, 1000, [1, 3], seq=17), "pid": 2},
        event("user_annotation", "ProfilerStep#12", 90.0, 200.0),
    ]
    events[1]["args"]["device"] = 2
    row = collectives(tmp_path, events).row(0, named=True)
    assert row["rank"] == 3
    assert row["op"] == "AllReduce"
    assert row["size_bytes"] == 4000
    assert row["group_size"] == 2
    assert row["group_ranks"] == [1, 3]
    assert row["seq"] == 17
    assert row["step"] == 12
    assert row["device"] == 2
    assert row["stream"] == 20
    assert row["start_ns"] == BASE_NS + 120_500
    assert row["duration_ns"] == 100_250
    # 120.5..220.75 minus compute 100..150
    assert row["exposed_ns"] == 70_750
    assert row["algbw_gbps"] == pytest.approx(4000 / 100_250)
    assert row["busbw_gbps"] == row["algbw_gbps"]
    # the name is the compiled entry point, which tells neither algorithm nor protocol
    assert row["algorithm"] is None
    assert row["protocol"] is None


def test_old_integer_times_are_absolute(tmp_path: Path) -> None:
    content = trace(0, 2, [event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(x)", 1694128201429795, 2146)])
    del content["baseTimeNanoseconds"]
    rows = read(write(tmp_path / "t.json", content)).tables["collectives"]
    assert rows["start_ns"].item() == 1_694_128_201_429_795_000
    assert rows["duration_ns"].item() == 2_146_000


def test_times_as_text_keep_their_digits(tmp_path: Path) -> None:
    item = event("kernel", "ncclDevKernel_SendRecv(x)", 0, 0)
    item["ts"], item["dur"] = "1773285899055563.748", "10.5"
    rows = collectives(tmp_path, [item], baseTimeNanoseconds=0)
    assert rows["start_ns"].item() == 1_773_285_899_055_563_748
    assert rows["duration_ns"].item() == 10_500


@pytest.mark.parametrize(
    ("name", "elements", "expected_op", "expected_bytes"),
    [
        ("allreduce", (100, 100), "AllReduce", 200),
        ("_allgather_base", (100, 800), "AllGather", 1600),
        ("_reduce_scatter_base", (800, 100), "ReduceScatter", 1600),
        ("all_to_all", (100, 100), "AllToAll", 200),
        ("broadcast", (100, 100), "Broadcast", 200),
        ("recv", (0, 100), "Recv", 200),
        ("barrier", (1, 1), "Barrier", 2),
        # old torch counts in 32 bits: 3e9 elements wrap to a negative number
        ("allreduce", (3_000_000_000 - 2**32, 0), "AllReduce", 6_000_000_000),
    ],
)
def test_bytes_that_count(
    tmp_path: Path, name: str, elements: tuple[int, int], expected_op: str, expected_bytes: int
) -> None:
    item = all_reduce(1.0, 5.0, 1, list(range(8)))
    item["name"] = "ncclDevKernel_Generic(x)"
    item["args"] |= {"Collective name": name, "In msg nelems": elements[0], "Out msg nelems": elements[1]}
    item["args"]["dtype"] = "BFloat16"
    row = collectives(tmp_path, [item]).row(0, named=True)
    assert (row["op"], row["size_bytes"]) == (expected_op, expected_bytes)


def test_metadata_by_external_id(tmp_path: Path) -> None:
    """Kernels without metadata take it from the CPU record with the same id."""
    kernel = event("kernel", "ncclDevKernel_Generic(x)", 10.0, 5.0, device=0, stream=3, **{"External id": 77})
    record = event("cpu_op", "record_param_comms", 1.0, 2.0, **{
        "External id": 77, "Collective name": "broadcast", "In msg nelems": 10, "dtype": "Long", "Group size": 4,
        "Comms Id": 10159970886766084423,
    })  # fmt: skip
    row = collectives(tmp_path, [kernel, record]).row(0, named=True)
    assert (row["op"], row["size_bytes"], row["group_size"]) == ("Broadcast", 80, 4)


def test_annotations_name_the_kernels_of_old_torch(tmp_path: Path) -> None:
    def made(ranges: list[str]) -> list[str]:
        kernels = [
            event("kernel", "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 20.0, 5.0, device=0),
            event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float(x)", 40.0, 5.0, device=0),
        ]
        marks = [
            event("user_annotation", name, 10.0 + 20 * i, 5.0, **{"Input Dims": [[64]], "Input type": ["float"]})
            for i, name in enumerate(ranges)
        ]
        return collectives(tmp_path, kernels + marks).sort("start_ns")["op"].to_list()

    assert made(["nccl:all_to_all", "nccl:all_reduce"]) == ["AllToAll", "AllReduce"]
    # one more call than kernels, or an impossible pair: nothing is assumed
    assert made(["nccl:all_to_all", "nccl:all_reduce", "nccl:all_reduce"]) == ["SendRecv", "AllReduce"]
    assert made(["nccl:all_reduce", "nccl:all_to_all"]) == ["SendRecv", "AllReduce"]


def test_copies_do_not_hide_communication(tmp_path: Path) -> None:
    events = [
        all_reduce(0.0, 100.0, 8, [0, 1]),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 10.0, 30.0, device=0, stream=5, bytes=1 << 20),
        event("kernel", "gemm", 60.0, 10.0, device=0, stream=7),
        event("kernel", "gemm", 65.0, 10.0, device=0, stream=8),
        event("kernel", "gemm of another GPU", 0.0, 100.0, device=1, stream=7),
        event("gpu_user_annotation", "nccl:all_reduce", 0.0, 100.0, device=0, stream=20),
    ]
    part = read(write(tmp_path / "t.json", trace(0, 2, events)))
    assert part.tables["collectives"]["exposed_ns"].to_list() == [85_000]
    step = part.tables["steps"].filter(pl.col("device") == 0).row(0, named=True)
    assert step["step"] is None
    assert (step["duration_ns"], step["compute_ns"], step["comm_ns"]) == (100_000, 15_000, 100_000)
    assert (step["exposed_comm_ns"], step["memcpy_ns"], step["idle_ns"]) == (85_000, 30_000, 0)
    assert step["overlap_pct"] == pytest.approx(15.0)
    copy = part.tables["memcpy"].row(0, named=True)
    assert (copy["pageable"], copy["size_bytes"], copy["duration_ns"]) == (True, 1 << 20, 30_000)


def test_duplicates_are_counted_once(tmp_path: Path) -> None:
    events = [all_reduce(1.0, 5.0, 8, [0, 1]), all_reduce(1.0, 5.0, 8, [0, 1]), all_reduce(9.0, 5.0, 8, [0, 1])]
    part = read(write(tmp_path / "t.json", trace(0, 2, events)))
    assert part.tables["collectives"].height == 2
    assert part.tables["trace_info"]["duplicate_events"].item() == 1


def test_layouts_of_the_file_do_not_matter(tmp_path: Path) -> None:
    """Pretty print, compact print, a bare list, keys after the events, a byte order mark, gzip in two members."""
    events = [
        all_reduce(5.0, 7.0, 64, [0, 1]),
        event("kernel", 'void f<{lambda}>("}, {")', 1.0, 2.0, device=0, stream=1),
        event("cpu_op", "x", 0.0, 1.0, stack=[{"a": 1}, {"cat": 2}]),
        {**all_reduce(50.0, 7.0, 64, [0, 1]), "args": {"frames": [{"a": 1}, {"b": 2}], "device": 0, "stream": 20}},
    ]
    content = trace(1, 2, events)
    last = {"traceEvents": content.pop("traceEvents"), **content}
    plain = json.dumps(last).encode()
    cut = len(plain) // 2
    variants = {
        "a.json": json.dumps(last, indent=2).encode(),
        "b.json": json.dumps(last, separators=(",", ":")).encode(),
        "c.json": b"\xef\xbb\xbf" + plain,
        "d.json": gzip.compress(plain[:cut]) + gzip.compress(plain[cut:]),
        "e.json": plain,
        "f.json": json.dumps({k: last[k] for k in sorted(last)}).encode(),
    }
    for name, data in variants.items():
        (tmp_path / name).write_bytes(data)
        part = read(tmp_path / name)
        assert part.tables["collectives"]["start_ns"].to_list() == [BASE_NS + 5000, BASE_NS + 50_000], name
        assert part.tables["trace_info"].select("rank", "gpu_events").row(0) == (1, 3), name
        assert not [n for n in notes(part) if n.startswith("trace-truncated")], name
    bare = read(write(tmp_path / "g.json", events))
    assert bare.tables["collectives"].height == 2
    assert bare.tables["collectives"]["rank"].to_list() == [None, None]


def test_small_chunks_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [all_reduce(10.0 * i, 7.0, 64 + i, [0, 1]) for i in range(200)]
    path = write(tmp_path / "t.json", trace(0, 2, events))
    whole = read(path).tables["collectives"]
    monkeypatch.setattr(kineto, "CHUNK_BYTES", 777)
    assert read(path).tables["collectives"].equals(whole)
    assert whole.height == 200


def test_rank_comes_from_the_trace_not_from_the_name(tmp_path: Path) -> None:
    item = all_reduce(1.0, 2.0, 8, [4, 6])
    record = event("cpu_op", "record_param_comms", 0.5, 1.0, **{**item["args"], "External id": 5, "Rank": 1})
    path = write(tmp_path / "rank-99.json", trace(2, 8, [item]))
    assert read(path).tables["trace_info"].select("rank", "rank_origin").row(0) == (2, "trace")
    path = write(tmp_path / "rank-98.json", trace(2, 8, [item, record], distributedInfo={"backend": "nccl"}))
    assert read(path).tables["trace_info"].select("rank", "rank_origin").row(0) == (6, "process_group")
    path = write(tmp_path / "rank-97.json", trace(2, 8, [item], distributedInfo={"backend": "nccl"}))
    part = read(path)
    assert part.tables["trace_info"].select("rank", "rank_origin").row(0) == (97, "file_name")
    assert any("name of the file" in n for n in notes(part))
    path = write(tmp_path / "some.json", trace(2, 8, [item], distributedInfo={}))
    part = read(path)
    assert part.tables["trace_info"]["rank"].item() is None
    assert any("names no rank" in n for n in notes(part))


@pytest.mark.parametrize(
    ("name", "kind", "op"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", COMM, "AllReduce"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float(ncclWorkElem)", COMM, "ReduceScatter"),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", COMM, "AllReduce"),
        ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_f16(ncclSymkDevWorkArgs4K)", COMM, "AllReduce"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", COMM, None),
        ("rcclGenericKernel<1, 2, false>(ncclDevComm*, unsigned long, ncclWork*)", COMM, None),
        ("mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)", COMM, None),
        ("ncclDevKernel_Broadcast_RING_LL(x)", COMM, "Broadcast"),
        ("_Z22ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE", COMM, "AllGather"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", OTHER, "AllReduce"),
        ("void deep_ep::internode::dispatch<false, 8, false, 128>(int4*)", OTHER, "AllToAll"),
        ("dpsk::ep::internode::combine(int)", OTHER, "AllToAll"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(x)", OTHER, "AllReduce"),
        ("void quickreduce::allreduce_prototype_twoshot<Twoshot<__half, Q4<__half>>>(x)", OTHER, "AllReduce"),
        ("_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataEi", OTHER, "AllReduce"),
        ("EpDispatchIntraNodeKernel_bf16", OTHER, "AllToAll"),
        ("void deep_ep::internode::get_dispatch_layout<256>(x)", COMPUTE, None),
        ("_combined_routing_memset", COMPUTE, None),
        ("triton_red_fused_allreduce_like_sum_3", COMPUTE, None),
        ("void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*> >(x)", COMPUTE, None),
        ("void combine_attention_splits(float*)", COMPUTE, None),
    ],
)
def test_kernel_names(name: str, kind: int, op: str | None) -> None:
    assert (classify(name).kind, classify(name).op) == (kind, op)


def test_framework_names() -> None:
    names = [
        "nccl:all_reduce",
        "_allgather_base",
        "gloo:send 0->1",
        "reduce_scatter_tensor_coalesced",
        "nccl:coalesced",
    ]
    assert [collective_op(n) for n in names] == ["AllReduce", "AllGather", "Send", "ReduceScatter", "SendRecv"]
    assert collective_op("init") is None


@pytest.mark.parametrize("cut", [0.3, 0.7, 0.98])
@pytest.mark.parametrize("packed", [False, True])
def test_truncated_file_gives_what_came_before(tmp_path: Path, cut: float, packed: bool) -> None:
    data = json.dumps(trace(0, 2, [all_reduce(10.0 * i, 7.0, 64, [0, 1]) for i in range(400)])).encode()
    data = gzip.compress(data) if packed else data
    path = tmp_path / "t.json"
    path.write_bytes(data[: int(cut * len(data))])
    part = read(path)
    assert [n for n in notes(part) if n.startswith("trace-truncated")]
    assert 0 < part.tables["collectives"].height < 400


def test_damaged_values_are_counted(tmp_path: Path) -> None:
    good = json.dumps(all_reduce(1.0, 2.0, 8, [0, 1]))
    bad = [
        good.replace('"dur": 2.0', '"dur": NaN'),
        good.replace('"dur": 2.0', '"dur": -4'),
        good.replace('"ts": 1.0', '"ts": null'),
        good.replace('"cat": "kernel"', '"cat": "kernel", "x": unquoted'),
    ]
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [' + ",".join([good, *bad, good.replace("1.0", "9.0")]) + "]}")
    part = read(path)
    assert part.tables["collectives"]["start_ns"].to_list() == [1000, 9000]
    assert part.tables["trace_info"]["rejected_events"].item() == 4
    told = "\n".join(notes(part))
    assert "1 events are not valid JSON" in told
    assert "3 GPU events have no valid time" in told


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[", "{}", '{"traceEvents": {}}', '{"traceEvents": []}', '{"traceEvents": [1, "kernel", null, []]}',
        '{"traceEvents": [{"cat": "kernel"}]}', '{"traceEvents": [{"cat": ["kernel"], "name": 5, "args": 7}]}',
        '{"distributedInfo": [], "baseTimeNanoseconds": "x", "traceEvents": [{"cat":"kernel","ts":1,"dur":1}]}',
        '{"traceEvents": [' + '{"a":' * 5000, "[" * 100_000 + '{"ph":"X","cat":"kernel"',
        '{"traceEvents": [{"ph":"X","cat":"kernel","name":"ncclKernel","ts":1e400,"dur":1,"args":{"device":1e99}}]}',
        '{"traceEvents": [{"ph":"X","cat":"kernel","name":"ncclKernel","ts":99999999999999999999,"dur":1}]}',
        '{"distributedInfo": {"rank": 99999999999, "world_size": 99999999999999999999}, "traceEvents": [{"ph":"X",'
        '"cat":"kernel","name":"ncclKernel","ts":1e308,"dur":1,"args":{"stream":99999999999999999999}}]}',
        '{"distributedInfo": {"pg_config": [7, {"pg_name": "0", "ranks": [1e9, -1, 99999999999]}]}, "traceEvents": [{'
        '"ph":"X","cat":"kernel","name":"ncclKernel","ts":1,"dur":1,"args":{"stream":99999999999999999999,"device":-7,'
        '"Collective name":"allgather","In msg nelems":9e18,"Group size":99999999999,"dtype":"Float",'
        '"Process Group Name":"0","Process Group Ranks":"[99999999999]","Seq":-1}}]}',
        '{"traceEvents": [{"ph":"X","cat":"kernel","name":"ncclKernel","ts":1,"dur":1,"args":{'
        '"Collective name":"gather","In msg nelems":280000000000000,"Group size":2000000000,"dtype":"Double"}}]}',
    ],
)  # fmt: skip
def test_hostile_text_never_raises(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    read(path)


def test_header_is_found_before_and_after_the_events() -> None:
    found = _chrome.header_values(b'{"a": 1, "b": {"c": [2', b'}], "b": {"c": 3}, "d": "x"}', ("a", "b", "d", "e"))
    assert found == {"a": 1, "b": {"c": 3}, "d": "x"}


def test_two_compressions_of_nothing(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="w") as stream:
        stream.write(b"")
    (tmp_path / "t.json.gz").write_bytes(buffer.getvalue())
    assert notes(read(tmp_path / "t.json.gz")) == ["trace-truncated: the file is empty"]


def test_gloo_operations_of_a_cpu_trace(tmp_path: Path) -> None:
    config = [
        {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3]},
        {"pg_name": "1", "pg_desc": "pair", "ranks": [0, 1]},
    ]
    events = [
        event("user_annotation", "gloo:all_reduce", 10.0 * i, 5.0, stream=t, **{
            "Input Dims": [[256]], "Input type": ["float"]})
        for i, t in enumerate([101, 103, 113, 114])
    ]  # fmt: skip
    rows = collectives(tmp_path, events, distributedInfo={"rank": 1, "pg_config": config})
    assert rows["source"].to_list() == ["cpu_op"] * 4
    assert rows["process_group"].to_list() == ["0", "0", "1", "1"]
    assert rows["group_size"].to_list() == [4, 4, 2, 2]
    assert rows["size_bytes"].to_list() == [1024] * 4
    # three threads for two groups: which belongs to which is not known
    rows = collectives(tmp_path, events[:3], distributedInfo={"rank": 1, "pg_config": config})
    assert rows["process_group"].to_list() == [None] * 3


@needs_shared
def test_reference_intervals() -> None:
    """Independent interval arithmetic over real traces: count, summed and exposed communication within 1 %."""
    checked = 0
    for row in csv.DictReader((SHARED / "reference" / "own_intervals.csv").open()):
        if "#" in row["file"] or row["unit"] != "us":
            continue
        found = read(SHARED / row["file"]).tables["collectives"].filter(pl.col("source") == "kernel")
        assert found.height == int(row["n_comm"]), row["file"]
        for column, wanted in (("duration_ns", row["comm_sum"]), ("exposed_ns", row["exposed_comm"])):
            expected = 1000 * float(wanted or 0)
            assert found[column].sum() == pytest.approx(expected, rel=0.01, abs=2000), (row["file"], column)
        checked += 1
    assert checked >= 15


@needs_shared
@pytest.mark.parametrize(
    "name", ["truncated.json", "truncated.json.gz", "trailing_comma_no_close.json", "nan_inf.json"]
)
def test_malformed_files_say_so_once(name: str) -> None:
    told = [n for n in notes(read(SHARED / "malformed" / name)) if n.startswith("trace-truncated")]
    assert len(told) == 1


def test_files_that_hold_nothing_are_recognised_by_name() -> None:
    assert FORMAT.sniff(b"", "rank0.json.gz") > 0.5
    assert FORMAT.sniff(b"", "nccl.log") == 0.0
    assert FORMAT.sniff(b'{"version": "2.9", "entries": []}', "x.json") == 0.0


def test_damaged_from_the_start(tmp_path: Path) -> None:
    data = gzip.compress(json.dumps(trace(0, 2, [all_reduce(9.0 * i, 7.0, 64, [0, 1]) for i in range(90)])).encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(data[: len(data) // 2])
    source = find_inputs([str(path)])[0]
    assert FORMAT.sniff(source.head(), source.display) > 0.5
    part = read(path)
    assert 0 < part.tables["collectives"].height < 90
    assert [n for n in notes(part) if "ends too early" in n]


def _behind(folder: Path, launches: bool, marks: bool) -> Path:
    """Two steps of 100 us on the CPU; the GPU runs each 150 us late, and one kernel was launched before the trace."""
    events = [event("kernel", "gemm", 10, 40, device=0, stream=7, correlation=1)]
    for step in (0, 1):
        events.append(event("user_annotation", f"ProfilerStep#{step}", 100 + 100 * step, 100))
        if launches:
            call = event("cuda_runtime", "cudaLaunchKernelExC", 120 + 100 * step, 5, correlation=2 + step)
            events.append(call)
        kernel = event("kernel", "gemm", 250 + 150 * step, 80, device=0, stream=7, correlation=2 + step)
        events.append(kernel)
        if marks:
            name = f"ProfilerStep#{step}"
            events.append(event("gpu_user_annotation", name, 250 + 150 * step, 100, device=0, stream=7))
    return write(folder / "t_rank0.json", trace(0, 1, events))


@pytest.mark.parametrize(
    ("launches", "marks", "compute", "source"),
    [
        (True, True, {0: 80_000, 1: 80_000}, "gpu_annotation"),
        (False, True, {0: 80_000, 1: 80_000}, "gpu_annotation"),
        (True, False, {0: 80_000, 1: 80_000}, "launch"),
        (False, False, {0: 0, 1: 80_000}, "cpu_span"),
    ],
)
def test_the_step_of_a_kernel(
    tmp_path: Path, launches: bool, marks: bool, compute: dict[int, int], source: str
) -> None:
    tables = read(_behind(tmp_path, launches, marks)).tables
    steps = tables["steps"]
    assert dict(steps.select("step", "compute_ns").iter_rows()) == compute
    info = tables["trace_info"].row(0, named=True)
    assert info["step_source"] == source
    assert info["outside_steps_ns"] == (120_000 if source == "cpu_span" else 40_000)
    if source != "cpu_span":
        assert steps["start_ns"].to_list() == [BASE_NS + 250_000, BASE_NS + 330_000]
        assert steps["idle_ns"].to_list() == [0, 70_000]


def test_a_collective_of_copy_engines_is_communication(tmp_path: Path) -> None:
    args = {
        "Collective name": "_allgather_base", "In msg nelems": 1000, "Out msg nelems": 3000, "Group size": 3,
        "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2]", "Seq": 1,
    }  # fmt: skip
    copy = "Memcpy PtoP (Device -> Device)"
    ids = {"External id": 9}
    events = [
        event("cpu_op", "record_param_comms", 5, 3, **ids, **args),
        event("gpu_memcpy", copy, 10, 20, device=0, stream=9, bytes=4000, **ids),
        event("gpu_memcpy", copy, 30, 25, device=0, stream=9, bytes=4000, **ids),
        event("gpu_memcpy", copy, 90, 10, device=0, stream=9, bytes=64, **{"External id": 10}),
    ]
    tables = read(write(tmp_path / "rank0.json", trace(0, 3, events))).tables
    rows = tables["collectives"]
    assert rows.select("op", "size_bytes", "duration_ns", "kernel").rows() == [("AllGather", 12_000, 45_000, None)]
    assert tables["steps"].select("comm_ns", "memcpy_ns").rows() == [(45_000, 10_000)]


def test_why_the_gpu_was_idle(tmp_path: Path) -> None:
    """Gaps 20..60 (launched at 50: 30 us for the CPU, 10 us beyond) and 70..90 (launched before: all for others)."""
    spans = [(0.0, 20.0, -5.0), (60.0, 10.0, 50.0), (90.0, 10.0, 55.0)]
    events = [event("user_annotation", "ProfilerStep#1", -10, 120)]
    for number, (start, took, launched) in enumerate(spans, 1):
        events.append(event("kernel", "gemm", start, took, device=0, stream=7, correlation=number))
        events.append(event("cuda_runtime", "cudaLaunchKernel", launched, 2, correlation=number))
    for item in events:
        item["ts"] += 1000.0
    (row,) = read(write(tmp_path / "t_rank0.json", trace(0, 1, events))).tables["steps"].to_dicts()
    assert (row["idle_host_ns"], row["idle_kernel_ns"]) == (30_000, 30_000)
    assert row["idle_ns"] == 70_000  # with 10 us behind the last kernel, to the end of the step
    # at the starts of the three kernels 0, 1 and 0 are launched and not started
    assert row["queue_mean"] == pytest.approx(1 / 3)


_ODD_EVENTS = st.lists(
    st.builds(
        lambda cat, name, phase, ts, dur, args: {
            "ph": phase, "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args
        },
        st.sampled_from(["kernel", "cuda_runtime", "hip_driver", "cpu_op", "gpu_memcpy", "Kernel"]),
        st.sampled_from(
            ["gemm", 'gemm<"a">', "gemm\\x", "gemm {lambda()}", "cudaLaunchKernel", "hipMemcpyAsync", "aten::add",
             "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "größe"]
        ),
        st.sampled_from(["X", "X", "X", "B"]),
        st.one_of(st.integers(0, 10**6), st.floats(0, 1e12).map(lambda x: round(x, 3)), st.just("12.5")),
        st.one_of(st.integers(0, 500), st.floats(0, 1e6).map(lambda x: round(x, 3)), st.just(-1)),
        st.fixed_dictionaries(
            {"device": st.integers(0, 3), "stream": st.integers(0, 30), "correlation": st.integers(0, 99)},
            optional={"note": st.sampled_from(["}{ x", "{", '"correlation": 5', ""]), "bytes": st.integers(0, 9)},
        ),
    ),
    max_size=30,
)  # fmt: skip


def test_a_kernel_with_the_name_of_a_call_is_taken_once(tmp_path: Path) -> None:
    events = [event("kernel", "cudaLaunchKernel", 5, 2, device=0, stream=7, correlation=1)]
    (row,) = read(write(tmp_path / "t_rank0.json", trace(0, 1, events))).tables["trace_info"].to_dicts()
    assert (row["gpu_events"], row["duplicate_events"]) == (1, 0)


def test_a_call_with_correlation_0_launched_nothing_in_any_layout(tmp_path: Path) -> None:
    events = [
        event("kernel", "gemm", 5, 2, device=0, stream=7, correlation=0),
        event("cuda_runtime", "cudaLaunchKernel", 1, 2, correlation=0),
        event("cpu_op", "aten::mm", 9, 2),
    ]
    for options in ({}, {"separators": (",", ":")}):
        path = tmp_path / "t_rank0.json"
        path.write_text(json.dumps(trace(0, 1, events), **options))  # type: ignore[arg-type]
        assert "idle_host_ns" not in read(path).tables["steps"].columns


@settings(deadline=None, max_examples=40)
@given(_ODD_EVENTS)
def test_what_is_read_does_not_depend_on_the_layout(events: list[dict[str, Any]]) -> None:
    """Kernels and launches in Kineto's own layout are read without decoding the event; in others they are decoded."""
    with tempfile.TemporaryDirectory() as folder:
        tables = []
        for name, options in (("a", {}), ("b", {"separators": (",", ":")}), ("c", {"sort_keys": True})):
            path = Path(folder, f"{name}.json")
            path.write_text(json.dumps(trace(0, 2, events), **options))  # type: ignore[arg-type]
            tables.append(read(path).tables)
        for other in tables[1:]:
            assert other.keys() == tables[0].keys()
            for table, frame in tables[0].items():
                wanted = frame.drop("bytes_read", strict=False)
                got = other[table].drop("bytes_read", strict=False)
                order = [c for c in ("start_ns", "device", "stream", "name", "kernel") if c in wanted.columns]
                if order:
                    wanted, got = wanted.sort(order, nulls_last=True), got.sort(order, nulls_last=True)
                assert got.equals(wanted), table


_KERNEL = (
    '{"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7, "ts": %s, "dur": 2.5, '
    '"args": {"External id": 1, "device": 0, "stream": 7, "correlation": %d}}'
)


def _activity(path: Path, events: list[str], cut: str) -> tuple[dict[str, Any], pl.DataFrame, list[str]]:
    path.write_text('{"traceEvents": [' + cut.join(events) + "]}")
    part = read(path)
    return part.tables["trace_info"].row(0, named=True), part.tables["collectives"], notes(part)


@pytest.mark.parametrize("cut", [",", ", ", ",\n  ", " \n,\t"])
def test_events_are_counted_however_they_are_cut(tmp_path: Path, cut: str) -> None:
    """A list of objects in an event, another cut between two, and an event with a character that JSON has not."""
    nested = '{"ph": "X", "cat": "kernel", "name": "a", "ts": 9, "dur": 1, "args": {"of": [{"a": 1}, {"b": 2}]}}'
    other = '{"ph": "X", "cat": "cpu_op", "name": "x} , {\\"y", "ts": 1, "dur": 1}'
    events = [_KERNEL % ("a", f"{10 * i}.250", i + 1) for i in range(20)]
    info, _, found = _activity(tmp_path / "a.json", [*events[:9], events[9] + ",\n\n" + other, *events[10:]], cut)
    assert (info["events"], info["gpu_events"], info["end_ns"]) == (21, 20, 192_750)
    info, _, found = _activity(tmp_path / "b.json", [*events, nested, _KERNEL % ("a\0b", "7", 90)], cut)
    assert (info["events"], info["gpu_events"]) == (23, 22)  # the list in the event counts as a boundary
    assert not [note for note in found if "not valid JSON" in note]
    broken = '{"ph": "X", "cat": "kernel", "name": "a", "ts": 9, "dur": 1, "args": {"x": nil}}'
    info, _, found = _activity(tmp_path / "c.json", [*events[:5], broken, *events[5:]], cut)
    assert (info["events"], info["gpu_events"], info["rejected_events"]) == (21, 20, 1)
    at = (tmp_path / "c.json").read_text().index(broken) - len(cut)
    assert any(f"1 events are not valid JSON and were left out, the first near byte {at:,}" in n for n in found)


def test_names_with_escapes_and_whole_microseconds(tmp_path: Path) -> None:
    """What reads Kineto's layout leaves escapes to the decoder, and takes late whole microseconds exactly."""
    late = 1_694_128_201_557_123
    events = [
        _KERNEL % (r"nccl\u0044evKernel_AllReduce_Sum_f32_RING_LL()", late, 1),
        _KERNEL % ("gemm", late + 10, 2),
        _KERNEL % ("gemm", f"{late + 21}.5", 3),
    ]
    info, found, _ = _activity(tmp_path / "t.json", events, ",\n")
    assert found["kernel"].to_list() == ["ncclDevKernel_AllReduce_Sum_f32_RING_LL()"]
    assert found["exposed_ns"].to_list() == [2_500]
    assert (info["start_ns"], info["gpu_events"]) == (late * 1000, 3)
    # The last time is a float of microseconds with a half: exact to 128 ns.
    assert abs(info["end_ns"] - (late * 1000 + 24_000)) <= 128


def test_an_event_with_very_many_arguments_takes_no_longer_than_its_bytes(tmp_path: Path) -> None:
    """Nothing of it is looked through again for each argument."""
    many = '"device": 0, ' * 70_000
    event = _KERNEL.replace('"External id": 1, ', many).replace('"stream": 7, ', "") % ("a", "1.5", 3)
    info, _, _ = _activity(tmp_path / "t.json", [event, _KERNEL % ("a", "9.5", 4)], ",")
    assert (info["events"], info["gpu_events"]) == (2, 2)


def test_long_events_and_headers_are_read_in_linear_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event and a header of many blocks: every byte is searched a few times, not once for each block."""
    searched: list[int] = []

    class Counting:
        def finditer(self, data: bytes) -> Any:
            searched.append(len(data))
            return real.finditer(data)

    real = _chrome._BOUNDARY
    monkeypatch.setattr(_chrome, "_BOUNDARY", Counting())
    monkeypatch.setattr(kineto, "CHUNK_BYTES", 1000)
    long = event("cpu_op", "x" * 300_000, 1.0, 2.0)
    events = [all_reduce(1.0, 2.0, 8, [0, 1]), long, all_reduce(9.0, 2.0, 8, [0, 1])]
    path = write(tmp_path / "t.json", trace(0, 2, events, host_name="h" * 300_000))
    part = read(path)
    assert part.tables["collectives"].height == 2
    assert part.tables["trace_info"]["events"].item() == 3
    assert sum(searched) < 8 * path.stat().st_size


def test_a_trace_needs_no_grammar_of_logs(tmp_path: Path) -> None:
    """Reading it takes longer than a small trace."""
    path = tmp_path / "t.json"
    path.write_text('{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0}, "traceEvents": []}')
    code = (
        "import sys, nccl_insight; from nccl_insight.language.load import default_grammar\n"
        "found = nccl_insight.analyze(sys.argv[1]); print(found.tool.grammar_hash != '', "
        "default_grammar.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"]


def test_members_of_a_cut_list_come_from_start_and_stride() -> None:
    args = {
        "Collective name": "allreduce",
        "Group size": 4,
        "Process Group Ranks": "[0, 2, ...]",
        "Global rank start": 0,
        "Global rank stride": 2,
    }
    whole = Meta.of(args)
    assert whole is not None
    assert whole.group_ranks == [0, 2, 4, 6]
    unknown = Meta.of(args | {"Global rank stride": -1})
    assert unknown is not None
    assert unknown.group_ranks == "[0, 2, ...]"

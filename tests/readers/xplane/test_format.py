"""Profiles of XLA: kernels, copies, steps and collectives of GPU planes; damaged and hostile files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nccl_insight
from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.xplane import FORMAT
from nccl_insight.readers.xplane import format as xplane
from tests.trace_maker import late_gpu
from tests.xplane_maker import START_NS, Plane, part, space

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def one_gpu(refer: bool = True) -> list[Plane]:
    """Two steps: a GEMM and an all-reduce that it half covers; an all-to-all that NCCL runs as sends; a copy."""
    gpu = Plane("/device:GPU:3", refer)
    gpu.line(
        "Stream #7(Compute)", 1_000_000, [("gemm_fusion", 100, 100, [("correlation_id", 1), ("hlo_op", "fusion.1")])]
    )
    gpu.line(
        "Stream #9(Kernel)",
        1_000_000,
        [
            (ALL_REDUCE, 150, 100, [("correlation_id", 2), ("hlo_op", "all-reduce-start.3")]),
            (SEND_RECV, 400, 50, [("correlation_id", 3), ("hlo_op", "%all-to-all.12.clone")]),
            ("MemcpyD2H", 500, 10, [("memcpy_details", "kind_src:device kind_dst:host size:4096 dest:0 async:1")]),
        ],
    )
    gpu.line("XLA Ops", 1_000_000, [("all-reduce-start.3", 150, 100, [])])
    host = Plane("/host:CPU")
    host.line(
        "python3",
        1_000_000,
        [
            ("$loop.py:7 step", 0, 700, []),
            ("train", 0, 120, [("step_num", 41)]),
            ("train", 120, 200, [("step_num", 42)]),
            ("cuLaunchKernel", 50, 5, [("correlation_id", 1)]),
            ("cuLaunchKernel", 60, 5, [("correlation_id", 2)]),
            ("cuLaunchKernel", 130, 5, [("correlation_id", 3)]),
        ],
    )
    return [gpu, host, Plane("/device:GPU:4")]


def write(path: Path, planes: list[Plane], host: str = "node-a") -> Path:
    path.write_bytes(space(planes, host))
    return path


@pytest.mark.parametrize("refer", [True, False])
def test_one_gpu_in_full(tmp_path: Path, refer: bool) -> None:
    run = nccl_insight.load([write(tmp_path / "node-a.xplane.pb", one_gpu(refer))])
    assert run.table("inputs")["kind"].to_list() == ["xplane"]
    rows = run.table("collectives")
    at = START_NS + 1_000_000
    assert rows.select("rank", "device", "op", "start_ns", "duration_ns", "exposed_ns", "stream", "step").rows() == [
        (3, 3, "AllReduce", at + 150_000, 100_000, 50_000, 9, 41),
        (3, 3, "AllToAll", at + 400_000, 50_000, 50_000, 9, 42),
    ]
    steps = run.table("steps").select("step", "compute_ns", "comm_ns").rows()
    assert steps == [(41, 100_000, 100_000), (42, 0, 50_000)]
    assert run.table("memcpy").select("name", "size_bytes", "duration_ns").rows() == [("MemcpyD2H", 4096, 10_000)]
    (info,) = run.table("trace_info").to_dicts()
    assert (info["host"], info["gpu_events"], info["comm_kernels"], info["clock"]) == ("node-a", 4, 2, "epoch")


def _late_gpu(late: int) -> list[Plane]:
    planes = []
    for gpu, work in enumerate(late_gpu(late)):
        planes.append(Plane(f"/device:GPU:{gpu}"))
        planes[-1].line(
            "Stream #1(Compute)", 0,
            [(ALL_REDUCE if reduces else "gemm", start, end - start,
              [("hlo_op", "all-reduce.1")] if reduces else []) for reduces, start, end in work],
        )  # fmt: skip
    return planes


def test_a_late_gpu_of_one_host_is_named(tmp_path: Path) -> None:
    analysis = nccl_insight.analyze(nccl_insight.load([write(tmp_path / "a.xplane.pb", _late_gpu(2))]))
    (finding,) = [f for f in analysis.findings if f.name == "straggler-rank"]
    assert list(finding.ranks) == [2]
    assert [(mend.kind, mend.ranks) for mend in analysis.what_if] == [("rank", (2,))]
    assert analysis.what_if[0].alone_ns == pytest.approx(60 * 300_000, rel=0.1)


def test_gpus_of_several_files_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """Each file numbers its GPUs from 0, so their numbers are no ranks of the job."""
    paths = [write(tmp_path / f"{host}.xplane.pb", _late_gpu(2), host) for host in ("node-a", "node-b")]
    run = nccl_insight.load(paths)
    assert run.table("collectives")["rank"].null_count() == run.table("collectives").height
    assert any("number their GPUs" in note for note in run.table("notes")["detail"])
    assert "straggler-rank" not in [f.name for f in nccl_insight.analyze(run).findings]


def test_a_profile_of_other_devices_says_so(tmp_path: Path) -> None:
    tpu = Plane("/device:TPU:0")
    tpu.line("XLA Ops", 0, [("fusion.1", 0, 5, [])])
    run = nccl_insight.load([write(tmp_path / "t.xplane.pb", [tpu])])
    assert "the profile holds no activity of a GPU (TPU is not read)" in run.table("notes")["detail"].to_list()


def test_what_stands_before_a_cut_is_read(tmp_path: Path) -> None:
    data = space(one_gpu())
    for cut in range(1, len(data), 7):
        path = tmp_path / "cut.xplane.pb"
        path.write_bytes(data[:cut])
        tables = xplane.read(find_inputs([str(path)])[0]).tables
        kinds = set(tables["notes"]["kind"].to_list())
        assert "trace-truncated" in kinds or cut >= len(data) - len(part(4, "node-a")), cut
    path.write_bytes(data[:-60])
    assert xplane.read(find_inputs([str(path)])[0]).tables["collectives"].height == 2


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=300), st.integers(0, 900))
def test_hostile_bytes_never_raise(noise: bytes, at: int) -> None:
    data = space(one_gpu())
    xplane._scan(data[:at] + noise + data[at:])
    xplane._scan(noise)


def test_text_is_not_taken_for_a_profile() -> None:
    assert FORMAT.sniff(b"\nnode-a:1:1 [0] NCCL INFO /device:GPU:0", "run.log") == 0.0
    assert FORMAT.sniff(space(one_gpu())[:4096], "whatever.bin") > 0.9

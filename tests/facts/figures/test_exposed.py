"""Whose communication is exposed: the process group, the operation and the code that asked for it."""

from __future__ import annotations

import json
from pathlib import Path

import nccl_insight
from nccl_insight.facts.figures.exposed import asked_by, exposed_by

MOE, HOOK = "nn.Module: MoE_3", "FSDP::pre_backward"


def _trace(folder: Path) -> str:
    """Four steps: 2 ms of compute, an all-to-all of 3 ms behind it, an all-gather of 4 ms half beside 2 ms of compute.

    Microseconds; the base lets CPU and GPU times differ from those in the file.
    """
    events: list[dict[str, object]] = []

    def add(cat: str, name: str, ts: float, dur: float, tid: int, **args: object) -> None:
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args})

    def work(
        name: str, ts: float, dur: float, called: float, tid: int, number: int, stream: int, **args: object
    ) -> None:
        add("cuda_runtime", "cudaLaunchKernelExC", called, 5.0, tid, correlation=number)
        add("kernel", name, ts, dur, stream, device=0, stream=stream, correlation=number, **args)

    def group(name: str, op: str, number: int) -> dict[str, object]:
        return {
            "Collective name": op, "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "Group size": 2,
            "dtype": "Float", "Process Group Name": name, "Process Group Ranks": "[0, 1]", "Seq": number,
        }  # fmt: skip

    for step in range(4):
        at = 1000.0 + step * 10_000
        add("user_annotation", f"ProfilerStep#{step}", at, 9_990.0, 1)
        add("python_function", "train.py(41): step", at + 5, 900.0, 1)
        add("python_function", MOE, at + 10, 300.0, 1)
        add("python_function", "site-packages/moe/dispatch.py(7): dispatch", at + 15, 280.0, 1)
        add("cpu_op", "c10d::alltoall_base_", at + 100, 50.0, 1)
        work("gemm", at + 200, 2_000.0, at + 20, 1, 10 * step + 1, 7)
        work(
            "ncclDevKernel_SendRecv(x)",
            at + 2_200,
            3_000.0,
            at + 110,
            1,
            10 * step + 2,
            20,
            **group("2", "all_to_allv", step),
        )
        # The thread of the backward pass, at the same time as the module of the other one.
        add("user_annotation", HOOK, at + 90, 100.0, 2)
        add("user_annotation", "nccl:_all_gather_base", at + 100, 50.0, 2)
        work(
            "ncclDevKernel_AllGather_RING_LL(x)",
            at + 5_200,
            4_000.0,
            at + 105,
            2,
            10 * step + 3,
            21,
            **group("0", "_allgather_base", step),
        )
        work("gemm", at + 5_200, 2_000.0, at + 120, 2, 10 * step + 4, 7)
    groups = [{"pg_name": "0", "pg_desc": "default_pg"}, {"pg_name": "2", "pg_desc": "expert_parallel"}]
    info = {"backend": "nccl", "rank": 0, "world_size": 2, "pg_config": [{**g, "ranks": [0, 1]} for g in groups]}
    made = {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": 1 << 60, "traceEvents": events}
    (folder / "rank0.json").write_text(json.dumps(made))
    return str(folder / "rank0.json")


def test_exposed_time_has_a_group_an_operation_and_code(tmp_path: Path) -> None:
    run = nccl_insight.load(_trace(tmp_path))
    found = exposed_by(run).select("process_group", "op", "count", "exposed_ns", "share").rows()
    assert found == [
        ("expert_parallel", "AllToAllv", 4, 12_000_000, 0.6),
        ("default_pg", "AllGather", 4, 8_000_000, 0.4),
    ]
    assert asked_by(run, 0).rows() == [
        ("MoE_3, train.py(41): step", "AllToAllv", 12_000_000),
        (HOOK, "AllGather", 8_000_000),
    ]
    (finding,) = [f for f in nccl_insight.analyze(run).findings if f.name == "exposed-communication"]
    assert "AllToAllv of expert_parallel is 60% of it (12 ms in 4 calls)" in finding.explanation
    assert "asked for by MoE_3, train.py(41): step (12 ms)" in finding.explanation
    assert finding.evidence[-1].text == "asked for by MoE_3, train.py(41): step"

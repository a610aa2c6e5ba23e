"""Why a GPU stood idle: calls on the launching thread that the peers' threads do not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.facts.lateness.idle import asked_from, why_idle
from tests.by_hand import run

TRACES = Path(__file__).parents[3] / "fixtures" / "traces"


def _trace(
    rank: int, stall: tuple[str, str] | None, named: bool = True, stall_us: float = 6_000.0, work_us: float = 8_000.0
) -> dict[str, object]:
    """Eight steps of compute and an all-reduce; ``stall``: category and name of what stands some time in a step."""
    events: list[dict[str, object]] = []

    def add(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: object) -> None:
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args})

    slow = stall_us if stall else 0.0
    step_us = work_us + 2_000.0 + stall_us
    for step in range(8):
        begin = step * step_us
        own = begin + slow
        add("user_annotation", f"ProfilerStep#{step}", begin, step_us - 10.0)
        if stall and named:
            add(stall[0], stall[1], begin + 10.0, slow)
        correlation = step * 10
        add("cuda_runtime", "cudaLaunchKernel", own + 15.0, 5.0, correlation=correlation + 1)
        add("kernel", "gemm", own + 30.0, work_us, 7, device=0, stream=7, correlation=correlation + 1)
        add("cuda_runtime", "cudaLaunchKernelExC", own + 25.0, 5.0, correlation=correlation + 2)
        start, end = own + work_us + 40.0, begin + stall_us + work_us + 240.0
        add(
            "kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", start,
            end - start, 20, device=0, stream=20, correlation=correlation + 2,
            **{
                "Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
                "Group size": 3, "dtype": "BFloat16", "Process Group Name": "0",
                "Process Group Ranks": "[0, 1, 2]", "Seq": step,
            },
        )  # fmt: skip
    info = {"backend": "nccl", "rank": rank, "world_size": 3}
    return {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}


def _late(folder: Path, stall: tuple[str, str], named: bool = True) -> str:
    for rank in range(3):
        made = _trace(rank, stall if rank == 1 else None, named)
        (folder / f"rank{rank}.json").write_text(json.dumps(made))
    found = nccl_insight.analyze(nccl_insight.load(str(folder))).findings
    (late,) = [f for f in found if f.name == "straggler-rank"]
    assert late.ranks == (1,)
    return f"{late.explanation} {late.next_step}"


def test_a_call_that_peers_do_not_have_is_the_reason(tmp_path: Path) -> None:
    said = _late(tmp_path, ("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"))
    assert "DataLoader" in said
    assert "num_workers" in said


def test_the_allocator_is_named(tmp_path: Path) -> None:
    said = _late(tmp_path, ("cuda_runtime", "cudaMalloc"))
    assert "cudaMalloc stands in" in said
    assert "expandable_segments" in said


@pytest.mark.parametrize("named", [True, False])
def test_calls_of_all_ranks_are_told_where_they_cost_a_tenth_of_the_time(tmp_path: Path, named: bool) -> None:
    """A fifth of the time idle, most of it in calls of the allocator, or in nothing that was recorded."""
    for rank in range(3):
        made = _trace(rank, ("cuda_runtime", "cudaMalloc"), named, 2_500.0, 16_000.0)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(made))
    found = nccl_insight.analyze(nccl_insight.load(str(tmp_path))).findings
    idle = [(f.ranks, "cudaMalloc" in f.title) for f in found if f.name == "gpu-idle"]
    assert idle == ([((0, 1, 2), True)] if named else [])


def test_where_no_event_stands_none_is_claimed(tmp_path: Path) -> None:
    said = _late(tmp_path, ("cuda_runtime", "cudaMalloc"), named=False)
    assert "Nothing on the launching thread" in said
    assert "py-spy" in said
    assert "cudaMalloc" not in said


@pytest.mark.parametrize(
    ("name", "what", "step"),
    [
        ("loader", "DataLoader", "more DataLoader workers"),
        ("alloc", "cudaFree and cudaMalloc", "smaller batches"),
        ("gc", "collect()", "gc.freeze()"),
    ],
)
def test_one_gpu_alone_is_told_why_it_stands_idle(name: str, what: str, step: str) -> None:
    found = nccl_insight.analyze(TRACES / "gpu_idle" / f"{name}.json.gz").findings[0]
    assert (found.name, found.ranks) == ("gpu-idle", (0,))
    assert found.title.startswith("The GPU stands idle for ")
    assert what in found.title
    assert step in found.next_step


def test_one_gpu_that_computes_is_not_idle() -> None:
    assert not nccl_insight.analyze(TRACES / "gpu_idle" / "healthy.json.gz").findings


def test_a_gpu_whose_collective_runs_on_the_cpu_is_not_idle_meanwhile() -> None:
    """Rank 1 sleeps 12 times 20 ms; the other waits for it in Gloo, its GPU as empty as that of the late one."""
    analysis = nccl_insight.analyze(TRACES / "gloo_gpu_late_rank1")
    loud = [f for f in analysis.findings if f.severity.name in ("ERROR", "WARNING")]
    assert [(f.name, f.ranks) for f in loud] == [("straggler-rank", (1,))]
    assert "sleep() (ddp.py(6): slow_augment)" in loud[0].next_step
    assert analysis.what_if[0].gain_ns == pytest.approx(240e6, rel=0.05)


def test_the_steps_of_a_capture_are_not_judged(tmp_path: Path) -> None:
    head = {"kind": "head", "nccl_insight_capture": 1, "rank": 0, "world_size": 1, "local_rank": 0, "host": "vm"}
    (tmp_path / "capture.rank0.jsonl").write_text("".join(json.dumps(x) + "\n" for x in (head, {"kind": "end"})))
    trace = TRACES / "gpu_idle" / "loader.json.gz"
    assert [f.name for f in nccl_insight.analyze([trace]).findings] == ["gpu-idle"]
    assert not nccl_insight.analyze([trace, tmp_path]).findings


def test_without_a_trace_that_can_be_read_again_nothing_is_told() -> None:
    assert why_idle(run(), (0,)) is None
    assert why_idle(run(gpu_work=[{"input_id": 0}]), (0,), (1,)) is None
    assert asked_from(run(), 0, [1, 2]) == ["", ""]

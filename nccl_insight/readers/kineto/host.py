"""What the CPU did in a Kineto trace, read a second time for the few ranks that stand idle: calls of the CUDA runtime,
operations, annotations and Python functions, beside the times in which the GPU was busy."""

from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.inputs.blocks import DamagedStream, read_blocks
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers.chrome import CHUNK_BYTES, ChromeScan
from nccl_insight.readers.kineto.events import CPU_BACKENDS, to_ns

_CATS: Final = "cpu_op|user_annotation|python_function|cuda_runtime|cuda_driver|hip_runtime|hip_driver"
_MARKERS: Final = (late.compiled(rf'"cat"\s*:\s*"(?:{_CATS}|kernel|gpu_mem)'.encode()),)
_LEAST_NS: Final = 2_000
_MOST: Final = 3_000_000
_LAUNCH: Final = late.compiled(r"(?:cu|cuda|hip)\w{0,20}(?:Launch|Memcpy|Memset)")
_STEP: Final = late.compiled(r"ProfilerStep#?\s*([0-9]{1,9})")


@dataclass(frozen=True)
class HostTrace:
    """``cpu``: ``tid, name, cat, start_ns, end_ns`` of events of 2 us or more, sorted by thread, start and length;
    ``gpu``: ``start_ns, end_ns`` of GPU work and of collectives on the CPU, for which it waits; ``steps``: ``step,
    start_ns, end_ns``; ``launches``: per thread.
    """

    cpu: pl.DataFrame
    gpu: pl.DataFrame
    steps: pl.DataFrame
    launches: pl.DataFrame


def read_host(source: InputFile) -> HostTrace | None:
    """The events of one file; None where it cannot be read again or holds more than three million of them."""
    cpu: list[tuple[str, str, str, int, int]] = []
    gpu: list[tuple[int, int]] = []
    steps: dict[int, tuple[int, int]] = {}
    launches: list[tuple[str, int]] = []
    try:
        for batch in ChromeScan(read_blocks(source, CHUNK_BYTES), _MARKERS):
            for event in batch:
                start, length = to_ns(event.get("ts")), to_ns(event.get("dur"))
                cat, name = event.get("cat"), event.get("name")
                if start is None or length is None or not isinstance(cat, str) or not isinstance(name, str):
                    continue
                if cat.startswith(("kernel", "gpu_mem")) or name.startswith(CPU_BACKENDS):
                    gpu.append((start, start + length))
                    continue
                step = _STEP.match(name)
                if step:
                    steps[int(step[1])] = (start, start + length)
                    continue
                thread = f"{event.get('pid')}/{event.get('tid')}"
                if _LAUNCH.match(name):
                    launches.append((thread, start))
                if length >= _LEAST_NS:
                    cpu.append((thread, name, cat, start, start + length))
            if len(cpu) + len(gpu) > _MOST:
                return None
    except (OSError, DamagedStream):
        return None
    if not cpu or not gpu:
        return None
    times = {"start_ns": pl.Int64, "end_ns": pl.Int64}
    words = ("tid", "name", "cat")
    return HostTrace(
        pl.DataFrame(cpu, schema={**dict.fromkeys(words, pl.String), **times}, orient="row")
        .sort("tid", "start_ns", "end_ns", descending=[False, False, True], maintain_order=True)
        .with_columns(pl.col(words).cast(pl.Categorical)),
        pl.DataFrame(gpu, schema=times, orient="row").sort("start_ns"),
        pl.DataFrame([(n, *at) for n, at in steps.items()], schema={"step": pl.Int64, **times}, orient="row").sort(
            "start_ns"
        ),
        pl.DataFrame(launches, schema={"tid": pl.String, "at_ns": pl.Int64}, orient="row").sort("at_ns"),
    )

"""Speed and memory of the torch.profiler reader on a generated trace. Not a test: it prints and asserts nothing.

usage: python -m benchmarks.bench_traces [--megabytes 470] [--gzip] [--keep FILE] [FILE]

With FILE an existing trace is read instead. Reports MB of (decompressed) JSON per CPU second and peak memory of a
process of its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from pathlib import Path
from typing import IO, cast

from benchmarks.alone import read_measured, run


def _events(count: int, rng: random.Random) -> list[str]:
    """A block of events in the proportions of a training trace, in Kineto's own layout."""
    made: list[str] = []
    for i in range(count):
        ts = f"{4458676416788.066 + 11.7 * i:.3f}"
        kind = rng.random()
        if kind < 0.10:
            comm = rng.random() < 0.1
            name = (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                if comm
                else "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, ...)"
            )
            extra = (
                ',\n      "Collective name": "allreduce", "In msg nelems": 6637568, "Out msg nelems": 6637568, '
                '"Group size": 8, "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]"'
                if comm
                else ""
            )
            made.append(
                f'  {{\n    "ph": "X", "cat": "kernel", "name": {json.dumps(name)}, "pid": 0, "tid": 7,\n'
                f'    "ts": {ts}, "dur": {rng.uniform(2, 300):.3f},\n    "args": {{\n'
                f'      "External id": {i},\n      "queued": 0, "device": 0, "context": 1,\n      "stream": 7, '
                f'"correlation": {i},\n      "registers per thread": 96,\n      "shared memory": 87568,\n'
                '      "blocks per SM": 0.074074,\n      "warps per SM": 1.259259,\n      "grid": [8, 1, 1],\n'
                f'      "block": [544, 1, 1],\n      "est. achieved occupancy %": 0{extra}\n    }}\n  }}'
            )
        elif kind < 0.50:
            made.append(
                f'  {{\n    "ph": "{rng.choice("sf")}", "id": {i}, "pid": 0, "tid": 7, "ts": {ts},\n'
                '    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }'
            )
        else:
            launch = kind < 0.60  # as many launches as kernels
            category, name = ("cuda_runtime", "cudaLaunchKernel") if launch else ("cpu_op", "aten::add_")
            extra = f', "correlation": {i}' if launch else ""
            made.append(
                f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", '
                f'"pid": 2910249, "tid": 2910249,\n    "ts": {ts}, "dur": {rng.uniform(1, 90):.3f},\n    "args": {{\n'
                f'      "External id": {i},"Record function id": 0, "Ev Idx": {i}{extra}\n    }}\n  }}'
            )
    return made


def generate(path: Path, megabytes: int, packed: bool) -> None:
    """Writes a trace of about the given size."""
    rng = random.Random(0)
    block = ",\n".join(_events(40_000, rng)).encode()
    with cast("IO[bytes]", gzip.open(path, "wb", 1) if packed else path.open("wb")) as out:
        out.write(
            b'{\n  "schemaVersion": 1,\n  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},\n'
        )
        out.write(b'  "baseTimeNanoseconds": 1711964646000000000,\n  "traceEvents": [\n')
        for i in range(max(1, megabytes * 1_000_000 // len(block))):
            shifted = block.replace(b'"ts": 4458', b'"ts": %d' % (4458 + i))
            out.write((b",\n" if i else b"") + shifted)
        out.write(b'\n  ],\n  "traceName": "bench"\n}\n')


def measure(path: Path) -> None:
    """Reads the trace in this process and prints figures."""
    from nccl_insight.readers.kineto import FORMAT

    part, cpu, figures = read_measured(path, FORMAT.read)
    info = part.tables["trace_info"].row(0, named=True)
    size = info["bytes_read"] / 1e6
    print(f"{size:.0f} MB JSON, {info['events']:,} events, {info['gpu_events']:,} of the GPU")
    print(f"{size / cpu:.0f} MB per CPU second ({figures})")


def main() -> None:
    """See :func:`benchmarks.alone.run`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=470)
    parser.add_argument("--gzip", action="store_true")
    run(
        "benchmarks.bench_traces",
        parser,
        lambda options: "bench.json.gz" if options.gzip else "bench.json",
        lambda path, options: generate(path, options.megabytes, options.gzip),
        measure,
    )


if __name__ == "__main__":
    main()

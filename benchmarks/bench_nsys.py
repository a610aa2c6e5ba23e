"""Speed and memory of the Nsight Systems reader on a generated SQLite export. Not a test: it prints, asserts nothing.

usage: python -m benchmarks.bench_nsys [--kernels 5000000] [--no-steps] [--keep FILE] [FILE]

With FILE an existing export is read instead. Reports CPU seconds and peak memory of a process of its own.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path

from benchmarks.alone import read_measured, run

_TABLES = """
create table StringIds (id integer not null primary key, value text not null);
create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer, utcTime text);
create table CUPTI_ACTIVITY_KIND_KERNEL (start integer not null, end integer not null, deviceId integer not null,
    streamId integer not null, correlationId integer, globalPid integer, demangledName integer not null,
    shortName integer not null, gridX integer, blockX integer);
create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer not null, end integer not null, eventClass integer not null,
    globalTid integer, correlationId integer, nameId integer not null, returnValue integer not null);
create table CUPTI_ACTIVITY_KIND_MEMCPY (start integer not null, end integer not null, deviceId integer not null,
    streamId integer not null, correlationId integer, globalPid integer, bytes integer not null,
    copyKind integer not null, srcKind integer, dstKind integer);
create table NVTX_EVENTS (start integer not null, end integer, eventType integer not null, text text,
    globalTid integer, textId integer, domainId integer, binaryData blob);
create table NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId integer, schemaId integer, idx integer, type integer, name text,
    offset integer);
"""
_SCHEMAS = [
    (900, "NCCL communicator ID", 0), (900, "No. of ranks", 8), (900, "Rank", 12), (900, "CUDA device", 16),
    (901, "NCCL communicator ID", 0), (901, "Message size [bytes]", 8), (901, "Reduction operation", 16),
]  # fmt: skip
_COMPUTE = 60
_PROCESSES = 2
_EVERY = 25
_KERNELS_PER_STEP = 5_000
_GROUP_HEADER = struct.Struct("<QQQQ")


def _payload(schema: int, data: bytes) -> bytes:
    return _GROUP_HEADER.pack(1, schema, len(data), _GROUP_HEADER.size + len(data)) + data


def generate(path: Path, kernels: int, steps: bool = True) -> None:
    """Writes an export: two processes with a GPU each, one kernel in 25 an NCCL kernel with its call, copies, steps."""
    rng = random.Random(0)
    with sqlite3.connect(path) as base:
        base.executescript("pragma journal_mode=off; pragma synchronous=off;" + _TABLES)
        names = [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclAllReduce",
            "cudaLaunchKernelExC_v11060", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclCommInitRank",
            *(f"void at::native::vectorized_elementwise_kernel<{i}, at::native::CUDAFunctor_add<float>>(int, T1, T2)"
              for i in range(_COMPUTE)),
        ]  # fmt: skip
        base.executemany("insert into StringIds values (?, ?)", enumerate(names, 1))
        base.execute("insert into TARGET_INFO_SESSION_START_TIME values (1779782330176752435, '')")
        base.executemany("insert into NVTX_PAYLOAD_SCHEMA_ENTRIES values (1, ?, 0, 0, ?, ?)", _SCHEMAS)
        for process in range(_PROCESSES):
            pid = (1 << 48) + ((4_000 + process) << 24)
            count = kernels // _PROCESSES
            blob = _payload(900, struct.pack("<Qiii", 77, _PROCESSES, process, process))
            base.execute("insert into NVTX_EVENTS values (1, 2, 59, null, ?, 5, 1, ?)", (pid + 5, blob))
            base.executemany(
                "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,?,?,?,?,?,?,1,256)",
                _kernels(count, process, pid, rng),
            )
            base.executemany(
                "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,0,?,?,3,0)",
                ((10 * k * 1_000, 10 * k * 1_000 + 4_000, pid + 5, k + 1) for k in range(count)),
            )
            base.executemany(
                "insert into CUPTI_ACTIVITY_KIND_MEMCPY values (?,?,?,9,?,?,4096,1,0,2)",
                (
                    (10_000 * k + 700, 10_000 * k + 2_000, process, count + k, pid)
                    for k in range(0, count, 50)
                ),
            )
            base.executemany(
                "insert into NVTX_EVENTS values (?,?,59,null,?,2,1,?)",
                (
                    (10_000 * k - 500, 10_000 * k + 4_500, pid + 5,
                     _payload(901, struct.pack("<QQQ", 77, 1 << rng.randint(10, 26), 0)))
                    for k in range(_EVERY, count, _EVERY)
                ),
            )  # fmt: skip
            if steps:
                base.executemany(
                    "insert into NVTX_EVENTS values (?,?,59,?,?,null,1,null)",
                    (
                        (10_000 * k, 10_000 * (k + _KERNELS_PER_STEP) - 1_000,
                         f"ProfilerStep#{k // _KERNELS_PER_STEP}", pid + 6)
                        for k in range(0, count, _KERNELS_PER_STEP)
                    ),
                )  # fmt: skip


def _kernels(count: int, device: int, pid: int, rng: random.Random) -> Iterator[tuple[int, ...]]:
    for k in range(count):
        start = 10_000 * k + 6_000 + rng.randrange(900)
        if k % _EVERY:
            name = 6 + k % _COMPUTE
            yield start, start + 8_000 + rng.randrange(1_500), device, 7, k + 1, pid, name, name
        else:
            yield start, start + rng.randrange(5_000, 90_000), device, 20, k + 1, pid, 1, 4


def measure(path: Path) -> None:
    """Reads the export in this process and prints figures."""
    from nccl_insight.readers.nsys import FORMAT

    part, _, figures = read_measured(path, FORMAT.read)
    events = part.tables["trace_info"]["gpu_events"].sum()
    print(
        f"{path.stat().st_size / 1e6:.0f} MB, {events:,} events of the GPU, "
        f"{part.tables['collectives'].height:,} collectives: {figures}"
    )


def main() -> None:
    """See :func:`benchmarks.alone.run`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=5_000_000)
    parser.add_argument("--no-steps", action="store_true")
    run(
        "benchmarks.bench_nsys",
        parser,
        lambda _: "bench.sqlite",
        lambda path, options: generate(path, options.kernels, not options.no_steps),
        measure,
    )


if __name__ == "__main__":
    main()

"""Side files of every format, and the tables that are read from them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nccl_insight.inputs.find import InputFile, find_inputs
from nccl_insight.readers import Format
from nccl_insight.tables.run import Run, build_run
from tests import runs

SHARED = runs.SHARED
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="NCCL_INSIGHT_REFERENCE_DATA is not set")


def one(path: Path) -> InputFile:
    return find_inputs([str(path)])[0]


def tables(format_: Format, path: Path) -> dict[str, pl.DataFrame]:
    return dict(format_.read(one(path)).tables)


def write(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def run_of(*parts: dict[str, pl.DataFrame]) -> Run:
    merged: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for name, frame in part.items():
            merged.setdefault(name, []).append(frame)
    return build_run({n: pl.concat(f, how="diagonal_relaxed") for n, f in merged.items()})


# --- nccl-tests ----------------------------------------------------------------------------------------------

NEW_TABLE = """\
# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907
# Collective test starting: reduce_scatter_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 134217728 step: 4(factor) warmup iters: 1 iters: 1 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid 100 on     node-a device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 101 on     node-b device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           128     float     sum      -1    12.34    0.08    0.04       0    11.20    0.09    0.05     N/A
[1,0]<stdout>:  134217728   16777216  float   sum   -1   1000.0  134.22   67.11    3  1.2e+03  111.85   55.92    0
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 30.78
"""
# --- RAS -----------------------------------------------------------------------------------------------------

RAS_HEAD = """\
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH,INCOMPLETE

"""

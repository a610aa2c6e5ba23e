"""Logs with the tables of the tuning model, beside what the same jobs measured."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.tables.run import Run, build_run

REFERENCE = os.environ.get("NCCL_INSIGHT_REFERENCE_DATA") or None
needs_reference = pytest.mark.skipif(REFERENCE is None, reason="NCCL_INSIGHT_REFERENCE_DATA names no reference data")


def simulated(name: str) -> Run:
    return nccl_insight.load(Path(str(REFERENCE)) / "simulated" / name)


def bench(gpu: str, busbw: float, n_hosts: int = 1, nranks: int = 8) -> Run:
    rows = pl.DataFrame(
        {
            "input_id": [0], "op": ["AllReduce"], "size_bytes": [1 << 30], "in_place": [False],
            "time_us": [(1 << 30) / busbw / 1e3 * 2 * (nranks - 1) / nranks], "busbw_gbps": [busbw],
            "nranks": [nranks], "n_hosts": [n_hosts], "gpu": [gpu], "line": [7], "wrong": [0],
        }
    )  # fmt: skip
    return build_run({"benchmarks": rows})

"""Dumps of the flight recorder, written by hand."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import polars as pl

from nccl_insight.facts.progress.claims import DUMPS, Claim
from nccl_insight.facts.progress.waitfor import verdict
from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.flight_recorder import format as flight_recorder
from nccl_insight.tables.run import Run, build_run


def entry(seq: int, op: str = "all_reduce", group: str = "0", **more: Any) -> dict[str, Any]:
    return {
        "record_id": seq, "pg_id": 0, "process_group": [group, "default_pg"], "collective_seq_id": seq,
        "p2p_seq_id": 0, "op_id": seq, "profiling_name": f"nccl:{op}",
        "time_created_ns": 1_700_000_000_000_000_000 + seq,
        "input_sizes": [[1024, 2]], "input_dtypes": ["Float"], "output_sizes": [[1024, 2]], "output_dtypes": ["Float"],
        "state": "scheduled", "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
        "retired": False, "timeout_ms": 600_000, "is_p2p": False, **more,
    }  # fmt: skip


def done(seq: int, **more: Any) -> dict[str, Any]:
    return entry(seq, state="completed", retired=True, **more)


def dump(entries: list[dict[str, Any]], ranks: int = 4) -> dict[str, Any]:
    members = str(list(range(ranks)))
    return {
        "version": "2.10",
        "entries": entries,
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": members}},
        "pg_status": {},
    }


def load(directory: Path) -> Run:
    tables: dict[str, list[pl.DataFrame]] = {}
    for source in find_inputs([str(directory)]):
        for name, frame in flight_recorder.read(source).tables.items():
            tables.setdefault(name, []).append(frame)
    return build_run({n: pl.concat(f, how="diagonal_relaxed") for n, f in tables.items()})


def dumps(directory: Path, by_rank: dict[int, list[dict[str, Any]]], ranks: int = 4) -> Run:
    for rank, entries in by_rank.items():
        (directory / f"dump_{rank}").write_bytes(pickle.dumps(dump(entries, ranks), protocol=2))
    return load(directory)


def claims(run: Run) -> tuple[Claim, ...]:
    """What the dumps say about ranks that others wait for."""
    return verdict(run, DUMPS).claims


def started(seq: int, **more: Any) -> dict[str, Any]:
    return entry(seq, state="started", time_discovered_started_ns=1_700_000_000_000_000_100 + seq, **more)

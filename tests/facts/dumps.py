"""Dumps of the flight recorder, written by hand."""

from __future__ import annotations

from typing import Any


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

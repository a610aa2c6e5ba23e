"""The table contract: names, columns and types of every table (public API).

``None`` values mean unknown. Units are in the column names. ``enum`` columns are polars Enums.
Tables not listed here may exist (one per family of messages); they carry ``input_id`` and ``line`` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import polars as pl

Columns: TypeAlias = Mapping[str, "pl.DataType | type[pl.DataType]"]

_STRS = pl.List(pl.String)
_INTS = pl.List(pl.Int32)
OPS: Final = (
    "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send", "Recv", "AllToAll",
    "AllToAllv", "Gather", "Scatter", "Barrier", "SendRecv", "PutSignal", "WaitSignal", "Signal", "Other",
)  # fmt: skip
KINDS: Final = (
    "nccl_log", "torch_trace", "nsys_sqlite", "nsys_parquet", "flight_recorder", "nccl_tests", "inspector", "ras",
    "topo_xml", "graph_xml", "smi_topo", "smi_nvlink", "capture", "rocpd", "xplane", "unreadable", "unknown",
)  # fmt: skip

# Levels that report no trouble. A line of any other level, also of one that a later release adds, is judged like WARN.
QUIET_LEVELS: Final = ("INFO", "TRACE", "CALL", "VERSION")


def is_loud(levels: pl.Expr) -> pl.Expr:
    """Whether records of a level are judged like warnings: WARN, ATTN, ERROR, ABORT, DIAG and any new name."""
    return ~levels.is_in(QUIET_LEVELS)


def _enum(*values: str) -> pl.Enum:
    return pl.Enum(list(values))


PROVENANCE: Final[Columns] = {"input_id": pl.UInt16, "line": pl.UInt64}
OP: Final = _enum(*OPS)

_LOG_TABLES: Final[Mapping[str, Columns]] = {
    "processes": {
        "host": pl.String, "pid": pl.Int64, "launcher_rank": pl.Int32, "nccl_version": pl.String,
        "cuda_version": pl.String, "driver_version": pl.Int32, "library": _enum("nccl", "rccl"),
        "network": pl.String,
    },
    "communicators": {
        "comm_id": pl.String, "comm_id_made": pl.Boolean, "nranks": pl.Int32, "ranks_seen": pl.Int32,
        "missing_ranks": _INTS, "n_nodes": pl.Int32, "hosts": _STRS, "parent_comm_id": pl.String,
        "api": pl.String, "nccl_versions": _STRS, "init_complete": pl.Boolean,
    },
    "ranks": {
        "comm_id": pl.String, "comm": pl.String, "host": pl.String, "pid": pl.Int64, "tid": pl.Int64,
        "rank": pl.Int32, "nranks": pl.Int32, "cuda_dev": pl.Int32, "nvml_dev": pl.Int32, "bus_id": pl.String,
        "n_nodes": pl.Int32, "local_rank": pl.Int32, "local_ranks": pl.Int32, "init_started": pl.Boolean,
        "init_complete": pl.Boolean, "destroyed": _enum("no", "destroyed", "aborted"),
        "init_started_line": pl.UInt64, "init_completed_line": pl.UInt64, "destroyed_line": pl.UInt64,
    },
    "env": {
        "host": pl.String, "pid": pl.Int64, "name": pl.String, "value": pl.String,
        "origin": _enum("environment", "config", "file", "default"),
    },
    "init_timings": {
        "comm_id": pl.String, "rank": pl.Int32, "total_s": pl.Float64, "kernels_s": pl.Float64,
        "alloc_s": pl.Float64, "bootstrap_s": pl.Float64, "allgathers_s": pl.Float64, "topo_s": pl.Float64,
        "graphs_s": pl.Float64, "connections_s": pl.Float64, "rest_s": pl.Float64,
    },
    "connected": {
        "host": pl.String, "pid": pl.Int64, "comm_id": pl.String, "rank": pl.Int32, "milestone": pl.String,
        "pxn": pl.Int32, "gdr": pl.Int32,
    },
    "milestones": {
        "comm_id": pl.String, "rank": pl.Int32, "host": pl.String, "pid": pl.Int64, "launched": pl.UInt64,
        "bootstrapped": pl.UInt64, "init_started": pl.UInt64, "init_completed": pl.UInt64,
        "connected": pl.UInt64, "first_call": pl.UInt64, "last_call": pl.UInt64, "destroyed": pl.UInt64,
        "end": _enum("destroyed", "aborted", "cut", "silent", "running"),
    },
    "net_devices": {
        "host": pl.String, "pid": pl.Int64, "network": pl.String, "index": pl.Int32, "name": pl.String,
        "port": pl.Int32, "link_layer": _enum("IB", "RoCE", "Socket", "other"), "address": pl.String,
        "speed_gbit": pl.Int32, "gdr": pl.Boolean,
    },
    "plugins": {
        "host": pl.String, "pid": pl.Int64,
        "kind": _enum("net", "collnet", "tuner", "profiler", "gin", "env", "rma", "other"),
        "name": pl.String, "outcome": _enum("loaded", "not_found", "failed", "disabled"), "detail": pl.String,
    },
    "rings": {
        "comm_id": pl.String, "channel": pl.Int32, "position": pl.Int32, "rank": pl.Int32,
        "truncated": pl.Boolean,
    },
    "ring_neighbours": {
        "comm_id": pl.String, "channel": pl.Int32, "rank": pl.Int32, "prev_rank": pl.Int32,
        "next_rank": pl.Int32,
    },
    "trees": {
        "comm_id": pl.String, "channel": pl.Int32, "tree": pl.Int32, "rank": pl.Int32,
        "parent_rank": pl.Int32, "child_ranks": _INTS,
    },
    "connections": {
        "comm_id": pl.String, "host": pl.String, "pid": pl.Int64, "channel": pl.Int32, "conn_index": pl.Int32,
        "src_rank": pl.Int32, "src_dev": pl.String, "dst_rank": pl.Int32, "dst_dev": pl.String,
        "dev_kind": _enum("cuda_dev", "nvml_dev", "bus_id"), "direction": _enum("send", "receive"),
        "transport": _enum("P2P", "SHM", "NET", "COLLNET", "self"), "method": pl.String, "network": pl.String,
        "net_dev": pl.Int32, "gdr": pl.Boolean, "shared": pl.Boolean, "read": pl.Boolean,
        "pxn_rank": pl.Int32, "intermediate_rank": pl.Int32, "via": pl.String, "flush": pl.String,
    },
    "channel_counts": {
        "comm_id": pl.String, "rank": pl.Int32, "coll_channels": pl.Int32, "collnet_channels": pl.Int32,
        "nvls_channels": pl.Int32, "p2p_channels": pl.Int32, "p2p_channels_per_peer": pl.Int32,
    },
    "graphs": {
        "comm_id": pl.String, "rank": pl.Int32, "pattern": pl.Int32, "algorithm": pl.String,
        "cross_nic": pl.Int32, "n_channels": pl.Int32, "bw_intra_gbps": pl.Float64,
        "bw_inter_gbps": pl.Float64, "type_intra": pl.String, "type_inter": pl.String,
        "same_channels": pl.Int32,
    },
    "topology_links": {
        "host": pl.String, "src": pl.String, "dst": pl.String,
        "link": _enum("NVL", "PCI", "SYS", "NET", "C2C", "LOC", "XGMI"), "bw_gbps": pl.Float64,
    },
    "topology_nodes": {
        "host": pl.String, "node": pl.String, "kind": _enum("GPU", "CPU", "PCI", "NVS", "NIC", "NET", "GIN"),
        "index": pl.Int32, "bus_id": pl.String, "rank": pl.Int32, "numa": pl.Int32,
    },
    "calls": {
        "comm_id": pl.String, "comm": pl.String, "host": pl.String, "pid": pl.Int64, "rank": pl.Int32,
        "op": OP, "op_count": pl.UInt64, "count": pl.UInt64, "dtype": pl.String, "size_bytes": pl.UInt64,
        "red_op": pl.String, "root": pl.Int32, "peer": pl.Int32, "nranks": pl.Int32, "stream": pl.String,
        "sendbuff": pl.String, "recvbuff": pl.String,
    },
    "tuning_choice": {
        "comm_id": pl.String, "host": pl.String, "pid": pl.Int64, "op": OP, "size_bytes": pl.UInt64,
        "algorithm": pl.String, "protocol": pl.String, "channels_lo": pl.Int32, "channels_hi": pl.Int32,
        "time_us": pl.Float64, "cga_cluster_size": pl.Int32,
    },
    "nccl_memory": {
        "host": pl.String, "pid": pl.Int64, "comm_id": pl.String, "rank": pl.Int32, "purpose": pl.String,
        "place": _enum("device", "host"), "bytes": pl.Int64, "count": pl.UInt32, "largest_bytes": pl.Int64,
        "peak_bytes": pl.Int64,
    },
    "predicted": {
        "comm_id": pl.String, "host": pl.String, "pid": pl.Int64, "rank": pl.Int32, "op": OP,
        "size_bytes": pl.UInt64, "algorithm": pl.String, "protocol": pl.String, "kernel": pl.String,
        "channels": pl.Int32, "predicted_ns": pl.Float64, "chosen": pl.Boolean, "source": pl.String,
    },
    "diagnostics": {
        "host": pl.String, "pid": pl.Int64, "diag_check": pl.String, "diag_result": pl.String,
        "comm_id": pl.String, "nranks": pl.Int32, "ranks": _INTS, "n_ranks": pl.Int32,
        "reference_rank": pl.Int32, "reference_value": pl.String,
    },
    "ib_latency": {
        "host": pl.String, "pid": pl.Int64, "event": _enum("slow", "stall", "summary"), "peer": pl.String,
        "hca_name": pl.String, "hca_port": pl.Int32, "qp_number": pl.Int64, "threshold_ns": pl.Int64,
        "latency_ns": pl.Int64, "age_ns": pl.Int64, "n_inflight": pl.Int64, "n_requests": pl.Int64,
        "n_slow": pl.Int64, "mean_ns": pl.Float64, "p50_ns": pl.Int64, "p99_ns": pl.Int64, "p999_ns": pl.Int64,
        "max_ns": pl.Int64,
    },
    "errors": {
        "host": pl.String, "pid": pl.Int64, "tid": pl.Int64, "dev": pl.Int32, "rank": pl.Int32,
        "level": pl.String, "source": pl.String, "function": pl.String,
        "diagnosis": pl.String, "role": _enum("root", "effect", "caller", "setting", "benign"), "family": pl.String,
        "text": pl.String,
        "peer": pl.String, "status": pl.Int32, "errno": pl.Int32, "timestamp": pl.String,
        "message": pl.String, "launcher": pl.String, "launcher_rank": pl.Int32,
    },
    "tracebacks": {
        "host": pl.String, "pid": pl.Int64, "rank": pl.Int32, "exception": pl.String, "text": pl.String,
        "place": pl.String, "tag": pl.String, "traceback": pl.Boolean, "chained": pl.Boolean,
        "timestamp": pl.String,
    },
    "watchdog": {
        "host": pl.String, "pid": pl.Int64, "group": pl.String, "rank": pl.Int32, "global_rank": pl.Int32,
        "last_enqueued": pl.Int64, "last_started": pl.Int64, "last_completed": pl.Int64,
        "timed_out_seq": pl.Int64, "op": pl.String, "numel": pl.Int64, "size_bytes": pl.UInt64,
        "timeout_ms": pl.Int64, "ran_ms": pl.Int64, "timestamp": pl.String,
    },
    "value_checks": {
        "rank": pl.Int32, "expected": pl.Float64, "observed": pl.Float64, "assertion": pl.Boolean, "text": pl.String,
    },
    "benchmark_runs": {
        "run": pl.Int32, "listed": pl.Int32, "hosts": pl.List(pl.String), "rows": pl.Int32, "ended": pl.Boolean,
    },
}  # fmt: skip

_TRACE_TABLES: Final[Mapping[str, Columns]] = {
    "collectives": {
        "rank": pl.Int32, "process_group": pl.String, "group_ranks": _INTS, "seq": pl.Int64, "op": OP,
        "size_bytes": pl.UInt64, "dtype": pl.String, "group_size": pl.Int32, "start_ns": pl.Int64,
        "duration_ns": pl.Int64, "stream": pl.Int64, "device": pl.Int32, "kernel": pl.String,
        "algorithm": pl.String, "protocol": pl.String, "step": pl.Int32, "exposed_ns": pl.Int64, "held_ns": pl.Int64,
        "algbw_gbps": pl.Float64, "busbw_gbps": pl.Float64, "skew_ns": pl.Int64, "min_duration_ns": pl.Int64,
        "source": _enum("kernel", "cpu_op", "inspector", "nccl_tests", "flight_recorder"),
    },
    "steps": {
        "rank": pl.Int32, "step": pl.Int32, "start_ns": pl.Int64, "duration_ns": pl.Int64,
        "compute_ns": pl.Int64, "comm_ns": pl.Int64, "exposed_comm_ns": pl.Int64, "memcpy_ns": pl.Int64,
        "idle_ns": pl.Int64, "overlap_pct": pl.Float64,
    },
    "benchmarks": {
        "op": OP, "size_bytes": pl.UInt64, "count": pl.UInt64, "dtype": pl.String, "red_op": pl.String,
        "root": pl.Int32, "in_place": pl.Boolean, "time_us": pl.Float64, "algbw_gbps": pl.Float64,
        "busbw_gbps": pl.Float64, "wrong": pl.Int64, "nranks": pl.Int32,
    },
}  # fmt: skip

_OWN_TABLES: Final[Mapping[str, Columns]] = {
    "inputs": {
        "input_id": pl.UInt16, "path": pl.String, "kind": _enum(*KINDS), "size_bytes": pl.UInt64,
        "sha256": pl.String, "lines": pl.UInt64, "nccl_lines": pl.UInt64, "parsed_lines": pl.UInt64,
        "unknown_lines": pl.UInt64, "foreign_lines": pl.UInt64, "torn_lines": pl.UInt64,
        "bad_bytes": pl.UInt64,
    },
    "unknown": {
        "input_id": pl.UInt16, "line": pl.UInt64, "template": pl.String, "level": pl.String,
        "count": pl.UInt64, "example": pl.String,
    },
    "endings": {"input_id": pl.UInt16, "line": pl.UInt64, "kind": pl.String, "text": pl.String},
    "unreadable": {
        "input_id": pl.UInt16, "what": pl.String, "why": pl.String, "command": pl.String,
    },
    "notes": {"input_id": pl.UInt16, "line": pl.UInt64, "kind": pl.String, "detail": pl.String},
}  # fmt: skip

SCHEMA: Final[Mapping[str, Columns]] = {
    **_OWN_TABLES,
    **{name: {**PROVENANCE, **columns} for name, columns in _LOG_TABLES.items()},
    **{name: {"input_id": pl.UInt16, **columns} for name, columns in _TRACE_TABLES.items()},
}


# Tables of the readers that have no contract (yet): they are there when an input gave them.
FURTHER: Final = frozenset({
    "capture_nodes", "capture_ranks", "collective_ranks", "collective_statistics", "flight_recorder",
    "flight_recorder_groups", "host_bandwidth", "memcpy", "node_pairs", "nvlinks", "other_communication",
    "peer_bandwidth",
    "proxy_steps", "ras_counts", "ras_ranks", "trace_clocks", "trace_info", "waits",
})  # fmt: skip


# Tables of which a log may have millions of rows: they are looked at piece by piece (``Run.pieces``), not put together.
FLOODS: Final = frozenset({"calls", "tuning_choice"})


def empty(name: str) -> pl.DataFrame:
    """A frame of a contract table without rows (``input_id`` and ``line`` only for other names)."""
    return pl.DataFrame(schema=dict(SCHEMA.get(name, PROVENANCE)))


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the contract's columns first, in order and type; missing ones null, further ones kept.

    Values that an enum does not list become null rather than an error.
    """
    columns = SCHEMA.get(name)
    if columns is None:
        return frame
    exprs: list[pl.Expr] = []
    for column, dtype in columns.items():
        if column not in frame.columns:
            exprs.append(pl.lit(None, dtype=dtype).alias(column))
        elif frame.schema[column] != dtype:
            exprs.append(pl.col(column).cast(dtype, strict=False))
        else:
            exprs.append(pl.col(column))
    return frame.select(*exprs, *(c for c in frame.columns if c not in columns))

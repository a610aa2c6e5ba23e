"""The table contract: names, columns and types of every table (public API).

``None`` values mean unknown. Units are in the column names. ``enum`` columns are polars Enums.
``CONTRACT`` is the part that is written down here. ``SCHEMA`` is all tables with all columns: after the contract's come
those that the grammar captures (``columns.json``, made by ``tools/columns.py``) and those of the readers
(:mod:`nccl_insight.tables.reader_columns`). A table of a run always has all its columns; those that nothing filled
are null. Only extensions may bring tables that are not listed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.tables.reader_columns import READER_COLUMNS

Columns: TypeAlias = Mapping[str, "pl.DataType | type[pl.DataType]"]

_STRS = pl.List(pl.String)
_INTS = pl.List(pl.Int32)
OPS: Final = (
    "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send", "Recv", "AllToAll",
    "AllToAllv", "Gather", "Scatter", "Barrier", "SendRecv", "PutSignal", "WaitSignal", "Signal", "Other",
)  # fmt: skip
KINDS: Final = (
    "nccl_log", "torch_trace", "nsys_sqlite", "nsys_parquet", "flight_recorder", "nccl_tests", "inspector", "ras",
    "topo_xml", "graph_xml", "smi_topo", "smi_nvlink", "capture", "rocpd", "xplane", "host_tool", "unreadable",
    "unknown",
)  # fmt: skip

# Levels that report no trouble. A line of any other level, also of one that a later release adds, is judged like WARN.
QUIET_LEVELS: Final = ("INFO", "TRACE", "CALL", "VERSION")


def is_loud(levels: pl.Expr) -> pl.Expr:
    """Whether records of a level are judged like warnings: WARN, ATTN, ERROR, ABORT, DIAG and any new name.

    A torn line may have written `INFO` over another level or over itself (`IINFO`): no name that holds it is new.
    """
    return ~(levels.is_in(QUIET_LEVELS) | levels.cast(pl.String).str.contains("INFO", literal=True))


def known_op(column: str) -> pl.Expr:
    """The operations that NCCL names in a column, ``Other`` for those that the tables have no name for."""
    return pl.when(pl.col(column).is_in(OPS)).then(pl.col(column)).otherwise(pl.lit("Other"))


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
        "out_of_bounds": pl.Int64,
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
        "unknown_lines": pl.UInt64, "foreign_lines": pl.UInt64,
        "last_foreign_line": pl.UInt64, "torn_lines": pl.UInt64, "bad_bytes": pl.UInt64, "form": pl.String,
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

CONTRACT: Final[Mapping[str, Columns]] = {
    **_OWN_TABLES,
    **{name: {**PROVENANCE, **columns} for name, columns in _LOG_TABLES.items()},
    **{name: {"input_id": pl.UInt16, **columns} for name, columns in _TRACE_TABLES.items()},
}

_TYPES: Final[Mapping[str, pl.DataType]] = {
    "bool": pl.Boolean(), "str": pl.String(), "i8": pl.Int8(), "i16": pl.Int16(), "i32": pl.Int32(),
    "i64": pl.Int64(), "u8": pl.UInt8(), "u16": pl.UInt16(), "u32": pl.UInt32(), "u64": pl.UInt64(),
    "f32": pl.Float32(), "f64": pl.Float64(),
}  # fmt: skip


def type_name(dtype: pl.DataType | type[pl.DataType]) -> str:
    """The type as docs/tables.md writes it: ``i64``, ``list[str]``, ``enum{a, b}``."""
    if isinstance(dtype, pl.Enum):
        return "enum{" + ", ".join(dtype.categories) + "}"
    if isinstance(dtype, pl.List):
        inner: Any = dtype.inner
        return f"list[{type_name(inner)}]"
    return next(name for name, known in _TYPES.items() if known == dtype)


def _type_of(name: str) -> pl.DataType:
    if name.startswith("list["):
        return pl.List(_type_of(name[5:-1]))
    return _TYPES[name]


def _schema() -> dict[str, Columns]:
    """The contract's tables first, then the others by name; columns that several sources give have one type."""
    text = resources.files(__package__).joinpath("columns.json").read_text("utf-8")
    captured: dict[str, dict[str, str]] = json.loads(text)
    tables = [*CONTRACT, *sorted({*captured, *READER_COLUMNS} - set(CONTRACT))]
    return {
        table: {
            **READER_COLUMNS.get(table, {}),
            **{name: _type_of(dtype) for name, dtype in captured.get(table, {}).items()},
            **CONTRACT.get(table, {}),
        }
        for table in tables
    }


def _ordered(table: str, columns: Columns) -> Columns:
    first = CONTRACT.get(table, {name: columns[name] for name in PROVENANCE if name in columns})
    return {**{name: columns[name] for name in first}, **columns}


SCHEMA: Final[Mapping[str, Columns]] = {name: _ordered(name, columns) for name, columns in _schema().items()}


# Tables of which a log may have millions of rows: they are looked at piece by piece (``Run.pieces``), not put together.
FLOODS: Final = frozenset({"calls", "tuning_choice"})


def empty(name: str) -> pl.DataFrame:
    """A frame of a table without rows (``input_id`` and ``line`` only for tables of extensions)."""
    return _empty(name).clone()


@cache
def _empty(name: str) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(SCHEMA.get(name, PROVENANCE)))


def complete(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all columns of the table, in order and type; missing ones null, those of extensions kept.

    Values that an enum does not list become null rather than an error.
    """
    return _with(frame, SCHEMA.get(name))


OWNER: Final = "_owner"
"""A number for rank, process and communicator of a row, for those who group millions; made where it is asked for."""


def owner() -> pl.Expr:
    """The column :data:`OWNER` of rows with ``comm_id, rank, host, pid``."""
    names = ("comm_id", "rank", "host", "pid")
    types = (pl.String, pl.Int32, pl.String, pl.Int64)
    return pl.struct(pl.col(n).cast(t) for n, t in zip(names, types, strict=True)).hash().alias(OWNER)


def shaped(frame: pl.DataFrame, columns: Columns) -> pl.DataFrame:
    """The frame with exactly these columns, in order and type; missing ones null. For rows of several tables in one."""
    return _with(frame, columns).select(list(columns))


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with the contract's columns first, in order and type; missing ones null, further ones kept.

    For tables that are still being put together; :func:`complete` is for those of a run.
    """
    return _with(frame, CONTRACT.get(name))


# From here on columns without values are made so that they take no memory.
_TALL: Final = 10_000


@cache
def _null(dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
    return pl.Series([None], dtype=dtype)


def _with(frame: pl.DataFrame, columns: Columns | None) -> pl.DataFrame:
    if columns is None:
        return frame
    if frame.height > _TALL:
        missing = [
            pl.lit(None, dtype).alias(name) for name, dtype in columns.items() if name not in frame.columns
        ]
        casts = [
            pl.col(name).cast(dtype, strict=False)
            for name, dtype in columns.items()
            if name in frame.columns and frame.schema[name] != dtype
        ]
        further = [name for name in frame.columns if name not in columns]
        return frame.with_columns(*missing, *casts).select(*columns, *further)
    # On series: a table has up to 250 columns, and an expression for each would cost more than a small table.
    given = {series.name: series for series in frame.iter_columns()}
    made: list[pl.Series] = []
    for name, dtype in columns.items():
        series = given.pop(name, None)
        if series is None:
            series = _null(dtype).new_from_index(0, frame.height).alias(name)
        elif series.dtype != dtype:
            series = series.cast(dtype, strict=False)
        made.append(series)
    return pl.DataFrame([*made, *given.values()])

"""Tables and columns of the readers of traces and side files, beyond those of the contract.

They are as public as those of the contract, and may grow. A test holds them against what the readers give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

_STRS: Final = pl.List(pl.String)
_INTS: Final = pl.List(pl.Int32)
_LONGS: Final = pl.List(pl.Int64)

READER_COLUMNS: Final[Mapping[str, Mapping[str, pl.DataType | type[pl.DataType]]]] = {
    "benchmarks": {
        "line": pl.UInt64, "max_error": pl.Float64, "n_hosts": pl.Int32, "gpu": pl.String, "n_gpus": pl.Int32,
        "run": pl.Int32, "time_min_us": pl.Float64, "time_max_us": pl.Float64, "iteration_min_us": pl.Float64,
        "iteration_max_us": pl.Float64, "backend": pl.String,
    },
    "capture_nodes": {
        "input_id": pl.UInt16, "node": pl.Int32, "host": pl.String, "ranks": _INTS, "verdict": _STRS,
    },
    "capture_ranks": {
        "input_id": pl.UInt16, "rank": pl.Int32, "world_size": pl.Int32, "local_rank": pl.Int32, "host": pl.String,
        "pid": pl.Int64, "backend": pl.String, "torch": pl.String, "cuda": pl.String, "nccl": pl.String,
        "gpu": pl.String, "slow_rank": pl.Int32, "joined": pl.Boolean, "finished": pl.Boolean,
    },
    "collective_ranks": {
        "match_id": pl.UInt32, "process_group": pl.String, "op": pl.String, "size_bytes": pl.UInt64,
        "step": pl.Int32, "ranks": _INTS, "start_ns": _LONGS, "duration_ns": _LONGS, "wait_ns": _LONGS,
        "transfer_ns": pl.Int64, "worst_wait_ns": pl.Int64, "last_rank": pl.Int32, "end_spread_ns": pl.Int64,
    },
    "collective_statistics": {
        "process_group": pl.String, "op": pl.String, "size_bytes": pl.UInt64, "dtype": pl.String,
        "group_size": pl.Int32, "count": pl.UInt32, "transfer_ns": pl.Int64, "min_ns": pl.Int64,
        "median_ns": pl.Int64, "max_ns": pl.Int64, "wait_ns": pl.Int64, "min_busbw_gbps": pl.Float64,
        "median_busbw_gbps": pl.Float64, "max_busbw_gbps": pl.Float64,
    },
    "collectives": {
        "peer": pl.Int32, "split_max_share": pl.Float64, "comms_id": pl.String, "comm_id": pl.String,
        "host": pl.String, "pid": pl.Int64, "match_id": pl.UInt32,
        "match_method": pl.Enum(["seq", "order", "step", "time"]), "matched_ranks": pl.Int32, "wait_ns": pl.Int64,
        "calls": pl.Int32, "job": pl.Int32,
    },
    "flight_recorder": {
        "input_id": pl.UInt16, "rank": pl.Int32, "record_id": pl.Int64, "pg_id": pl.Int64,
        "process_group": pl.String, "pg_desc": pl.String, "group_ranks": _INTS, "group_size": pl.Int32,
        "collective_seq": pl.Int64, "p2p_seq": pl.Int64, "op_id": pl.Int64, "is_p2p": pl.Boolean,
        "backend": pl.String, "op": pl.String, "op_name": pl.String, "src": pl.Int32, "dst": pl.Int32,
        "input_sizes": pl.String, "output_sizes": pl.String, "input_numel": _LONGS, "output_numel": _LONGS,
        "input_dtypes": pl.String, "output_dtypes": pl.String, "size_bytes": pl.UInt64, "state": pl.String,
        "retired": pl.Boolean, "time_created_ns": pl.Int64, "time_started_ns": pl.Int64,
        "time_completed_ns": pl.Int64, "duration_ns": pl.Int64, "timeout_ms": pl.Int64, "frame": pl.String,
    },
    "gpu_work": {
        "input_id": pl.UInt16, "rank": pl.Int32, "device": pl.Int32, "stream": pl.Int64, "step": pl.Int32,
        "kind": pl.Int8, "name": pl.UInt64, "start_ns": pl.Int64, "end_ns": pl.Int64,
    },
    "flight_recorder_groups": {
        "input_id": pl.UInt16, "rank": pl.Int32, "pg_id": pl.Int64, "process_group": pl.String, "pg_desc": pl.String,
        "group_ranks": _INTS, "last_enqueued": pl.Int64, "last_started": pl.Int64, "last_completed": pl.Int64,
    },
    "graph_channels": {
        "graph_id": pl.Int32, "algorithm": pl.String, "position": pl.Int32, "kind": pl.String, "dev": pl.Int64,
    },
    "graphs": {
        "graph_id": pl.Int32,
    },
    "host_bandwidth": {
        "input_id": pl.UInt16, "host": pl.String, "rank": pl.Int32, "direction": pl.String, "pinned": pl.Boolean,
        "size_bytes": pl.UInt64, "numa_node": pl.Int32, "gbps": pl.Float64,
    },
    "host_facts": {
        "input_id": pl.UInt16, "line": pl.UInt64, "host": pl.String, "device": pl.String, "name": pl.String,
        "value": pl.String, "unit": pl.String, "tool": pl.String,
    },
    "host_tools": {
        "input_id": pl.UInt16, "line": pl.UInt64, "last_line": pl.UInt64, "host": pl.String, "tool": pl.String,
        "what": pl.String, "says": pl.String, "facts": pl.UInt32, "unread": pl.UInt32,
    },
    "inspector": {
        "input_id": pl.UInt16, "line": pl.UInt64, "process_group": pl.String, "rank": pl.Int32,
        "group_size": pl.Int32, "n_nodes": pl.Int32, "comm_name": pl.String, "host": pl.String, "pid": pl.Int64,
        "dump_timestamp_us": pl.Int64, "op": pl.String, "seq": pl.Int64, "peer": pl.Int32,
        "msg_size_bytes": pl.UInt64, "exec_time_us": pl.Float64, "timing_source": pl.String,
        "algbw_gbps": pl.Float64, "busbw_gbps": pl.Float64, "algorithm": pl.String, "protocol": pl.String,
        "start_us": pl.Int64,
    },
    "inspector_metrics": {
        "input_id": pl.UInt16, "line": pl.UInt64, "metric": pl.String, "value": pl.Float64, "host": pl.String,
        "gpu": pl.String, "comm_name": pl.String, "op": pl.String, "size_range": pl.String, "algorithm": pl.String,
        "nranks": pl.Int32, "n_nodes": pl.Int32,
    },
    "memcpy": {
        "input_id": pl.UInt16, "device": pl.Int32, "name": pl.String, "count": pl.UInt64, "size_bytes": pl.UInt64,
        "duration_ns": pl.Int64, "pageable": pl.Boolean, "rank": pl.Int32, "pid": pl.Int64,
    },
    "node_pairs": {
        "input_id": pl.UInt16, "round": pl.Int32, "first": pl.Int32, "second": pl.Int32, "local_rank": pl.Int32,
        "size_bytes": pl.UInt64, "nranks": pl.Int32, "busbw_gbps": pl.Float64,
    },
    "nvlinks": {
        "input_id": pl.UInt16, "line": pl.UInt64, "gpu": pl.Int32, "model": pl.String, "link": pl.Int32,
        "active": pl.Boolean, "speed_gbps": pl.Float64, "replay_errors": pl.Int64, "recovery_errors": pl.Int64,
        "crc_errors": pl.Int64,
    },
    "other_communication": {
        "input_id": pl.UInt16, "device": pl.Int32, "kernel": pl.String, "count": pl.UInt64, "duration_ns": pl.Int64,
        "exposed_ns": pl.Int64, "library": pl.String, "op": pl.String, "rank": pl.Int32,
    },
    "peer_bandwidth": {
        "input_id": pl.UInt16, "host": pl.String, "src": pl.Int32, "dst": pl.Int32, "peer_access": pl.Boolean,
        "size_bytes": pl.UInt64, "gbps": pl.Float64, "line": pl.UInt64, "test": pl.String,
    },
    "process_groups": {
        "input_id": pl.UInt16, "process_group": pl.String, "description": pl.String, "backend": pl.String,
        "group_ranks": _INTS, "rank": pl.Int32,
    },
    "profiler_events": {
        "input_id": pl.UInt16, "line": pl.UInt64, "name": pl.String, "cat": pl.String, "id": pl.Int64,
        "pid": pl.Int64, "begin_us": pl.Float64, "seq": pl.Int64, "comm_hash": pl.String, "rank": pl.Int32,
        "peer": pl.Int32, "count": pl.UInt64, "dtype": pl.String, "algorithm": pl.String, "protocol": pl.String,
        "n_channels": pl.Int32, "channel": pl.Int32, "start_gpu_ns": pl.Int64, "stop_gpu_ns": pl.Int64,
        "end_us": pl.Float64,
    },
    "proxy_steps": {
        "input_id": pl.UInt16, "line": pl.UInt64, "comm_id": pl.String, "host": pl.String, "pid": pl.Int64,
        "rank": pl.Int32, "record": pl.String, "parent_type": pl.String, "op_seq": pl.Int64, "proxy_op": pl.Int64,
        "channel": pl.Int32, "peer": pl.Int32, "direction": pl.String, "step": pl.Int32, "n_steps": pl.Int32,
        "n_steps_completed": pl.Int32, "bytes": pl.UInt64, "state": pl.String, "start_ns": pl.Int64,
        "end_ns": pl.Int64, "gpu_wait_ns": pl.Int64, "peer_wait_ns": pl.Int64, "wire_ns": pl.Int64,
    },
    "ranks": {
        "api": pl.String, "parent_comm": pl.String, "color": pl.Int64, "split_count": pl.Int64, "mnnvl": pl.Int32,
        "parent_comm_id": pl.String,
    },
    "ras": {
        "event": pl.String, "group": pl.Int64, "comms": pl.Int64, "n_nodes": pl.Int64, "ranks_per_node": pl.String,
        "ranks_per_comm": pl.Int64, "ranks_in_group": pl.Int64, "status": pl.String, "errors": pl.String,
        "op": pl.String, "op_count": pl.Int64, "count": pl.Int64, "gpu": pl.String, "report": pl.Int32,
        "text": pl.String,
    },
    "ras_counts": {
        "input_id": pl.UInt16, "comm_hash": pl.String, "rank": pl.Int64, "op": pl.String, "op_count": pl.Int64,
    },
    "ras_ranks": {
        "input_id": pl.UInt16, "comm_hash": pl.String, "size": pl.Int64, "rank": pl.Int64, "host": pl.String,
        "pid": pl.Int64, "cuda_dev": pl.Int64, "nvml_dev": pl.Int64, "missing": pl.Boolean, "init_state": pl.Int64,
        "async_error": pl.Int64, "finalize_called": pl.Boolean, "destroy_flag": pl.Boolean, "abort_flag": pl.Boolean,
        "unresponsive": pl.Boolean, "considered_dead": pl.Boolean,
    },
    "stacks": {
        "input_id": pl.UInt16, "line": pl.UInt64, "host": pl.String, "pid": pl.Int64, "rank": pl.Int32,
        "thread": pl.String, "depth": pl.Int32, "function": pl.String, "library": pl.String, "file": pl.String,
        "line_number": pl.Int64,
    },
    "steps": {
        "device": pl.Int32, "other_comm_ns": pl.Int64, "exposed_copy_ns": pl.Int64, "pageable_ns": pl.Int64,
        "exposed_pageable_ns": pl.Int64, "idle_host_ns": pl.Int64, "idle_kernel_ns": pl.Int64,
        "queue_mean": pl.Float64, "pid": pl.Int64, "compute_kernels": pl.Int64,
    },
    "topology_links": {
        "count": pl.Int32, "path": pl.String, "section": pl.Int32,
    },
    "topology_nodes": {
        "device": pl.String, "sm": pl.Int32, "gdr": pl.Boolean, "port": pl.Int32, "speed_gbit": pl.Int32,
        "pci_speed": pl.String, "pci_width": pl.Int32, "host_hash": pl.String, "cpu_affinity": pl.String,
        "section": pl.Int32,
    },
    "trace_clocks": {
        "rank": pl.Int32, "host": pl.String, "offset_ns": pl.Int64, "comparable": pl.Boolean,
    },
    "trace_info": {
        "input_id": pl.UInt16, "rank": pl.Int32, "rank_origin": pl.String, "world_size": pl.Int32, "host": pl.String,
        "backend": pl.String, "nccl_version": pl.String, "gpu": pl.String, "visible_gpus": pl.Int32,
        "devices": pl.Int64, "clock": pl.String, "events": pl.Int64, "gpu_events": pl.Int64,
        "duplicate_events": pl.Int64, "rejected_events": pl.Int64, "comm_kernels": pl.Int64,
        "step_source": pl.String, "outside_steps_ns": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64,
        "bytes_read": pl.Int64, "device": pl.Int32, "job": pl.Int32,
    },
    "waits": {
        "rank": pl.Int32, "process_group": pl.String, "collectives": pl.UInt32, "duration_ns": pl.Int64,
        "wait_ns": pl.Int64, "mean_wait_ns": pl.Int64, "worst_wait_ns": pl.Int64, "times_last": pl.UInt32,
        "times_first": pl.UInt32, "wait_share": pl.Float64,
    },
}  # fmt: skip

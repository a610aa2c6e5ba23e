"""PyTorch Flight Recorder dumps, pickle or JSON: the last collectives of one rank and how far they got.

A dump does not name its rank; the number at the end of the file name does. JSON writes 0 for times that pickle
leaves out. Gloo entries stay ``scheduled`` although done; ``retired`` then says so.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from nccl_insight.base.bandwidth import dtype_size
from nccl_insight.base.words import pairs
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import side as _side
from nccl_insight.readers.flight_recorder.pickle import load_plain
from nccl_insight.tables.notes import LACKS
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import of_input, of_rows

MAX_ENTRIES = 500_000
_PRINTED = re.compile(r"(?:([A-Za-z0-9_]+):)?([A-Za-z0-9_]+)(?:\s+([0-9]{1,9})\s*(->|<-)\s*([0-9]{1,9}))?")
_OPS = pairs("""all_reduce=AllReduce allreduce=AllReduce allreduce_coalesced=AllReduce all_gather=AllGather
    _all_gather_base=AllGather allgather=AllGather _allgather_base=AllGather
    all_gather_into_tensor_coalesced=AllGather reduce_scatter=ReduceScatter _reduce_scatter_base=ReduceScatter
    reduce_scatter_tensor_coalesced=ReduceScatter all_to_all=AllToAll alltoall=AllToAll alltoall_base=AllToAll
    broadcast=Broadcast _broadcast_oop=Broadcast reduce=Reduce _reduce_oop=Reduce gather=Gather scatter=Scatter
    send=Send recv=Recv barrier=Barrier all_reduce_barrier=Barrier""")


def rank_of_name(name: str) -> int | None:
    """Rank from a file name: ``fr_rank3.json``, ``_dump_0``, ``nccl_trace_rank_12`` -> 3, 0, 12."""
    stem = re.sub(r"\.(json|pkl|pickle|gz|zst|bin|dump)\b", "", Path(name).name.lower())
    numbers = re.findall(r"rank[_\-]?([0-9]{1,7})", stem) or re.findall(r"([0-9]{1,7})(?:[^0-9]|$)", stem)
    return int(numbers[-1]) if numbers else None


def read(source: InputFile) -> Partial:
    """Tables ``flight_recorder``, ``flight_recorder_groups``, ``collectives`` and ``notes``."""
    content = _side.read_content(source)
    document, problem = _load(content, source.limits.pickle_steps)
    dump = _side.mapping(document)
    raw = [_side.mapping(e) for e in _side.sequence(dump.get("entries"))[:MAX_ENTRIES]]
    rank = _side.as_int(dump.get("rank"), 0, 2**31 - 1)
    rank = rank_of_name(source.display) if rank is None else rank
    config = _config(dump)
    rows = [_entry(e, rank, config) for e in raw if e]
    entries = of_rows(rows, of_input("flight_recorder"))
    found = _groups(dump, rank, config, rows)
    groups = of_rows(found, of_input("flight_recorder_groups"))
    nameless = (LACKS, "the dump does not say its rank and the file name has no number")
    tables = {"flight_recorder": entries, "flight_recorder_groups": groups, "collectives": _collectives(entries)}
    return _side.partial(source, tables, content.problem, problem, notes=[nameless] if rank is None else ())


def _load(content: _side.Content, most_steps: int) -> tuple[Any, str]:
    if content.data[:1] == b"\x80":
        return load_plain(content.data, most_steps)
    text = content.text
    try:
        return json.loads(text), ""
    except (ValueError, RecursionError) as error:
        # Top-level values and complete entries of a cut JSON dump.
        found: dict[str, Any] = {}
        for key in ("pg_config", "pg_status", "rank"):
            if match := re.search(rf'"{key}"\s*:\s*', text):
                found.update((key, value) for value in islice(_side.json_values(text, match.end()), 1))
        match = re.search(r'"entries"\s*:\s*\[', text)
        found["entries"] = list(islice(_side.json_values(text, match.end()), MAX_ENTRIES)) if match else []
        return found, f"the JSON ends early or is damaged ({error}); complete entries were kept"


def _ranks(value: object) -> list[int] | None:
    """Member ranks from ``"[0, 2]"`` or a list; null when empty or absent."""
    items = re.findall(r"-?[0-9]+", value[:4_000_000]) if isinstance(value, str) else _side.sequence(value)
    ranks = [r for i in items if (r := _side.as_int(i, 0, 2**31 - 1)) is not None]
    return ranks or None


def _config(dump: dict[str, Any]) -> dict[str, tuple[str, list[int] | None]]:
    """Description and members by group name."""
    found: dict[str, tuple[str, list[int] | None]] = {}
    for key, value in _side.mapping(dump.get("pg_config")).items():
        group = _side.mapping(value)
        name = _side.as_text(group.get("name")) or str(key)[:400]
        found[name] = (_side.as_text(group.get("desc")) or "", _ranks(group.get("ranks")))
    return found


def _shapes(value: object) -> tuple[tuple[int, ...], ...]:
    shapes = []
    for shape in _side.sequence(value)[:64]:
        dims = [_side.as_int(d) for d in _side.sequence(shape)[:16]]
        shapes.append(tuple(d for d in dims if d is not None))
    return tuple(shapes)


@lru_cache(maxsize=4096)
def _sizes(shapes: tuple[tuple[int, ...], ...]) -> tuple[str, list[int]]:
    """Shapes as printed (``[[4096,5120]]``) and the number of elements of each."""
    counts = [min(max(math.prod(shape), 0), 2**62) for shape in shapes]
    return json.dumps(shapes, separators=(",", ":"))[:400], counts


@lru_cache(maxsize=4096)
def _parsed(printed: str) -> tuple[str | None, str, str, tuple[int, int] | None]:
    """Backend, operation as printed, its kind, and source and destination of ``nccl:recv 0<-3``."""
    match = _PRINTED.match(printed)
    if match is None:
        return None, printed, "Other", None
    ends = (int(match[3]), int(match[5])) if match[4] else None
    if ends and match[4] == "<-":
        ends = (ends[1], ends[0])
    return match[1], match[2], _OPS.get(match[2].lower(), "Other"), ends


def _name(value: object) -> str:
    """A text or a number as text; anything else is empty (nested values can be of any size when printed)."""
    if isinstance(value, str):
        return value[:400]
    number = _side.as_int(value)
    return "" if number is None else str(number)


def _time(value: object) -> int | None:
    time_ns = _side.as_int(value)
    return time_ns if time_ns and time_ns > 0 else None


def _words(value: object) -> str | None:
    items = [value] if isinstance(value, str) else [v for v in _side.sequence(value)[:64] if isinstance(v, str)]
    return ",".join(str(i)[:40] for i in items) or None


def _frame(value: object) -> str | None:
    """The innermost frame that is not of torch itself, as ``file:line function``."""
    frames = [_side.mapping(f) for f in _side.sequence(value)[:200]]
    own = [f for f in frames if "/torch/" not in _name(f.get("filename"))] or frames
    if not own:
        return None
    first = own[0]
    return f"{_name(first.get('filename'))}:{_name(first.get('line'))} {_name(first.get('name'))}"[:300]


def _entry(entry: dict[str, Any], rank: int | None, config: dict[str, tuple[str, list[int] | None]]) -> dict[str, Any]:
    pair = _side.sequence(entry.get("process_group"))
    group = _name(pair[0] if pair else entry.get("pg_name"))
    desc, members = config.get(group, ("", None))
    printed = _side.as_text(entry.get("profiling_name")) or ""
    backend, name, op, ends = _parsed(printed)
    (in_sizes, ins), (out_sizes, outs) = (_sizes(_shapes(entry.get(k))) for k in ("input_sizes", "output_sizes"))
    in_dtypes, out_dtypes = _words(entry.get("input_dtypes")), _words(entry.get("output_dtypes"))
    dtype = (in_dtypes or out_dtypes or "").split(",")[0].lower()
    numel = outs if op == "AllGather" else ins
    created, started, completed = (
        _time(entry.get(k)) for k in ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")
    )
    duration_ms = _side.as_float(entry.get("duration_ms"))
    return {
        "rank": rank, "record_id": _side.as_int(entry.get("record_id")), "pg_id": _side.as_int(entry.get("pg_id")),
        "process_group": group, "pg_desc": (_name(pair[1]) if len(pair) > 1 else desc) or desc,
        "group_ranks": members, "group_size": len(members) if members else None,
        "collective_seq": _side.as_int(entry.get("collective_seq_id", entry.get("seq_id"))),
        "p2p_seq": _side.as_int(entry.get("p2p_seq_id")), "op_id": _side.as_int(entry.get("op_id")),
        "is_p2p": bool(entry.get("is_p2p")) or op in ("Send", "Recv"), "backend": backend, "op": op, "op_name": name,
        "src": ends[0] if ends else None, "dst": ends[1] if ends else None,
        "input_sizes": in_sizes, "output_sizes": out_sizes, "input_numel": ins, "output_numel": outs,
        "input_dtypes": in_dtypes, "output_dtypes": out_dtypes,
        "size_bytes": min(sum(numel) * width, 2**63) if (width := dtype_size(dtype)) is not None else None,
        "state": _side.as_text(entry.get("state"), 40), "retired": entry.get("retired") is True,
        "time_created_ns": created, "time_started_ns": started, "time_completed_ns": completed,
        "duration_ns": _side.as_int(duration_ms * 1e6, 0) if duration_ms is not None else None,
        "timeout_ms": _side.as_int(entry.get("timeout_ms")), "frame": _frame(entry.get("frames")),
    }  # fmt: skip


def _groups(
    dump: dict[str, Any], rank: int | None, config: dict[str, tuple[str, list[int] | None]], rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One row per group of the dump; ``pg_status`` is keyed by an id that only the entries tie to a name."""
    names = {row["pg_id"]: row["process_group"] for row in rows if row["pg_id"] is not None}
    groups = [
        {"rank": rank, "process_group": name, "pg_desc": desc, "group_ranks": members}
        for name, (desc, members) in config.items()
    ]
    by_name = {g["process_group"]: g for g in groups}
    for key, value in _side.mapping(dump.get("pg_status")).items():
        status = _side.mapping(value)
        number = _side.as_int(key)
        name = names.get(number)
        row = by_name.get(name) if name is not None else None
        if row is None:
            row = {"rank": rank, "process_group": name, "pg_desc": None, "group_ranks": None}
            groups.append(row)
        row["pg_id"] = number
        for column in ("last_enqueued", "last_started", "last_completed"):
            row[column] = _side.as_int(status.get(f"{column}_collective"))
    return groups


def _collectives(entries: pl.DataFrame) -> pl.DataFrame:
    """Rows for ``collectives``; durations only where the recorder timed the operation itself."""
    who = ("rank", "process_group", "group_ranks", "group_size", "op", "size_bytes")
    seq = pl.when(pl.col("is_p2p")).then(None).otherwise(pl.col("collective_seq")).alias("seq")
    dtype = pl.col("input_dtypes").str.split(",").list.first().alias("dtype")
    start = pl.when(pl.col("duration_ns").is_not_null()).then(pl.col("time_started_ns")).alias("start_ns")
    return entries.select(*who, seq, dtype, start, "duration_ns", pl.lit("flight_recorder").alias("source"))

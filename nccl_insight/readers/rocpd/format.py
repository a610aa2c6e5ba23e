"""Profiles of rocprofv3: databases (rocpd, SQLite, of ROCm 7) and ``*_results.json``: RCCL kernels, compute, copies.

Tables of a database carry the id of the recording in their names. A profile holds no ranks, message sizes or steps:
kernels are told by name, each process and agent is a lane, and the rank comes from the file's name where it says one.
"""

import re
from typing import Final

import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import gpu_activity, side
from nccl_insight.readers.kernels import MEMCPY, classify
from nccl_insight.readers.nsys import MAGIC
from nccl_insight.readers.nsys.database import Database, read_database
from nccl_insight.readers.rocpd.results import LANES, read_results
from nccl_insight.tables.notes import LACKS
from nccl_insight.tables.run import Partial

_RECORD: Final = "record with torch.profiler beside it for sizes, groups and ranks"
_WHERE: Final = dict.fromkeys(("start_ns", "end_ns", "agent", "stream", "pid"), pl.Int64)


def read(source: InputFile) -> Partial:
    """Tables ``collectives``, ``steps``, ``memcpy``, ``other_communication``, ``trace_info`` and ``notes``."""
    if not source.head().startswith(MAGIC):
        notes: list[tuple[str, str]] = []
        activity, host = read_results(source, notes)
        return side.noted(source, _tables(activity, source, notes, host), notes)
    return read_database(
        source, lambda database, notes: _tables(_activity(database, source.communication), source, notes)
    )


def _tables(
    activity: pl.DataFrame, source: InputFile, notes: list[tuple[str, str]], host: str | None = None
) -> dict[str, pl.DataFrame]:
    lanes = activity.select("pid", "agent").unique().sort("pid", "agent").with_row_index("lane")
    activity = activity.join(lanes, on=["pid", "agent"], maintain_order="left").with_columns(
        device=pl.col("lane").cast(pl.Int32), step=pl.lit(None, pl.Int32)
    )
    rank = gpu_activity.rank_in_name(source.display) if lanes.height == 1 else None
    collectives = gpu_activity.by_name(activity, lambda row: classify(row["name"]).op, "pid")
    if activity.is_empty():
        notes.append((LACKS, "no GPU activity was recorded; record with rocprofv3 --kernel-trace"))
    elif collectives.height:
        what = "communication kernels have no message size, group or step in a profile of rocprofv3"
        notes.append((LACKS, f"{collectives.height:,} {what}; {_RECORD}"))
    no_steps = pl.DataFrame(schema=gpu_activity.STEPS)
    tables = gpu_activity.tables_of(activity, collectives, gpu_activity.step_table(activity, no_steps))
    named = {n: f.with_columns(rank=pl.lit(rank, pl.Int32)) for n, f in tables.items() if f.width and f.height}
    named["trace_info"] = gpu_activity.header(
        rank=rank,
        rank_origin="file_name" if rank is not None else None,
        clock="unknown",
        host=host,
        gpu_events=activity.height,
        comm_kernels=collectives.height,
        start_ns=activity["start_ns"].min(),
        end_ns=activity["end_ns"].max(),
    )
    return named


def _table(database: Database, stem: str, *columns: str) -> str | None:
    """The table of that name, with or without the id of the recording behind it."""
    wanted = re.compile(rf"{stem}(?:_[0-9a-f_]+)?")
    names = [n for n in sorted(database.columns) if wanted.fullmatch(n) and database.has(n, *columns)]
    return names[0] if names else None


def _activity(database: Database, communication: tuple[str, ...]) -> pl.DataFrame:
    parts = [pl.DataFrame(schema=LANES)]
    kernels = _table(database, "rocpd_kernel_dispatch", "start", "end", "kernel_id")
    symbols = _table(database, "rocpd_info_kernel_symbol", "id")
    if kernels and symbols:
        columns = [c for c in ("display_name", "kernel_name") if database.has(symbols, c)]
        name = f"coalesce({', '.join(f's.{c}' for c in columns)}, '')" if columns else "''"
        own = [_column(database, kernels, c, "k") for c in ("agent_id", "stream_id", "pid")]
        rows = database.frame(
            f'select k.start, k."end", {", ".join(own)}, {name} from `{kernels}` k '
            f"left join `{symbols}` s on s.id = k.kernel_id",
            {**_WHERE, "name": pl.String},
        )
        parts.append(rows.with_columns(kind=gpu_activity.kinds_of(rows["name"], communication)))
    copies = _table(database, "rocpd_memory_copy", "start", "end", "size")
    if copies:
        own = [_column(database, copies, c, "m") for c in ("dst_agent_id", "stream_id", "pid", "name_id")]
        strings = _table(database, "rocpd_string", "id", "string")
        text = "t.string" if strings and database.has(copies, "name_id") else "'copy'"
        join = f" left join `{strings}` t on t.id = m.name_id" if text == "t.string" else ""
        rows = database.frame(
            f'select m.start, m."end", {", ".join(own[:3])}, m.size, {text} from `{copies}` m{join}',
            {**_WHERE, "size_bytes": pl.Int64, "name": pl.String},
        )
        parts.append(rows.with_columns(kind=pl.lit(MEMCPY, pl.Int8)))
    rows = pl.concat(parts, how="diagonal_relaxed").select(list(LANES))
    return rows.with_columns(pl.col("pid", "agent").fill_null(-1)).filter(pl.col("end_ns") >= pl.col("start_ns"))


def _column(database: Database, table: str, column: str, alias: str) -> str:
    return f"{alias}.{column}" if database.has(table, column) else "null"

"""Nsight Systems SQLite exports (schema 3.0 and later): collectives, steps and copies of every GPU in the report.

One report can hold several processes and GPUs; each (process, device) is read as a lane of its own. Times are those of
the session plus its start in UTC. The operation of a kernel comes from the NVTX range that encloses its launch; size,
communicator and rank come from NVTX payloads, which are there only if the export included blobs.
"""

import re
from typing import Final

import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import gpu_activity
from nccl_insight.readers.kernels import COMM, COMPUTE, MEMCPY, MEMSET, classify
from nccl_insight.readers.nsys.calls import COLLECTIVE, attach_calls, process_ranks
from nccl_insight.readers.nsys.database import Database, read_database
from nccl_insight.readers.nsys.nvtx import Schemas, ranges, schemas
from nccl_insight.tables.notes import CUT, LACKS
from nccl_insight.tables.run import Partial

_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_LAUNCHES: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_COPY_KINDS: Final = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_MEMORY: Final = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device", 6: "Managed"}
_STEP: Final = re.compile(r"(?:ProfilerStep|train[ _]?step|step|iter(?:ation)?)[ _:#]*([0-9]{1,9})\s*(?:,.*)?", re.I)
_WHERE: Final[dict[str, tuple[str, type[pl.DataType]]]] = {
    "start_ns": ("start", pl.Int64),
    "end_ns": ("end", pl.Int64),
    "gpu": ("deviceId", pl.Int32),
    "stream": ("streamId", pl.Int64),
    "pid": ("globalPid", pl.Int64),
}
_LANES: Final = ["pid", "gpu"]
_BLOBS: Final = "export again with nsys export --type=sqlite --include-blobs=true"


def read(source: InputFile) -> Partial:
    """Tables ``collectives``, ``steps``, ``memcpy``, ``other_communication``, ``trace_info`` and ``notes``."""
    return read_database(source, lambda database, notes: tables_of(database, notes, source))


def tables_of(database: Database, notes: list[tuple[str, str]], source: InputFile) -> dict[str, pl.DataFrame]:
    """The tables of an open export; what is missing or damaged goes to ``notes``."""
    if "StringIds" not in database.columns:
        notes.append((CUT, "the database is not an Nsight Systems export (no table StringIds)"))
        return {}
    activity = _activity(database, source.communication)
    marks = ranges(database)
    offset = _session_start(database)
    lanes = activity.select(_LANES).unique().sort(_LANES).with_row_index("device")
    activity = activity.drop("device").join(
        lanes.with_columns(pl.col("device").cast(pl.Int32)), on=_LANES, maintain_order="left"
    )
    layouts = schemas(database)
    named = gpu_activity.rank_in_name(source.display) if lanes.height == 1 else None
    ranks, origin = process_ranks(marks, layouts, (named or 0) + 1), "nvtx_payload"
    if not ranks and named is not None:
        ranks, origin = {int(lanes["pid"][0]): named}, "file_name"
    steps = _steps(marks)
    launches = _launches(database)
    # The activity with ``step`` and ``launch_ns``, process by process.
    parts: list[pl.DataFrame] = [
        activity.clear().with_columns(launch_ns=pl.lit(None, pl.Int64), step=pl.lit(None, pl.Int32))
    ]
    none = pl.DataFrame(schema=gpu_activity.MARKS)
    for (pid,), part in activity.group_by("pid", maintain_order=True):
        calls = launches.filter(pl.col("pid") == pid).select("correlation", start_ns="launch")
        own = steps.filter(pl.col("pid") == pid).drop("pid")
        launched = gpu_activity.with_launches(part, calls)
        parts.append(launched.with_columns(gpu_activity.assign_steps(launched, own, none)["step"]))
    activity = pl.concat(parts)
    comm = activity.filter(pl.col("kind") == COMM).sort("start_ns", maintain_order=True)
    collectives = _collectives(launches, comm, activity, marks, layouts)
    tables = gpu_activity.tables_of(activity, collectives, _step_rows(activity, steps, lanes))
    finished = {n: _finish(f, lanes, ranks, offset) for n, f in tables.items() if f.width}
    finished["trace_info"] = _info(database, activity, lanes, ranks, origin, offset)
    _note(notes, database, activity, collectives, ranks)
    return finished


def _activity(database: Database, communication: tuple[str, ...]) -> pl.DataFrame:
    own = {"pid": pl.Int64, "gpu": pl.Int32, "correlation": pl.Int64, "name_hash": pl.UInt64}
    schema: gpu_activity.Columns = {**gpu_activity.ACTIVITY, **own}
    parts = [pl.DataFrame(schema=schema)]
    if database.has(_KERNELS, "start", "end", "deviceId", "streamId", "globalPid"):
        columns = database.columns[_KERNELS]
        names = [c for c in ("demangledName", "shortName", "mangledName") if c in columns]
        name = f"coalesce({', '.join(names)})" if len(names) > 1 else names[0] if names else "null"
        correlation = "correlationId" if "correlationId" in columns else "null"
        frame = database.numbers(
            _KERNELS, {**_WHERE, "name_id": (name, pl.Int64), "correlation": (correlation, pl.Int64)}
        )
        parts.append(frame.join(_kernel_names(database, frame, communication), on="name_id", how="left"))
    if database.has(_COPIES, "start", "end", "deviceId", "globalPid", "bytes", "copyKind"):
        kinds = [c if c in database.columns[_COPIES] else "null" for c in ("srcKind", "dstKind")]
        what = {"copy": ("copyKind", pl.Int32), "src": (kinds[0], pl.Int32), "dst": (kinds[1], pl.Int32)}
        frame = database.numbers(_COPIES, {**_WHERE, "size_bytes": ("bytes", pl.Int64), **what})
        memory = [pl.col(c).replace_strict(_MEMORY, default="Unknown", return_dtype=pl.String) for c in ("src", "dst")]
        kind = pl.col("copy").replace_strict(_COPY_KINDS, default="other", return_dtype=pl.String)
        copied = pl.format("Memcpy {} ({} -> {})", kind, *memory)
        parts.append(frame.with_columns(kind=pl.lit(MEMCPY, pl.Int8), name=copied))
    if database.has(_SETS, "start", "end", "deviceId", "globalPid"):
        frame = database.numbers(_SETS, _WHERE)
        parts.append(frame.with_columns(kind=pl.lit(MEMSET, pl.Int8), name=pl.lit("Memset")))
    rows = pl.concat(parts, how="diagonal_relaxed").select(list(schema))
    return rows.with_columns(pl.col("gpu").fill_null(-1), pl.col("pid").fill_null(-1)).filter(
        pl.col("end_ns") >= pl.col("start_ns")
    )


def _kernel_names(database: Database, kernels: pl.DataFrame, communication: tuple[str, ...]) -> pl.DataFrame:
    """Kind of the kernels that occur and a hash of the name; the name of those that communicate, which are shown."""
    wanted = set(kernels["name_id"].drop_nulls().unique().to_list())
    names: list[tuple[int, str, int]] = []
    for number, value in database.connection.execute("select id, value from StringIds"):
        if number in wanted:
            text = str(value)
            names.append((number, text, classify(text, communication).kind))
    found = pl.DataFrame(names, schema={"name_id": pl.Int64, "name": pl.String, "kind": pl.Int8}, orient="row")
    return found.with_columns(
        name=pl.when(pl.col("kind") != COMPUTE).then("name"), name_hash=gpu_activity.hashed(pl.col("name"))
    )


def _session_start(database: Database) -> int:
    """Start of the session in nanoseconds since 1970, 0 if unknown."""
    if not database.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        return 0
    row = database.connection.execute("select utcEpochNs from TARGET_INFO_SESSION_START_TIME limit 1").fetchone()
    return row[0] if row and isinstance(row[0], int) and 0 <= row[0] < 1 << 62 else 0


def _steps(marks: pl.DataFrame) -> pl.DataFrame:
    """Training steps per process: ``pid, step, start_ns, end_ns``."""
    rows = [
        (tid & ~0xFFFFFF, int(found[1]), start, end)
        for start, end, tid, text in marks.filter(~pl.col("text").str.starts_with("nccl"))
        .select("start", "end", "tid", "text")
        .iter_rows()
        if tid is not None and (found := _STEP.fullmatch(text))
    ]
    steps = pl.DataFrame(rows, schema={"pid": pl.Int64, **gpu_activity.STEPS}, orient="row")
    return steps.unique(["pid", "step"], keep="first", maintain_order=True)


def _launches(database: Database) -> pl.DataFrame:
    """Calls of the CUDA runtime: ``correlation, tid, launch, pid``."""
    schema = {"correlation": pl.Int64, "tid": pl.Int64, "launch": pl.Int64}
    columns = ("correlationId", "globalTid", "start")
    if not database.has(_LAUNCHES, *columns):
        return pl.DataFrame(schema={**schema, "pid": pl.Int64})
    rows = database.numbers(
        _LAUNCHES, {name: (sql, dtype) for (name, dtype), sql in zip(schema.items(), columns, strict=True)}
    )
    return rows.with_columns(pid=pl.col("tid") - pl.col("tid") % (1 << 24))


def _collectives(
    launches: pl.DataFrame, comm: pl.DataFrame, activity: pl.DataFrame, marks: pl.DataFrame, layouts: Schemas
) -> pl.DataFrame:
    launches = launches.join(comm.select("correlation", "pid").unique(), on=["correlation", "pid"], how="semi")
    calls = attach_calls(comm, launches, marks, layouts)
    length, exposed = pl.col("end_ns") - pl.col("start_ns"), gpu_activity.exposure(comm, activity).to_dict()
    rows = calls.with_columns(duration_ns=length, **exposed, kernel=pl.col("name"), source=pl.lit("kernel"))
    return gpu_activity.with_bandwidth(rows).select(*COLLECTIVE)


def _step_rows(activity: pl.DataFrame, steps: pl.DataFrame, lanes: pl.DataFrame) -> pl.DataFrame:
    parts: list[pl.DataFrame] = []
    activity = activity.drop("launch_ns")
    for device, pid in lanes.select("device", "pid").iter_rows():
        part = gpu_activity.step_table(
            activity.filter(pl.col("device") == device), steps.filter(pl.col("pid") == pid).drop("pid")
        )
        if part.width:
            parts.append(part)
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


def _finish(frame: pl.DataFrame, lanes: pl.DataFrame, ranks: dict[int, int], offset: int) -> pl.DataFrame:
    """Lane numbers become device numbers, process numbers and ranks; times become absolute."""
    mapped = lanes.with_columns(
        device=pl.col("device").cast(pl.Int32),
        rank=pl.col("pid").replace_strict(ranks, default=None, return_dtype=pl.Int32),
        process=(pl.col("pid") // (1 << 24)) % (1 << 24),
    )
    joined = frame.drop("pid", "gpu", strict=False).join(mapped, on="device", how="left", maintain_order="left")
    times = [pl.col(n) + offset for n in ("start_ns", "end_ns", "launch_ns") if n in frame.columns]
    return joined.with_columns(*times, device=pl.col("gpu"), pid=pl.col("process")).drop("gpu", "process")


def _info(
    database: Database, activity: pl.DataFrame, lanes: pl.DataFrame, ranks: dict[int, int], origin: str, offset: int
) -> pl.DataFrame:
    gpu = None
    if database.has("TARGET_INFO_GPU", "name"):
        names = {str(r[0]) for r in database.connection.execute("select distinct name from TARGET_INFO_GPU")}
        gpu = names.pop() if len(names) == 1 else None
    if lanes.is_empty():  # a report without GPU activity still says that it was read
        return gpu_activity.header(clock="unknown", gpu_events=0)
    rows = lanes.with_columns(pl.col("device").cast(pl.Int32))
    rows = rows.join(gpu_activity.headers(activity, offset), on="device", maintain_order="left")
    return rows.with_columns(
        rank=pl.col("pid").replace_strict(ranks, default=None, return_dtype=pl.Int32),
        rank_origin=pl.lit(origin if ranks else None, pl.String),
        gpu=pl.lit(gpu, pl.String),
        device=pl.col("gpu"),
        clock=pl.lit("epoch" if offset else "unknown"),
    ).drop("pid")


def _note(
    notes: list[tuple[str, str]], database: Database, activity: pl.DataFrame, found: pl.DataFrame, ranks: dict[int, int]
) -> None:
    if activity.is_empty():
        why = "no GPU activity was recorded; record with nsys profile --trace=cuda,nvtx"
        if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in database.columns:
            why = "CUDA graphs were traced as a whole; record with --cuda-graph-trace=node"
        notes.append((LACKS, why))
    if found.is_empty():
        return
    bare = int(found["size_bytes"].null_count())
    if bare:
        said = f"{bare:,} of {found.height:,} communication kernels have no message size"
        notes.append((LACKS, f"{said}: the export holds no NVTX payloads; {_BLOBS}"))
    if not ranks:
        said = "the report names no ranks, so its GPUs are not compared with each other"
        notes.append((LACKS, f"{said}; NVTX payloads of ncclCommInitRank would: {_BLOBS}"))

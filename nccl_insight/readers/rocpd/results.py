"""``*_results.json`` of rocprofv3 (``--output-format json``): kernels and copies of each process.

Source: rocprofiler-sdk, ``source/lib/output/generateJSON.cpp``. Times are nanoseconds.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import orjson
import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import side
from nccl_insight.readers.gpu_activity import ACTIVITY
from nccl_insight.readers.kernels import MEMCPY, classify
from nccl_insight.tables.declared import frame
from nccl_insight.tables.notes import CUT

ROOT: Final = "rocprofiler-sdk-tool"
LANES: Final = {**ACTIVITY, "pid": pl.Int64, "agent": pl.Int64}
_Row: TypeAlias = tuple[object, ...]
_COLUMNS: Final = frame("kind i8, start_ns i64, end_ns i64, agent i64, stream i64, name str, size_bytes i64, pid i64")


def read_results(source: InputFile, notes: list[tuple[str, str]]) -> tuple[pl.DataFrame, str | None]:
    """GPU activity with ``pid`` and ``agent``, and the host; what is damaged goes to ``notes``."""
    content = side.read_content(source)
    problem = content.problem
    whole: object = None
    try:
        whole = orjson.loads(content.data)
    except orjson.JSONDecodeError as error:
        problem = problem or f"no valid JSON: {error}"
    if problem:
        notes.append((CUT, f"the profile is damaged or cut ({problem})"))
    rows: list[_Row] = []
    host = None
    for process in side.sequence(side.mapping(whole).get(ROOT)):
        meta = side.mapping(side.mapping(process).get("metadata"))
        pid = _int(meta.get("pid"))
        name = side.mapping(meta.get("node")).get("hostname")
        host = host or (name if isinstance(name, str) and name else None)
        rows += [(*row, pid) for row in _of_process(side.mapping(process), source.communication)]
    frame = pl.DataFrame(rows, schema=_COLUMNS, orient="row").with_columns(pl.col("pid", "agent").fill_null(-1))
    absent = {n: t for n, t in LANES.items() if n not in frame.columns}
    frame = frame.with_columns(pl.lit(None, t).alias(n) for n, t in absent.items()).select(list(LANES))
    return frame.filter(pl.col("end_ns") >= pl.col("start_ns")), host


def _of_process(process: Mapping[str, Any], communication: tuple[str, ...]) -> list[_Row]:
    records = side.mapping(process.get("buffer_records"))
    names = {}
    for symbol in side.sequence(process.get("kernel_symbols")):
        symbol = side.mapping(symbol)
        texts = (symbol.get(k) for k in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"))
        names[_int(symbol.get("kernel_id"))] = next((t for t in texts if isinstance(t, str) and t), "")
    kinds: dict[str, int] = {}
    rows: list[_Row] = []
    for record in map(side.mapping, side.sequence(records.get("kernel_dispatch"))):
        info = side.mapping(record.get("dispatch_info"))
        name = names.get(_int(info.get("kernel_id")), "")
        if name not in kinds:
            kinds[name] = classify(name, communication).kind
        rows.append((kinds[name], *_times(record), _handle(info, "agent_id"), _handle(record, "stream_id"), name, None))
    copy_names = _operations(process, "MEMORY_COPY")
    for record in map(side.mapping, side.sequence(records.get("memory_copy"))):
        number = _int(record.get("operation"))
        name = copy_names[number] if number is not None and 0 <= number < len(copy_names) else "copy"
        where = _handle(record, "dst_agent_id"), _handle(record, "stream_id")
        rows.append((MEMCPY, *_times(record), *where, name, _int(record.get("bytes"))))
    return [row for row in rows if row[1] is not None and row[2] is not None]


def _operations(process: Mapping[str, Any], kind: str) -> list[str]:
    """Names of the operations of a kind of records, by number."""
    for item in map(side.mapping, side.sequence(side.mapping(process.get("strings")).get("buffer_records"))):
        if item.get("kind") == kind:
            return [str(name) for name in side.sequence(item.get("operations"))]
    return []


def _times(record: Mapping[str, Any]) -> tuple[int | None, int | None]:
    return _int(record.get("start_timestamp")), _int(record.get("end_timestamp"))


def _handle(record: Mapping[str, Any], key: str) -> int | None:
    return _int(side.mapping(record.get(key)).get("handle"))


def _int(value: object) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 62 else None

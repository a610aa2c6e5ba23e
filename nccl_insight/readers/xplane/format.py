"""Profiles of XLA (JAX, TensorFlow, torch_xla) on GPUs: ``*.xplane.pb``, a protocol buffer of the message XSpace.

A space has planes (a GPU, the host), a plane lines (a stream, a thread), a line events. Of the planes
``/device:GPU:N`` the streams are read: kernels told by name, the operation of a collective also by its HLO
instruction (``all-reduce-start.3``). Of the host's plane: calls that launched something, and steps that the program
annotated (``step_num``). Sizes, groups and global ranks are not recorded; GPUs of one file are numbered as the file
numbers them. Fields: ``tsl/profiler/protobuf/xplane.proto`` of openxla/xla.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.words import pairs
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import gpu_activity, side
from nccl_insight.readers.kernels import MEMCPY, MEMSET, classify
from nccl_insight.readers.protobuf import DamagedMessage, fields, signed
from nccl_insight.tables.notes import CUT, LACKS
from nccl_insight.tables.run import Partial

_GPU: Final = re.compile(r"/device:GPU:([0-9]{1,6})")
_STREAM: Final = re.compile(r"Stream #([0-9]{1,18})")
_COPY: Final = re.compile(r"Memcpy|MemcpyD2H|Copy(?:Device|Host|Peer)", re.I)
_SET: Final = re.compile(r"Memset|FillBuffer", re.I)
_LAUNCH: Final = re.compile(r"cu(?:da)?[A-Z]|hip[A-Z]")
_SIZE: Final = re.compile(r"(?:^|\s)(?:size|num_bytes):([0-9]{1,18})")
_MOST_PS: Final = 1 << 62
_EPOCH_NS: Final = 10**18
_HLO: Final = pairs("""all-reduce=AllReduce all-gather=AllGather reduce-scatter=ReduceScatter all-to-all=AllToAll
    ragged-all-to-all=AllToAllv collective-permute=SendRecv collective-broadcast=Broadcast send=Send recv=Recv""")
"""Collectives of HLO (openxla/xla docs/operation_semantics.md) and what NCCL runs for them."""
_RECORD: Final = "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=COLL tells sizes and ranks"


_Row: TypeAlias = tuple[int, int, int, int, int, str, int | None, int | None, str | None]


@dataclass
class _Plane:
    """Number and bytes of the parts of one plane; names are decoded when they are asked for."""

    name: str = ""
    lines: list[bytes] = field(default_factory=list)
    events: dict[int, str] = field(default_factory=dict)
    stats: dict[int, str] = field(default_factory=dict)
    own: list[bytes] = field(default_factory=list)


@dataclass
class _Found:
    """Rows of a profile; times in nanoseconds of the profile."""

    activity: list[_Row] = field(default_factory=list)
    launches: list[tuple[int, int]] = field(default_factory=list)
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    host: str | None = None
    start_ns: int = 0
    other_devices: set[str] = field(default_factory=set)
    damage: str = ""


def read(source: InputFile) -> Partial:
    """Tables ``collectives``, ``steps``, ``memcpy``, ``other_communication``, ``trace_info`` and ``notes``."""
    content = side.read_content(source)
    found = _scan(content.data)
    problem = content.problem or found.damage
    notes = [(CUT, f"the profile is damaged or cut ({problem})")] if problem else []
    tables = _tables(found, source.communication, notes)
    return side.noted(source, {n: f for n, f in tables.items() if f.height or n == "trace_info"}, notes)


def _sound(data: bytes, found: _Found) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message as far as it is sound."""
    try:
        yield from fields(data)
    except DamagedMessage as error:
        found.damage = found.damage or str(error)


def _scan(data: bytes) -> _Found:
    found = _Found()
    for number, value in _sound(data, found):
        if number == 1 and isinstance(value, bytes):
            _take_plane(value, found)
        elif number == 4 and isinstance(value, bytes) and found.host is None:
            found.host = value.decode("utf-8", "replace")[:200]
    return found


def _take_plane(data: bytes, found: _Found) -> None:
    try:
        plane = _plane(data, found)
        if gpu := _GPU.match(plane.name):
            for line in plane.lines:
                found.activity += _activity(plane, line, int(gpu[1]))
        elif plane.name.startswith("/host:CPU"):
            for line in plane.lines:
                _take_host(plane, line, found)
        elif plane.name == "Task Environment":
            start = dict(_stat(plane, own) for own in plane.own).get("profile_start_time")
            found.start_ns = start if isinstance(start, int) and 0 <= start < _MOST_PS else 0
        elif plane.name.startswith("/device:") and plane.lines:
            found.other_devices.add(plane.name.split(":")[1])
    except DamagedMessage as error:
        found.damage = found.damage or str(error)


def _plane(data: bytes, found: _Found) -> _Plane:
    """The plane as far as it can be read."""
    plane = _Plane()
    for number, value in _sound(data, found):
        if number == 2 and isinstance(value, bytes):
            plane.name = value.decode("utf-8", "replace")
        elif number in (3, 6) and isinstance(value, bytes):
            (plane.lines if number == 3 else plane.own).append(value)
        elif number in (4, 5) and isinstance(value, bytes):
            (plane.events if number == 4 else plane.stats).update([_named(value, found)])
    return plane


def _named(entry: bytes, found: _Found) -> tuple[int, str]:
    """Number and name of an entry of a plane's map of events or of stats."""
    parts = dict(_sound(entry, found))
    number, inner = parts.get(1), parts.get(2)
    name = dict(_sound(inner, found)).get(2) if isinstance(inner, bytes) else None
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else ""
    return signed(number) if isinstance(number, int) else 0, text


def _stat(plane: _Plane, data: bytes) -> tuple[str, int | str | None]:
    """Name and value of a statistic; texts may refer to a name of the plane."""
    name = ""
    value: int | str | None = None
    for number, raw in fields(data):
        if number == 1 and isinstance(raw, int):
            name = plane.stats.get(signed(raw), "")
        elif number in (3, 4) and isinstance(raw, int):
            value = signed(raw)
        elif number == 5 and isinstance(raw, bytes):
            value = raw.decode("utf-8", "replace")
        elif number == 7 and isinstance(raw, int):
            value = plane.stats.get(signed(raw))
    return name, value


def _line(data: bytes) -> tuple[str, int, list[bytes]]:
    """Name, first nanosecond and events of a line."""
    name, start, events = "", 0, []
    for number, value in fields(data):
        if number == 4 and isinstance(value, bytes):
            events.append(value)
        elif number == 2 and isinstance(value, bytes):
            name = value.decode("utf-8", "replace")
        elif number == 3 and isinstance(value, int):
            start = signed(value)
    return name, start if 0 <= start < _MOST_PS else 0, events


def _event(data: bytes) -> tuple[int, int, int, list[bytes]]:
    """Number of the name, offset and duration in picoseconds (-1 for a count instead of a time), statistics."""
    number, offset, duration = 0, 0, 0
    stats: list[bytes] = []
    for place, value in fields(data):
        if isinstance(value, bytes):
            if place == 4:
                stats.append(value)
        elif place == 1:
            number = signed(value)
        elif place == 2:
            offset = signed(value)
        elif place == 3:
            duration = signed(value)
        elif place == 5:
            duration = -1
    sound = 0 <= offset < _MOST_PS and 0 <= duration < _MOST_PS
    return number, offset, duration if sound else -1, stats


def _activity(plane: _Plane, data: bytes, gpu: int) -> Iterator[_Row]:
    """Kernels and copies of one stream; other lines of a GPU repeat them by HLO operation, module and step."""
    title, begun, events = _line(data)
    stream = _STREAM.match(title)
    if not stream:
        return
    for data in events:
        number, offset, duration, stats = _event(data)
        if duration < 0:
            continue
        name = plane.events.get(number, "")
        values = dict(_stat(plane, stat) for stat in stats)
        details, hlo, correlation = (values.get(k) for k in ("memcpy_details", "hlo_op", "correlation_id"))
        kind, size = -1, None
        if isinstance(details, str) or _COPY.match(name):
            kind = MEMCPY
            told = _SIZE.search(details) if isinstance(details, str) else None
            size = int(told[1]) if told else None
        elif "memset_details" in values or _SET.match(name):
            kind = MEMSET
        start = begun + offset // 1000
        end = start + (offset % 1000 + duration) // 1000
        launch = correlation if isinstance(correlation, int) and 0 < correlation < _MOST_PS else None
        yield kind, start, end, gpu, int(stream[1]), name, size, launch, hlo if isinstance(hlo, str) else None


def _take_host(plane: _Plane, data: bytes, found: _Found) -> None:
    """Launches and steps of one thread. Most events of a thread are of Python's tracer and carry nothing."""
    _, begun, events = _line(data)
    for data in events:
        number, offset, duration, stats = _event(data)
        if duration < 0 or not stats:
            continue
        values = dict(_stat(plane, stat) for stat in stats)
        start = begun + offset // 1000
        correlation, step = values.get("correlation_id"), values.get("step_num")
        if isinstance(correlation, int) and 0 < correlation < _MOST_PS and _LAUNCH.match(plane.events.get(number, "")):
            found.launches.append((correlation, start))
        if isinstance(step, int) and 0 <= step < 1 << 31:
            found.steps.append((step, start, start + duration // 1000))


def _op(kernel: str, hlo: str | None) -> str | None:
    """The collective: NCCL runs several of HLO's as sends and receives, so the instruction is surer than the kernel."""
    stem = (hlo or "").lstrip("%")
    while stem.endswith(".clone"):
        stem = stem.removesuffix(".clone")
    stem = stem.rstrip("0123456789.").removesuffix("-start").removesuffix("-done")
    return _HLO.get(stem) or classify(kernel).op


def _tables(found: _Found, communication: tuple[str, ...], notes: list[tuple[str, str]]) -> dict[str, pl.DataFrame]:
    absolute = max((row[1] for row in found.activity), default=0) >= _EPOCH_NS
    base = 0 if absolute else found.start_ns
    schema = {**gpu_activity.ACTIVITY, "correlation": pl.Int64, "hlo": pl.String}
    columns = ("kind", "start_ns", "end_ns", "device", "stream", "name", "size_bytes", "correlation", "hlo")
    activity = pl.DataFrame(found.activity, schema={c: schema[c] for c in columns}, orient="row").with_columns(
        pl.col("start_ns", "end_ns") + base
    )
    told = gpu_activity.kinds_of(activity["name"], communication)
    activity = activity.with_columns(kind=pl.when(pl.col("kind") < 0).then(told).otherwise("kind"))
    steps = pl.DataFrame(found.steps, schema=gpu_activity.STEPS, orient="row")
    steps = steps.with_columns(pl.col("start_ns", "end_ns") + base)
    steps = steps.group_by("step").agg(pl.col("start_ns").min(), pl.col("end_ns").max()).sort("start_ns")
    launches = pl.DataFrame(
        found.launches, schema={"correlation": pl.Int64, "start_ns": pl.Int64}, orient="row"
    ).with_columns(pl.col("start_ns") + base)
    marks = pl.DataFrame(schema=gpu_activity.MARKS)
    activity = gpu_activity.with_launches(activity, launches)
    activity = activity.with_columns(gpu_activity.assign_steps(activity, steps, marks)["step"])
    collectives = gpu_activity.by_name(activity, lambda row: _op(row["name"], row["hlo"]), "step")
    if activity.is_empty() and not notes:
        where = f" ({', '.join(sorted(found.other_devices))} is not read)" if found.other_devices else ""
        notes.append((LACKS, f"the profile holds no activity of a GPU{where}"))
    if collectives.height:
        what = f"{collectives.height:,} communication kernels have no message size or group in a profile of XLA"
        notes.append((LACKS, f"{what}; {_RECORD}"))
    parts = gpu_activity.tables_of(activity, collectives, gpu_activity.step_table(activity, steps))
    parts["trace_info"] = _info(found, activity, absolute or bool(found.start_ns))
    return {n: f.with_columns(rank=pl.col("device").cast(pl.Int32)) for n, f in parts.items() if f.width}


def _info(found: _Found, activity: pl.DataFrame, epoch: bool) -> pl.DataFrame:
    """One row per GPU; a profile without any still says that it was read."""
    rows = gpu_activity.headers(activity).sort("device")
    if rows.is_empty():
        rows = gpu_activity.header(device=None, gpu_events=0, comm_kernels=0)
    return rows.with_columns(
        rank_origin=pl.lit("device"), host=pl.lit(found.host, pl.String), clock=pl.lit("epoch" if epoch else "unknown")
    )

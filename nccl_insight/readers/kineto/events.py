"""Column builders for the events of a Kineto trace that matter to communication."""

import math
from typing import Any, Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass, field
from nccl_insight.readers.chrome import Event
from nccl_insight.readers.kernels import COMM, COMPUTE, MEMCPY, MEMSET, classify, collective_op
from nccl_insight.readers.kineto.meta import Meta, integer
from nccl_insight.tables.declared import frame

_WORK: Final = r"(?:Launch|Mem(?:cpy|set)|GraphLaunch)"
CALLS: Final = rf"(?:cu(?:da)?{_WORK}|hip(?:Ext|Module)*{_WORK})"
MARKERS: Final = (
    late.compiled(rb'"cat"\s*:\s*"(?:kernel"|Kernel"|gpu_mem|Mem(?:cpy|set)"|concurrent_kernel")'),
    late.compiled(
        rb'"name"\s*:\s*"(?:record_param_comms|ProfilerStep|nccl:|gloo:|mpi:|ucc:|xccl:|hccl:|oneccl|'
        + CALLS.encode()
        + rb")"
    ),
)
"""What the raw bytes of a relevant event hold; the fixed prefixes keep the search fast."""
CANDIDATES: Final = 'ernel"|u_mem|Memcpy|Memset|Launch|m_comms|ProfilerStep|ccl:|ucc:|oneccl|gloo:|mpi:'
"""Of each alternative of :data:`MARKERS` a part, none of which is frequent in other events: twelve texts of different
beginnings are searched for at once, where those of the markers themselves take three times as long."""
_GPU_KINDS: Final[dict[str, int]] = {
    **dict.fromkeys(("kernel", "concurrent_kernel"), -1),
    **dict.fromkeys(("gpu_memcpy", "memcpy"), MEMCPY),
    **dict.fromkeys(("gpu_memset", "memset"), MEMSET),
}
_LAUNCH: Final = -2
_GPU_KINDS.update(dict.fromkeys(("cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver", "runtime"), _LAUNCH))
_PEER_COPY: Final = late.compiled(r"(?i)\bPtoP\b|\bPeer\b|P2P")
CPU_BACKENDS: Final = ("gloo:", "mpi:", "ucc:", "xccl:", "hccl:", "oneccl")
_STEP: Final = late.compiled(r"ProfilerStep#?\s*([0-9]{1,9})")
_LATEST: Final = 1 << 61
_MICROSECONDS: Final = late.compiled(r"(-)?(\d{1,19})(?:\.(\d*))?")
_FLOAT_LIMIT: Final = float(1 << 51)
_LARGEST: Final = 1 << 62
_FLUSH_ROWS: Final = 50_000
_RAW: Final = frame("""kind i8, start_ns i64, end_ns i64, device i32, stream i64, name_id i32, size_bytes i64,
    correlation i64, meta i64, external i64""")
_LAUNCHES: Final = {"correlation": pl.Int64, "start_ns": pl.Int64}


def to_ns(value: object) -> int | None:
    """Microseconds as Kineto writes them (integer, float or text) in nanoseconds; None if not a time."""
    if type(value) is float and -_FLOAT_LIMIT < value < _FLOAT_LIMIT:  # by far the most common
        return round(value * 1000)
    time: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        time = value * 1000
    elif isinstance(value, float) and math.isfinite(value * 1000):
        time = round(value * 1000)
    elif isinstance(value, str) and (parts := _MICROSECONDS.fullmatch(value.strip())):
        time = (-1 if parts[1] else 1) * (int(parts[2]) * 1000 + int(f"{parts[3] or ''}000"[:3]))
    return time if time is not None and -_LATEST < time < _LATEST else None


def _args(event: Event) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _span(event: Event) -> tuple[int, int] | None:
    """Start and end; None where they are no times."""
    start, duration = to_ns(event.get("ts")), to_ns(event.get("dur"))
    return None if start is None or duration is None or duration < 0 else (start, start + duration)


@dataclass
class Events:
    """What was collected from a trace. Times are nanoseconds without the base of the file."""

    communication: tuple[str, ...] = ()
    kind: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    device: list[int] = field(default_factory=list)
    stream: list[int | None] = field(default_factory=list)
    name: list[int] = field(default_factory=list)
    size: list[int | None] = field(default_factory=list)
    correlation: list[int | None] = field(default_factory=list)
    meta: list[int] = field(default_factory=list)
    metas: list[Meta | int] = field(default_factory=list)
    by_external_id: dict[int, Meta] = field(default_factory=dict)
    cpu_ops: list[tuple[int, int, int | None, Meta]] = field(default_factory=list)
    ranges: list[tuple[int, Meta]] = field(default_factory=list)
    external: list[int | None] = field(default_factory=list)
    gpu_steps: list[tuple[int, int, int | None, int, int]] = field(default_factory=list)
    steps: list[tuple[int, int, int]] = field(default_factory=list)
    param_comms: int = 0
    rejected: int = 0
    _names: dict[str, int] = field(default_factory=dict)
    _kinds: dict[str, int] = field(default_factory=dict)
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _launched: list[int] = field(default_factory=list)
    _launched_at: list[int] = field(default_factory=list)
    _launches: list[pl.DataFrame] = field(default_factory=list)

    def add(self, events: list[Event]) -> None:
        """Takes the events that matter; times that are none or negative are counted in ``rejected``."""
        kinds = _GPU_KINDS
        for event in events:
            category = event.get("cat")
            if not isinstance(category, str):
                category = None
            kind = kinds.get(category)  # type: ignore[arg-type]
            if kind is None and isinstance(category, str):
                kind = kinds.get(category.lower())
            if kind is None:
                self._add_cpu(event, category or "")
            elif kind == _LAUNCH:
                self._add_launch(event)
            elif event.get("ph", "X") == "X":
                self._add_gpu(event, kind)
        if len(self.kind) >= _FLUSH_ROWS or len(self._launched) >= _FLUSH_ROWS:
            self._flush()

    def add_activity(self, rows: pl.DataFrame) -> None:
        """Takes GPU activity without metadata: all columns but ``size_bytes, meta, external``."""
        absent = {"size_bytes": None, "meta": -1, "external": None}
        rows = rows.with_columns(pl.lit(v, _RAW[n]).alias(n) for n, v in absent.items())
        self._frames.append(rows.select(list(_RAW)))

    def add_launches(self, rows: pl.DataFrame) -> None:
        """Takes calls that may have launched something: ``correlation, start_ns``."""
        self._launches.append(rows)

    @property
    def names(self) -> list[str]:
        """Names by their numbers."""
        return list(self._names)

    def name_id(self, name: str) -> int:
        """The number of a name in rows of the GPU's activity."""
        return self._names.setdefault(name, len(self._names))

    def _add_launch(self, event: Event) -> None:
        correlation = _args(event).get("correlation")
        start = to_ns(event.get("ts"))
        if type(correlation) is int and 0 <= correlation < _LARGEST and start is not None:
            self._launched.append(correlation)
            self._launched_at.append(start)

    def _add_gpu(self, event: Event, kind: int) -> None:
        span = _span(event)
        if span is None:
            self.rejected += 1
            return
        args = _args(event)
        text = event.get("name")
        name = text if isinstance(text, str) else ""
        meta = -1
        if kind < 0:
            if name not in self._kinds:
                self._kinds[name] = classify(name, self.communication).kind
            kind = self._kinds[name]
            known: Meta | int | None = Meta.of(args) or integer(args.get("External id")) if kind == COMM else None
            if known is not None:
                meta = len(self.metas)
                self.metas.append(known)
        device, stream = args.get("device"), args.get("stream")
        if type(device) is not int:
            device = event.get("pid")
        if type(stream) is not int or not 0 <= stream < _LARGEST:
            stream = integer(stream if type(stream) is int else event.get("tid"))
        correlation = args.get("correlation")
        if type(correlation) is not int or not 0 <= correlation < _LARGEST:
            correlation = integer(correlation)
        self.kind.append(kind)
        self.start.append(span[0])
        self.end.append(span[1])
        self.device.append(device if type(device) is int and 0 <= device < 1 << 31 else -1)
        self.stream.append(stream)
        self.name.append(self.name_id(name))
        self.size.append(integer(args.get("bytes")) if kind == MEMCPY else None)
        self.correlation.append(correlation)
        self.meta.append(meta)
        self.external.append(integer(args.get("External id")) if kind == MEMCPY and _PEER_COPY.search(name) else None)

    def _add_cpu(self, event: Event, category: str) -> None:
        name = event.get("name")
        if not isinstance(name, str):
            return
        span, args, step = _span(event), _args(event), _STEP.match(name)
        if category.lower().startswith("gpu_"):
            if step and span and span[0] < span[1]:
                device, stream = args.get("device", event.get("pid")), args.get("stream", event.get("tid"))
                number = device if type(device) is int and 0 <= device < 1 << 31 else -1
                self.gpu_steps.append((int(step[1]), number, integer(stream), *span))
        elif name == "record_param_comms":
            self.param_comms += 1
            meta, external = Meta.of(args), integer(args.get("External id"))
            if meta is not None and external is not None:
                self.by_external_id[external] = meta
        elif name.startswith("nccl:"):
            if (start := to_ns(event.get("ts"))) is not None:
                self.ranges.append((start, Meta.of_range(event)))
        elif span and step:
            self.steps.append((int(step[1]), *span))
        elif span and name.startswith(CPU_BACKENDS) and collective_op(name):
            self.cpu_ops.append((*span, integer(event.get("tid")), Meta.of_range(event)))

    def _flush(self) -> None:
        """Moves the collected GPU events into a frame, which takes a tenth of the memory of the lists."""
        run = (self.kind, self.start, self.end, self.device, self.stream)
        columns: tuple[list[Any], ...] = (*run, self.name, self.size, self.correlation, self.meta, self.external)
        data = {n: pl.Series(n, c, dtype=t) for (n, t), c in zip(_RAW.items(), columns, strict=True)}
        self._frames.append(pl.DataFrame(data))
        for column in columns:
            column.clear()
        launches = (self._launched, self._launched_at)
        self._launches.append(
            pl.DataFrame({n: pl.Series(n, c, dtype=t) for (n, t), c in zip(_LAUNCHES.items(), launches, strict=True)})
        )
        for column in launches:
            column.clear()

    def launches(self) -> pl.DataFrame:
        """Calls that launched something on the GPU, so that their correlation is not 0: ``correlation, start_ns``."""
        self._flush()
        return pl.concat(self._launches).filter(pl.col("correlation") > 0)

    def activity(self) -> pl.DataFrame:
        """GPU activity with ``name_id``, ``correlation`` and ``meta`` (index into :attr:`metas`, -1 = none).

        ``name`` is filled for communication and copies only: names of compute kernels are long and not needed.
        """
        self._flush()
        names = pl.DataFrame(
            {"name": list(self._names), "name_id": list(self._names.values())},
            schema={"name": pl.String, "name_id": pl.Int32},
        )
        rows = pl.concat(self._frames)
        self._frames = [rows]
        named = pl.when(pl.col("kind") != COMPUTE).then("name_id").alias("named")
        return (
            rows.with_columns(named)
            .join(names, left_on="named", right_on="name_id", how="left", maintain_order="left")
            .drop("named")
        )

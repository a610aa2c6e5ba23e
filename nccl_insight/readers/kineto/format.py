"""Traces of torch.profiler (Kineto chrome JSON): collectives, steps, copies, process groups.

The file is read as a stream of any size; only events of GPU activity and communication are decoded. The rank comes
from ``distributedInfo`` or from a process group's member list; the file name is used only as a marked fallback.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from nccl_insight.base.words import words
from nccl_insight.inputs.blocks import DamagedStream, read_blocks
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import gpu_activity, side
from nccl_insight.readers import intervals as _intervals
from nccl_insight.readers.chrome import CHUNK_BYTES, ChromeScan, Damage, header_values
from nccl_insight.readers.kernels import COMM
from nccl_insight.readers.kineto.events import MARKERS, Events
from nccl_insight.readers.kineto.layout import KinetoLayout
from nccl_insight.readers.kineto.merged import Label, MergedEvents, is_merged, ranks_of
from nccl_insight.readers.kineto.meta import small_int
from nccl_insight.readers.kineto.rows import (
    collective_table,
    cpu_step_table,
    engine_collectives,
    process_groups,
    with_cpu_collectives,
)
from nccl_insight.tables.notes import CUT, LACKS
from nccl_insight.tables.run import Partial

_KEYS: Final = words("""distributedInfo baseTimeNanoseconds host_name deviceProperties schemaVersion trace_id
    cuda_runtime_version hip_runtime_version""")
_RECORD: Final = "record again with torch 2.3 or newer and activities CPU and CUDA"


def read(source: InputFile) -> Partial:
    """Tables ``collectives``, ``steps``, ``memcpy``, ``other_communication``, ``process_groups``, ``trace_info``."""
    blocks = read_blocks(source, CHUNK_BYTES)
    first, damaged = b"", None
    try:
        first = next(blocks, b"")
    except DamagedStream as error:
        damaged = error
    blocks = _again(first, blocks, damaged)
    if is_merged(first):
        return _merged(source, blocks)
    events = Events(communication=source.communication)
    layout = KinetoLayout(events)
    scan = ChromeScan(blocks, MARKERS, layout)
    for batch in scan:
        events.add(batch)
    layout.finish()
    header = header_values(scan.head, scan.tail, _KEYS)
    return _Builder(source, scan, events, header).partial()


def _again(first: bytes, rest: Iterator[bytes], damaged: DamagedStream | None) -> Iterator[bytes]:
    """The blocks of which the first was looked at."""
    if first:
        yield first
    if damaged is not None:
        raise damaged
    yield from rest


def _merged(source: InputFile, blocks: Iterator[bytes]) -> Partial:
    """The tables of a file that holds traces of several ranks: those of each, one under the other."""
    events = MergedEvents(source.communication)
    scan = ChromeScan(blocks, MARKERS)
    for batch in scan:
        events.add(batch)
    header = header_values(scan.head, scan.tail, _KEYS)
    info = header.get("distributedInfo")
    info = {k: v for k, v in info.items() if k != "rank"} if isinstance(info, dict) else {}
    # The header is that of the first file, with the GPUs of all.
    header = {k: v for k, v in header.items() if k != "host_name"} | {"distributedInfo": info}
    devices = header.get("deviceProperties")
    if isinstance(devices, list):
        header["deviceProperties"] = list({str(d.get("id")): d for d in devices if isinstance(d, dict)}.values())
    ranks = ranks_of(list(events.parts))
    parts = [
        _Builder(source, scan, part, header, (ranks.get(label), label)).partial().tables
        for label, part in (events.parts or {(): Events()}).items()
    ]
    tables = {
        name: pl.concat([part[name] for part in parts if name in part], how="diagonal_relaxed")
        for name in dict.fromkeys(itertools.chain(*parts))
    }
    tables["notes"] = tables["notes"].unique(maintain_order=True)
    for name in ("events", "bytes_read"):  # of the file: told once
        told = pl.int_range(pl.len()) == 0
        tables["trace_info"] = tables["trace_info"].with_columns(pl.when(told).then(name).otherwise(0).alias(name))
    return Partial(tables=tables)


class _Builder:
    """Makes the tables of one trace."""

    def __init__(
        self,
        source: InputFile,
        scan: ChromeScan,
        events: Events,
        header: dict[str, Any],
        whose: tuple[int | None, Label] | None = None,
    ) -> None:
        """``whose``: rank and label of the events in a file of several ranks."""
        self.source, self.scan, self.events, self.header, self.whose = source, scan, events, header, whose
        info = header.get("distributedInfo")
        self.info: dict[str, Any] = info if isinstance(info, dict) else {}
        base = header.get("baseTimeNanoseconds")
        self.base = base if isinstance(base, int) and 0 <= base < 1 << 61 else 0
        self.groups = process_groups(self.info)
        self.step_by: str | None = None
        self.outside = pl.DataFrame()

    def partial(self) -> Partial:
        raw = self.events.activity()
        activity = raw.unique(
            ["kind", "start_ns", "end_ns", "device", "stream", "name_id", "correlation"], maintain_order=True
        ).with_columns(pl.col("start_ns", "end_ns") + self.base)
        duplicates = raw.height - activity.height
        del raw
        activity = engine_collectives(activity, self.events)
        steps = self._steps()
        activity = gpu_activity.with_launches(
            activity, self.events.launches().with_columns(pl.col("start_ns") + self.base)
        )
        # Step annotations on the GPU.
        marks = pl.DataFrame(self.events.gpu_steps, schema=gpu_activity.MARKS, orient="row")
        assigned = gpu_activity.assign_steps(
            activity, steps, marks.with_columns(pl.col("start_ns", "end_ns") + self.base)
        )
        activity = activity.with_columns(assigned["step"])
        told_by = assigned["by"].drop_nulls()
        self.step_by = str(told_by.mode().sort()[0]) if told_by.len() else None  # what tells it of most
        self.outside = activity.filter(pl.col("step").is_null()) if self.step_by else activity.clear()
        rank, origin = self._rank()
        collectives = collective_table(self.events, activity, steps, self.groups, self.base)
        table = gpu_activity.step_table(with_cpu_collectives(activity, collectives), steps)
        if activity.is_empty():
            table = cpu_step_table(collectives, steps)
        notes = list(self._notes(rank, origin, activity, collectives))
        tables = gpu_activity.tables_of(self._with_hashes(activity), collectives, table)
        rows = [(g.name, g.description, g.backend, list(g.ranks)) for g in self.groups.listed]
        names = dict.fromkeys(("process_group", "description", "backend"), pl.String)
        tables["process_groups"] = pl.DataFrame(rows, schema={**names, "group_ranks": pl.List(pl.Int32)}, orient="row")
        named = {n: f.with_columns(rank=pl.lit(rank, pl.Int32)) for n, f in tables.items() if f.width}
        named["trace_info"] = self._info(rank, origin, activity, duplicates)
        return side.noted(self.source, named, notes)

    def _with_hashes(self, activity: pl.DataFrame) -> pl.DataFrame:
        names = pl.DataFrame({"name": self.events.names}, schema={"name": pl.String})
        hashes = names.select(
            name_hash=gpu_activity.hashed(pl.col("name")), name_id=pl.int_range(pl.len(), dtype=pl.Int32)
        )
        return activity.join(hashes, on="name_id", how="left", maintain_order="left")

    def _steps(self) -> pl.DataFrame:
        steps = pl.DataFrame(self.events.steps, schema=gpu_activity.STEPS, orient="row")
        # A step can be written twice, the second time as a stub of a few microseconds on another thread.
        return (
            steps.sort(pl.col("end_ns") - pl.col("start_ns"), descending=True)
            .unique("step", keep="first", maintain_order=True)
            .with_columns(pl.col("start_ns", "end_ns") + self.base)
            .sort("start_ns")
        )

    def _rank(self) -> tuple[int | None, str | None]:
        """The rank and where it comes from: ``trace``, ``process_group``, ``merged_label`` or ``file_name``."""
        rank = self.info.get("rank")
        if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 31:
            return rank, "trace"
        for meta in self.events.by_external_id.values():
            ranks = self.groups.members(meta)
            if ranks and meta.group_rank is not None and 0 <= meta.group_rank < len(ranks):
                return ranks[meta.group_rank], "process_group"
        if self.whose is not None:
            return self.whose[0], "merged_label" if self.whose[0] is not None else None
        named = gpu_activity.rank_in_name(self.source.display)
        return named, "file_name" if named is not None else None

    def _unplaced(
        self, rank: int | None, origin: str | None, activity: pl.DataFrame, found: pl.DataFrame
    ) -> Iterator[str]:
        """What the trace does not tell of its rank."""
        if origin == "file_name":
            yield f"the trace names no rank (distributedInfo); rank {rank} was taken from the name of the file"
        elif rank is None and self.whose is not None and activity.height:
            names = "-".join(f"{kind}{number}" for kind, number in self.whose[1]) or "events without a mark"
            yield (
                f"the file holds several ranks and does not tell the rank of {names}: cross-rank figures leave it out; "
                "give the traces of the ranks as they were before they were merged"
            )
        elif rank is None and not self.scan.damage.truncated and (found.height or activity.height):
            yield (
                "the trace names no rank (distributedInfo): cross-rank figures leave it out; start the profiler after "
                "torch.distributed.init_process_group"
            )

    def _notes(
        self, rank: int | None, origin: str | None, activity: pl.DataFrame, found: pl.DataFrame
    ) -> Iterator[tuple[str, str]]:
        damage: Damage = self.scan.damage
        if damage.no_events:
            lacks = "there is no list of events (traceEvents) in it" if self.scan.size else "the file is empty"
            yield CUT, damage.truncated or lacks
            return
        if damage.truncated:
            yield CUT, f"{damage.truncated}; {self.scan.events:,} events were read"
        elif not self.scan.events:
            yield CUT, "the list of events is empty"
        if damage.unreadable_events:
            at = f"the first near byte {damage.first_unreadable:,}"
            yield CUT, f"{damage.unreadable_events:,} events are not valid JSON and were left out, {at}"
        if self.events.rejected:
            yield CUT, f"{self.events.rejected:,} GPU events have no valid time or duration and were left out"
        yield from ((LACKS, lacks) for lacks in self._unplaced(rank, origin, activity, found))
        kernels = found.filter(pl.col("source") == "kernel")
        bare = kernels.filter(
            pl.col("op").is_null() | (pl.col("size_bytes").is_null() & (pl.col("op") != "Barrier"))
        ).height
        if bare:
            yield (
                LACKS,
                f"{bare:,} of {kernels.height:,} communication kernels have no message size or operation, so no "
                f"bandwidth is known for them; {_RECORD}",
            )
        if activity.is_empty() and not damage.truncated and (self.events.param_comms or self.events.ranges):
            yield (
                LACKS,
                f"{max(self.events.param_comms, len(self.events.ranges)):,} calls of collectives but no GPU activity "
                "was recorded, so their duration is unknown; record with ProfilerActivity.CUDA",
            )

    def _info(self, rank: int | None, origin: str | None, activity: pl.DataFrame, duplicates: int) -> pl.DataFrame:
        devices = self.header.get("deviceProperties")
        gpu = None
        if isinstance(devices, list) and devices and isinstance(devices[0], dict):
            gpu = devices[0].get("name")
        host, version = self.header.get("host_name"), self.info.get("nccl_version")
        world, backend = self.info.get("world_size"), self.info.get("backend")
        calls = [(start + self.base, end + self.base) for start, end, _, _ in self.events.cpu_ops]
        first = activity["start_ns"].min() if activity.height else min((c[0] for c in calls), default=None)
        last = activity["end_ns"].max() if activity.height else max((c[1] for c in calls), default=None)
        texts = {"host": host, "backend": backend, "nccl_version": version, "gpu": gpu}
        return gpu_activity.header(
            rank=rank,
            rank_origin=origin,
            world_size=small_int(world),
            **{name: text if isinstance(text, str) else None for name, text in texts.items()},
            visible_gpus=len(devices) if isinstance(devices, list) else None,
            devices=activity["device"].n_unique() if activity.height else 0,
            clock="epoch" if self.base or _is_epoch(first) else "unknown",
            events=self.scan.events,
            gpu_events=activity.height,
            duplicate_events=duplicates,
            rejected_events=self.events.rejected + self.scan.damage.unreadable_events,
            comm_kernels=int((activity["kind"] == COMM).sum()),
            step_source=self.step_by,
            outside_steps_ns=_busy(self.outside),
            start_ns=first,
            end_ns=last,
            bytes_read=self.scan.size,
        )


def _busy(rows: pl.DataFrame) -> int:
    """Time in which the GPUs work on some rows."""
    parts = _intervals.union(rows)
    return int((parts["end_ns"] - parts["start_ns"]).sum()) if parts.height else 0


def _is_epoch(time_ns: object) -> bool:
    """Whether a time is between 2010 and 2100 when read as nanoseconds since 1970."""
    return isinstance(time_ns, int) and 1_262_304_000 * 10**9 < time_ns < 4_102_444_800 * 10**9

"""The ``collectives`` table of a Kineto trace: kernels joined with what the framework recorded about them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from nccl_insight.base.bandwidth import dtype_size
from nccl_insight.base.data import dataclass, field
from nccl_insight.readers import intervals as _intervals
from nccl_insight.readers.gpu_activity import exposure, step_of, with_bandwidth
from nccl_insight.readers.kernels import COMM, classify, collective_op
from nccl_insight.readers.kineto.events import Events
from nccl_insight.readers.kineto.meta import Meta, small_int
from nccl_insight.tables.declared import frame

_COMPATIBLE: Final = {
    "SendRecv": {"AllToAll", "AllToAllv", "Send", "Recv", "SendRecv", "Gather", "Scatter"},
    "Reduce": {"Reduce"},
    "AllReduce": {"AllReduce", "Barrier"},
}
_SLACK_NS: Final = 200_000
ENGINE_COPY: Final = "copy engine: "
"""Begins the names of events that stand for a collective of copy engines."""

_COLUMNS: Final = frame("""process_group str, group_ranks list[i32], seq i64, op str, size_bytes u64, dtype str,
    group_size i32, start_ns i64, end_ns i64, stream i64, device i32, kernel str, algorithm str, protocol str,
    source str, peer i32, split_max_share f64, comms_id str""")


@dataclass(frozen=True)
class Group:
    """A process group as the trace's header lists it."""

    name: str
    description: str | None
    backend: str | None
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Groups:
    """The process groups of a trace, and the members of those that events named so far."""

    listed: tuple[Group, ...] = ()
    seen: dict[str, list[int] | None] = field(default_factory=dict)

    def members(self, meta: Meta) -> list[int] | None:
        """The ranks of an event's group."""
        key = f"{meta.process_group}|{meta.group_ranks}"
        if key not in self.seen:
            self.seen[key] = self.ranks_of(meta.process_group, meta.group_ranks)
        return self.seen[key]

    def ranks_of(self, name: str | None, recorded: object) -> list[int] | None:
        """Members: the header's list, else what the event recorded (a list, or a list as text, maybe cut)."""
        for group in self.listed:
            if group.name == name and group.ranks:
                return list(group.ranks)
        if isinstance(recorded, str):
            if not re.fullmatch(r"\[ *(?:[0-9]{1,10} *(?:, *[0-9]{1,10} *)*)?\]", recorded):
                return None
            recorded = [int(rank) for rank in re.findall("[0-9]+", recorded)]
        if isinstance(recorded, list) and recorded and all(isinstance(r, int) and 0 <= r < 1 << 31 for r in recorded):
            return list(recorded)
        return None


def process_groups(info: Mapping[str, Any]) -> Groups:
    """The groups in ``distributedInfo.pg_config``; malformed entries are left out."""
    found: list[Group] = []
    config = info.get("pg_config")
    for item in config if isinstance(config, list) else []:
        if not isinstance(item, dict):
            continue
        ranks = item.get("ranks")
        numbers = [small_int(r) for r in ranks] if isinstance(ranks, list) else []
        name, description, backend = item.get("pg_name"), item.get("pg_desc"), item.get("backend_config")
        description, backend = (text if isinstance(text, str) else None for text in (description, backend))
        members = tuple(r for r in numbers if r is not None) if None not in numbers else ()
        found.append(Group(str(name) if name is not None else "", description, backend, members))
    return Groups(tuple(found))


def collective_table(
    events: Events, activity: pl.DataFrame, steps: pl.DataFrame, groups: Groups, base: int
) -> pl.DataFrame:
    """One row per communication kernel, or per CPU operation of Gloo and its like."""
    comm = activity.filter(pl.col("kind") == COMM).sort("start_ns", maintain_order=True)
    rows = [*_kernel_rows(events, comm, groups, base), *_cpu_rows(events, groups, base)]
    table = pl.DataFrame(rows, schema=_COLUMNS, orient="row")
    on_cpu = pl.repeat(None, table.height - comm.height, dtype=pl.Int64, eager=True)
    return with_bandwidth(
        table.with_columns(
            duration_ns=pl.col("end_ns") - pl.col("start_ns"),
            **{name: pl.concat([times, on_cpu]) for name, times in exposure(comm, activity).to_dict().items()},
            step=pl.concat([comm["step"].cast(pl.Int32), step_of(table.slice(comm.height), steps)]),
        ).drop("end_ns")
    )


def engine_collectives(activity: pl.DataFrame, events: Events) -> pl.DataFrame:
    """The activity with collectives of copy engines (NCCL 2.28 and later) as communication.

    They run no kernel: ``record_param_comms`` stands beside peer copies of the same external id. Those of one device
    become one event, from the start of the first to the end of the last copy; its name begins with :data:`ENGINE_COPY`.
    """
    copies = activity.filter(pl.col("external").is_not_null())
    if copies.is_empty() or not events.by_external_id:
        return activity.drop("external")
    by_kernel = {m for m in events.metas if isinstance(m, int)}
    known = {number: index for index, number in enumerate(n for n in events.by_external_id if n not in by_kernel)}
    wanted = pl.DataFrame(
        {"external": list(known), "number": list(known.values())}, schema={"external": pl.Int64, "number": pl.Int64}
    )
    parts = copies.join(wanted, on="external")
    if parts.is_empty():
        return activity.drop("external")
    first = len(events.metas)
    events.metas.extend(events.by_external_id[n] for n in known)
    made = (
        parts.sort("start_ns")
        .group_by("device", "external", maintain_order=True)
        .agg(
            pl.lit(COMM, pl.Int8).alias("kind"),
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.col("stream", "correlation").first(),
            pl.col("number").first() + first,
            pl.format(ENGINE_COPY + "{}", pl.col("name").first()).alias("name"),
        )
        .rename({"number": "meta"})
        .drop("external")
    )
    taken = pl.col("external").is_in(parts["external"].unique().implode()).fill_null(False)
    return pl.concat([activity.filter(~taken).drop("external"), made], how="diagonal_relaxed")


def _kernel_rows(events: Events, comm: pl.DataFrame, groups: Groups, base: int) -> Iterator[tuple[Any, ...]]:
    metas: list[Meta | None] = []
    for index in comm["meta"]:
        known = events.metas[index] if index >= 0 else None
        metas.append(events.by_external_id.get(known) if isinstance(known, int) else known)
    if any(m is None for m in metas):
        _pair_with_ranges(events, comm, metas, base)
    columns = (comm[c] for c in ("start_ns", "end_ns", "stream", "device", "name"))
    for meta, *place, name in zip(metas, *columns, strict=True):
        kernel = None if name.startswith(ENGINE_COPY) else name
        yield _row(meta or Meta(), groups, place, kernel, "kernel")


def _cpu_rows(events: Events, groups: Groups, base: int) -> Iterator[tuple[Any, ...]]:
    threads = _group_of_thread(events.cpu_ops, groups)
    for start, end, thread, meta in sorted(events.cpu_ops, key=lambda op: op[0]):
        group = threads.get(thread)
        if group is not None:
            meta.process_group, meta.group_size = group.name, len(group.ranks)
        yield _row(meta, groups, (start + base, end + base, thread, None), None, "cpu_op")


def _group_of_thread(ops: Iterable[tuple[int, int, int | None, Meta]], groups: Groups) -> dict[int | None, Group]:
    """Gloo runs each group on two threads of its own, made when the group is made. Threads are given to groups in
    order of creation, only if there are exactly two per group; otherwise the group stays unknown."""
    collective = {op[2] for op in ops if collective_op(op[3].name) not in ("Send", "Recv")} - {None}
    threads = sorted(t for t in collective if t is not None)
    if len(threads) != 2 * len(groups.listed) or not all(g.ranks for g in groups.listed):
        return {}
    return {thread: groups.listed[i // 2] for i, thread in enumerate(threads)}


def _pair_with_ranges(events: Events, comm: pl.DataFrame, metas: list[Meta | None], base: int) -> None:
    """Old torch writes nothing on the kernel: the n-th ``nccl:*`` annotation belongs to the n-th kernel.

    Used only if the counts agree, every pair is possible by its kernel's name, and no kernel starts clearly before
    its annotation.
    """
    ranges = sorted(events.ranges, key=lambda r: r[0])
    if len(ranges) != len(metas):
        return
    for (start, meta), name, begin in zip(ranges, comm["name"], comm["start_ns"], strict=True):
        known, op = classify(name).op, collective_op(meta.name)
        if begin + _SLACK_NS < start + base or (known and op not in _COMPATIBLE.get(known, {known})):
            return
    for index, (_, meta) in enumerate(ranges):
        if metas[index] is None:
            metas[index] = meta


def _row(meta: Meta, groups: Groups, place: Sequence[int | None], kernel: str | None, source: str) -> tuple[Any, ...]:
    """A row of the table. ``place``: start, end, stream (or thread) and device."""
    name = classify(kernel) if kernel is not None else None
    op = collective_op(meta.name) or (name.op if name else None)
    ranks = groups.members(meta)
    group_size = meta.group_size if meta.group_size is not None else len(ranks) if ranks else None
    dtype = meta.dtype or (name.dtype if name else None)
    split = _largest_share(meta.in_split) if op in ("AllToAll", "AllToAllv") else None
    if op == "AllToAll" and split is not None:
        op = "AllToAllv"
    size, chosen = _size(op, meta, group_size), (name.algorithm, name.protocol) if name else (None, None)
    what = (meta.process_group, ranks, meta.seq, op, size, dtype, group_size)
    return *what, *place, kernel, *chosen, source, meta.peer, split, meta.comms_id


def _size(op: str | None, meta: Meta, group_size: int | None) -> int | None:
    """Bytes that count for bandwidth (see :mod:`nccl_insight.base.bandwidth`)."""
    element = dtype_size(meta.dtype)
    if element is None:
        return None
    count = meta.in_elements
    if op in ("AllGather", "Gather"):
        count = meta.out_elements
        if not count and meta.in_elements is not None and group_size:
            count = meta.in_elements * group_size
    elif op in ("Recv", "Scatter"):
        count = meta.out_elements or meta.in_elements
    elif op == "ReduceScatter" and not count and meta.out_elements and group_size:
        count = meta.out_elements * group_size
    return count * element if count is not None and count < 1 << 58 else None


def _largest_share(split: str | None) -> float | None:
    """Largest split of an all-to-all-v over the mean of all; None when the splits are even or unknown."""
    if not split or not re.fullmatch(r"\[[0-9, ]+\]", split):
        return None
    parts = [int(p) for p in split.strip("[]").split(",") if p.strip()]
    return max(parts) * len(parts) / sum(parts) if parts and sum(parts) and len(set(parts)) > 1 else None


def with_cpu_collectives(activity: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """GPU activity and the collectives that run on the CPU for it (Gloo), in which a GPU is not idle but waits."""
    rows = _on_cpu(collectives)
    if rows.is_empty() or activity["device"].n_unique() != 1:
        return activity
    kind, device = pl.lit(COMM, activity["kind"].dtype), pl.lit(activity["device"][0], activity["device"].dtype)
    return pl.concat([activity, rows.with_columns(kind=kind, device=device)], how="diagonal")


def _on_cpu(collectives: pl.DataFrame) -> pl.DataFrame:
    """Collectives that run on the CPU: ``step, start_ns, end_ns``."""
    rows = collectives.filter(pl.col("source") == "cpu_op")
    return rows.select(pl.col("step").cast(pl.Int32), "start_ns", end_ns=pl.col("start_ns") + pl.col("duration_ns"))


def cpu_step_table(collectives: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Steps of a trace without GPU activity: time in communication threads; compute time is unknown."""
    if steps.is_empty():
        return pl.DataFrame()
    spans, rows = (frame.with_columns(device=pl.lit(0, pl.Int32)) for frame in (steps, _on_cpu(collectives)))
    comm = _intervals.covered(spans, _intervals.union(rows))
    return spans.select("step", "start_ns", duration_ns=pl.col("end_ns") - pl.col("start_ns"), comm_ns=comm)

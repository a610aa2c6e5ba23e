"""Explains who takes part: the job, its communicators and what they look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from nccl_insight.facts.members import Comm, comms, main_comm, processes
from nccl_insight.facts.placement import Layout, layout, places
from nccl_insight.report.prose import Section, capped, listed, safe, section
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ranks, plural

_P2P = frozenset({"Send", "Recv", "SendRecv"})


def job(run: Run) -> Section:
    """Versions, hosts, processes, GPUs."""
    return section("The job", _job(run))


def _job(run: Run) -> Iterator[str]:
    everyone, world = processes(run), main_comm(run)
    if world is not None:
        hosts = listed([safe(h) for h in world.hosts])
        where = f" on {plural(len(world.hosts), 'host')} ({hosts})" if hosts else ""
        yield f"The largest communicator has {plural(world.nranks, 'rank')}{where}."
        if world.nodes and world.hosts and world.nodes != len(world.hosts):
            yield f"NCCL counts {plural(world.nodes, 'node')}: hosts joined by multi-node NVLink count as one."
        if world.missing:
            yield f"The log shows only {world.ranks_seen} of them; missing: {format_ranks(world.missing)}."
    if everyone.height:
        yield f"{plural(everyone.height, 'process', 'processes')} wrote to the log."
    for column, label in (
        ("nccl_version_full", "NCCL"),
        ("cuda_version", "CUDA"),
        ("driver_version", "CUDA driver"),
    ):
        values = everyone.get_column(column).drop_nulls().value_counts(sort=True)
        if values.height == 1:
            yield f"{label}: {safe(values.item(0, 0))}."
        elif values.height:
            parts = [
                f"{safe(value)} ({plural(count, 'process', 'processes')})"
                for value, count in values.iter_rows()
            ]
            yield f"{label}, not the same everywhere: {listed(parts)}."
    if "rccl" in everyone.get_column("library").drop_nulls().to_list():
        yield "The library is RCCL (AMD)."
    devices = run.table("ranks").select("host", "bus_id").drop_nulls().unique().height
    if devices:
        yield f"{plural(devices, 'GPU')} take part."


@dataclass(frozen=True)
class _Kind:
    nranks: int
    layout: Layout
    hosts: int
    members: tuple[Comm, ...]


def communicators(run: Run) -> Section:
    """Communicators by kind, with a guess what each kind is for."""
    return section("Communicators", _communicators(run))


def _communicators(run: Run) -> Iterator[str]:
    found = [c for c in comms(run) if c.comm_id is not None]
    if not found:
        yield "No communicator is in the log."
        return
    where = places(run)
    world = max(c.nranks for c in found)
    ops = _operations(run)
    kinds: dict[tuple[int, str, int, int], list[Comm]] = {}
    for comm in found:
        how = layout(where.get((str(comm.comm_id), comm.nranks), ()), comm.nranks, world)
        kinds.setdefault((comm.nranks, how.kind, how.step, len(comm.hosts)), []).append(comm)
    yield f"{plural(len(found), 'communicator')} in {plural(len(kinds), 'kind')}:"
    lines: list[str] = []
    for (nranks, kind, step, hosts), members in sorted(
        kinds.items(), key=lambda item: (-item[0][0], item[0])
    ):
        this = _Kind(nranks, Layout(kind, step), hosts, tuple(members))
        used = frozenset().union(*(ops.get(str(c.comm_id), frozenset()) for c in members))
        lines += list(_kind(this, where, used, world))
    yield from lines[:60]
    if len(lines) > 60:
        yield f"  ... and {len(lines) - 60} more lines"
    unfinished = [c for c in found if not c.init_complete]
    if unfinished:
        names = listed([safe(c.comm_id) for c in unfinished], 3)
        yield f"Not seen to complete their init on all ranks: {len(unfinished)} ({names})."


def _kind(
    kind: _Kind, where: Mapping[tuple[str, int], tuple[int, ...]], ops: frozenset[str], world: int
) -> Iterator[str]:
    count, first = len(kind.members), kind.members[0]
    on = f" on {plural(kind.hosts, 'host')}" if kind.hosts else ""
    each = " each" if count > 1 else ""
    used = f"; calls: {', '.join(sorted(ops))}" if ops else ""
    yield f"- {plural(count, 'communicator')} of {plural(kind.nranks, 'rank')}{on}{each}{used}"
    yield f"  looks like: {_guess(kind, ops, world)}"
    shown: dict[tuple[int, ...], int] = {}
    for comm in kind.members:
        key = where.get((str(comm.comm_id), comm.nranks), ())
        shown[key] = shown.get(key, 0) + 1
    if kind.layout.kind == "world":
        if count > 1:
            yield f"  {count} communicators over the same ranks (frameworks make one for each stream or purpose)"
        else:
            yield f"  id {safe(first.comm_id)}"
        return
    groups = [
        f"  ranks {format_ranks(key)}{f' ({n} times)' if n > 1 else ''}"
        for key, n in sorted(shown.items())
        if key
    ]
    yield from capped(groups, 8, "groups")


def _guess(kind: _Kind, ops: frozenset[str], world: int) -> str:
    """What such groups are usually for; said to be a guess, because the log does not know."""
    if kind.layout.kind == "world":
        return "all ranks of the job (default group; plain data parallelism if there is no other group)"
    if kind.layout.kind == "single":
        return "groups of one rank, which communicate with nobody"
    if ops and ops <= _P2P:
        return "pipeline stages (PP), a guess: only sends and receives"
    if "AllToAll" in ops or "AllToAllv" in ops:
        return "expert parallelism (EP), a guess: all-to-all inside the group"
    if kind.layout.kind == "block" and kind.hosts == 1:
        return "tensor parallelism (TP), a guess: consecutive ranks of one host"
    if kind.layout.kind == "block":
        return "a block of consecutive ranks over several hosts (sharding group or pipeline), a guess"
    if kind.layout.kind == "stride":
        every = f"ranks {kind.layout.step} apart"
        if ops:
            return f"data parallelism (DP), a guess: {every}, collectives only"
        return f"data parallelism (DP) or pipeline stages (PP), a guess: {every}"
    return "unclear: the ranks follow no simple pattern, or not all are in the log"


def _operations(run: Run) -> Mapping[str, frozenset[str]]:
    rows = (
        run.lazy("calls")
        .filter(pl.col("comm_id").is_not_null() & pl.col("op").is_not_null())
        .group_by("comm_id")
        .agg(pl.col("op").cast(pl.String).unique())
        .collect()
    )
    return {name: frozenset(found) for name, found in rows.iter_rows()}

"""Explains who takes part: the job, its communicators and what they look like."""

from collections.abc import Iterator

from nccl_insight.base.units import format_ranks, listed, plural
from nccl_insight.report.prose import capped, safe
from nccl_insight.views.log.job import CommKind, Communicators, Job

_P2P = frozenset({"Send", "Recv", "SendRecv"})


def job(view: Job) -> Iterator[str]:
    """Versions, hosts, processes, GPUs."""
    world = view.world
    if world is not None:
        hosts = listed([safe(h) for h in world.hosts])
        where = f" on {plural(len(world.hosts), 'host')} ({hosts})" if hosts else ""
        yield f"The largest communicator has {plural(world.nranks, 'rank')}{where}."
        if world.nodes and world.hosts and world.nodes != len(world.hosts):
            yield f"NCCL counts {plural(world.nodes, 'node')}: hosts joined by multi-node NVLink count as one."
        if world.missing:
            yield f"The log shows only {world.ranks_seen} of them; missing: {format_ranks(world.missing)}."
    if view.processes:
        yield f"{plural(view.processes, 'process', 'processes')} wrote to the log."
    for column, label in (("nccl_version_full", "NCCL"), ("cuda_version", "CUDA"), ("driver_version", "CUDA driver")):
        values = view.versions[column]
        if len(values) == 1:
            yield f"{label}: {safe(values[0][0])}."
        elif values:
            parts = [f"{safe(value)} ({plural(count, 'process', 'processes')})" for value, count in values]
            yield f"{label}, not the same everywhere: {listed(parts)}."
    if view.rccl:
        yield "The library is RCCL (AMD)."
    if view.gpus:
        yield f"{plural(view.gpus, 'GPU')} take part."


def communicators(view: Communicators | None) -> Iterator[str]:
    """Communicators by kind, with a guess what each kind is for."""
    if view is None:
        yield "No communicator is in the log."
        return
    kinds = f" in {plural(len(view.kinds), 'kind')}" if view.count > 1 else ""
    yield f"{plural(view.count, 'communicator')}{kinds}:"
    lines = [line for kind in view.kinds for line in _kind(kind)]
    yield from lines[:60]
    if len(lines) > 60:
        yield f"  ... and {len(lines) - 60} more lines"
    if view.unfinished:
        names = listed([safe(name) for name in view.unfinished], 3)
        yield f"Not seen to complete their init on all ranks: {len(view.unfinished)} ({names})."


def _kind(kind: CommKind) -> Iterator[str]:
    on = f" on {plural(kind.hosts, 'host')}" if kind.hosts else ""
    each = " each" if kind.count > 1 else ""
    used = f"; calls: {', '.join(sorted(kind.ops))}" if kind.ops else ""
    yield f"- {plural(kind.count, 'communicator')} of {plural(kind.nranks, 'rank')}{on}{each}{used}"
    yield f"  looks like: {_guess(kind)}"
    if kind.layout.kind == "world":
        if kind.count > 1:
            yield f"  {kind.count} communicators over the same ranks (frameworks make one for each stream or purpose)"
        else:
            yield f"  id {safe(kind.first)}"
        return
    groups = [f"  ranks {format_ranks(ranks)}{f' ({n} times)' if n > 1 else ''}" for ranks, n in kind.groups]
    yield from capped(groups, 8, "groups")


def _guess(kind: CommKind) -> str:
    """What such groups are usually for; said to be a guess, because the log does not know."""
    ops = kind.ops
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

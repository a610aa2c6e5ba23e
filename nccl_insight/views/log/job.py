"""Who takes part: the job and its communicators."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.who.members import Comm, comms, main_comm, processes
from nccl_insight.facts.who.placement import Layout, layout, world_ranks
from nccl_insight.tables.run import Run

__all__ = ["Comm", "CommKind", "Communicators", "Job", "Layout", "communicators", "job"]

_VERSIONS = ("nccl_version_full", "cuda_version", "driver_version")


@dataclass(frozen=True)
class Job:
    """The largest communicator, processes and GPUs. ``versions``: of NCCL, CUDA and driver, with how many processes."""

    world: Comm | None
    processes: int
    versions: Mapping[str, tuple[tuple[str, int], ...]]
    rccl: bool
    gpus: int


@dataclass(frozen=True)
class CommKind:
    """Communicators of as many ranks, laid out alike, on as many hosts; ``first``: id of the first.

    ``ops``: what is called on them. ``groups``: ranks of the largest communicator, as far as known, and how often.
    """

    nranks: int
    layout: Layout
    hosts: int
    count: int
    first: str
    ops: frozenset[str]
    groups: tuple[tuple[tuple[int, ...], int], ...]


@dataclass(frozen=True)
class Communicators:
    """All of them by kind, the largest first; ``unfinished``: ids of those not seen to complete their init."""

    count: int
    kinds: tuple[CommKind, ...]
    unfinished: tuple[str, ...]


def job(run: Run) -> Job:
    """Versions, processes, GPUs."""
    everyone = processes(run)
    return Job(
        world=main_comm(run),
        processes=everyone.height,
        versions={
            column: tuple(
                everyone.get_column(column)
                .drop_nulls()
                .value_counts()
                .sort("count", column, descending=[True, False])
                .iter_rows()
            )
            for column in _VERSIONS
        },
        rccl="rccl" in everyone.get_column("library").drop_nulls().to_list(),
        gpus=run.table("ranks").select("host", "bus_id").drop_nulls().unique().height,
    )


def communicators(run: Run) -> Communicators | None:
    """Communicators by kind, None without any."""
    found = [c for c in comms(run) if c.comm_id is not None]
    if not found:
        return None
    where, ops = world_ranks(run), _operations(run)
    world = max(c.nranks for c in found)
    kinds: dict[tuple[int, str, int, int], list[Comm]] = {}
    for comm in found:
        how = layout(where.get((str(comm.comm_id), comm.nranks), ()), comm.nranks, world)
        kinds.setdefault((comm.nranks, how.kind, how.step, len(comm.hosts)), []).append(comm)
    listed = []
    for (nranks, kind, step, hosts), members in sorted(kinds.items(), key=lambda i: (-i[0][0], i[0])):
        times: dict[tuple[int, ...], int] = {}
        for comm in members:
            ranks = where.get((str(comm.comm_id), comm.nranks), ())
            times[ranks] = times.get(ranks, 0) + 1
        used = frozenset().union(*(ops.get(str(c.comm_id), frozenset()) for c in members))
        groups = tuple((ranks, n) for ranks, n in sorted(times.items()) if ranks)
        first = str(members[0].comm_id)
        listed.append(CommKind(nranks, Layout(kind, step), hosts, len(members), first, used, groups))
    unfinished = tuple(str(c.comm_id) for c in found if not c.init_complete)
    return Communicators(len(found), tuple(listed), unfinished)


def _operations(run: Run) -> Mapping[str, frozenset[str]]:
    parts = [frame.drop_nulls().unique() for frame in run.pieces("calls", "comm_id", "op")]
    rows = pl.concat(parts).group_by("comm_id").agg(pl.col("op").cast(pl.String).unique())
    return {name: frozenset(found) for name, found in rows.iter_rows()}

"""What the Flight Recorder dumps of a job say together: who waits, who is missing, who issued something else.

Collectives are matched by process group (name, description and members) and sequence number. Operations count
as done when retired or completed: Gloo never says ``completed``. Point-to-point numbers run per group and rank
and are matched by their pair of ranks (:mod:`nccl_insight.facts.flight_recorder.pairs`).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from nccl_insight.facts.flight_recorder.differences import Mismatch, mismatches_of
from nccl_insight.facts.flight_recorder.entries import (
    Group,
    entries_of,
    groups_of,
    progress_of,
    status_of,
    timed_ranks,
    unnamed_counters,
)
from nccl_insight.facts.flight_recorder.waits import (
    Lagging,
    Stalled,
    Starved,
    lagging_in,
    silent_in,
    stalled_in,
    starved_in,
    suspects_of,
)
from nccl_insight.tables.run import Run, fact


@dataclass(frozen=True)
class Verdict:
    """The whole judgement. ``suspects`` are the ranks that explain the others; ``undumped`` gave no dump.

    ``silent``: every rank of a group that gave a dump waits in the same collective for those that gave none.
    """

    starved: tuple[Starved, ...]
    lagging: tuple[Lagging, ...]
    mismatches: tuple[Mismatch, ...]
    suspects: tuple[int, ...]
    undumped: tuple[int, ...]
    silent: tuple[Starved, ...]
    stuck_groups: int
    ranks: int
    stalled: tuple[Stalled, ...] = ()
    not_entered: tuple[Stalled, ...] = ()


@fact
def verdict(run: Run) -> Verdict | None:
    """The judgement over all dumps of the run, None when there is none of a known rank."""
    entries = entries_of(run)
    if entries.is_empty():
        return None
    groups = groups_of(entries)
    ranks = frozenset(entries["rank"].to_list()) | frozenset(status_of(run)["rank"].to_list())
    progress = progress_of(run, entries)
    starved: list[Starved] = []
    lagging: list[Lagging] = []
    silent: list[Starved] = []
    stalls: list[Stalled] = []
    stuck = 0
    waiting = entries.filter(~pl.col("is_p2p") & ~pl.col("done"))
    open_by_group = waiting.partition_by("key", as_dict=True, maintain_order=True)
    unnamed = unnamed_counters(run)
    for key, frame in progress.partition_by("key", as_dict=True, maintain_order=True).items():
        pending = open_by_group.get(key)
        if pending is not None:
            group = groups[str(key[0])]
            stuck += 1
            late = starved_in(group, frame, pending, ranks, unnamed, timed_ranks(entries))
            slow = lagging_in(group, frame, pending)
            starved += late
            lagging += slow
            if not late and not slow:
                stalls += stalled_in(group, pending, ranks, timed_ranks(entries))
            silent += silent_in(group, pending, ranks)
    # Who stands in an operation that all of its group have entered, or all that gave a dump, is held up by that, not
    # behind in another group.
    held = {r for s in stalls if s.whole for r in s.ranks} | {r for s in silent for r in s.waiting}
    starved = [s for s in starved if not set(s.missing) <= held]
    starved.sort(key=lambda s: s.operation.created_ns)
    silent.sort(key=lambda s: s.operation.created_ns)
    lagging.sort(key=lambda s: s.operation.created_ns)
    members = {r for g in groups.values() for r in g.members or ()}
    return Verdict(
        starved=tuple(starved),
        lagging=tuple(lagging),
        mismatches=tuple(mismatches_of(entries, groups)),
        suspects=suspects_of(starved, lagging),
        silent=tuple(silent),
        undumped=tuple(sorted(members - ranks)),
        stuck_groups=stuck,
        ranks=len(ranks),
        stalled=tuple(sorted((s for s in stalls if not s.waiting), key=lambda s: s.operation.created_ns)),
        not_entered=tuple(sorted((s for s in stalls if s.waiting and s.started), key=lambda s: s.operation.created_ns)),
    )


def progress(run: Run) -> tuple[pl.DataFrame, dict[str, Group]] | None:
    """How far each rank got in each process group, and the groups by key; None without dumps of known ranks.

    Columns: ``key, rank, enqueued`` (last collective issued), ``finished`` (last one known to be finished).
    """
    entries = entries_of(run)
    if entries.is_empty():
        return None
    found = progress_of(run, entries).select("key", "rank", "enqueued", "finished").sort("key", "rank")
    return found, groups_of(entries)

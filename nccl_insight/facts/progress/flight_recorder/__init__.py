"""What the Flight Recorder dumps of a job tell: where each rank stands, transfers without a partner, and differences.

Collectives are matched by process group (name, description and members) and sequence number. Operations count
as done when retired or completed: Gloo never says ``completed``. Point-to-point numbers run per group and rank
and are matched by their pair of ranks (:mod:`nccl_insight.facts.progress.flight_recorder.pairs`).
"""

from typing import Final

import polars as pl

from nccl_insight.base.bandwidth import SYNCHRONISING
from nccl_insight.facts.progress.flight_recorder.differences import Mismatch, mismatches_of
from nccl_insight.facts.progress.flight_recorder.entries import (
    entries_of,
    groups_of,
    progress_of,
    status_of,
    timed_ranks,
    unnamed_counters,
)
from nccl_insight.facts.progress.flight_recorder.pairs import Unpaired, in_transfer, stuck, unpaired
from nccl_insight.facts.progress.instances import Instance
from nccl_insight.tables.run import Run, fact

__all__ = ["Unpaired", "dumped", "in_transfer", "instances", "mismatches", "stuck", "unpaired"]

_NEVER: Final = 1 << 63


def dumped(run: Run) -> frozenset[int]:
    """The ranks that gave a dump."""
    return frozenset(entries_of(run)["rank"].to_list()) | frozenset(status_of(run)["rank"].to_list())


def mismatches(run: Run) -> tuple[Mismatch, ...]:
    """The first difference in each process group."""
    entries = entries_of(run)
    return tuple(mismatches_of(entries, groups_of(entries))) if entries.height else ()


@fact
def instances(run: Run) -> tuple[Instance, ...]:
    """The process groups, the one whose unfinished collective is oldest first."""
    entries = entries_of(run)
    if entries.is_empty():
        return ()
    groups, ranks, timed = groups_of(entries), dumped(run), timed_ranks(entries)
    started = (pl.col("state") == "started") | pl.col("time_started_ns").is_not_null()
    open_ops = (
        entries.filter(~pl.col("is_p2p") & ~pl.col("done"))
        .sort("collective_seq", "time_created_ns", maintain_order=True)
        .unique(["key", "rank"], keep="first", maintain_order=True)
        .select(
            "key",
            "rank",
            "input_id",
            "time_created_ns",
            timed_out_seq="collective_seq",
            op="op_name",
            label="label",
            started=started,
            inside=started | ~pl.col("rank").is_in(list(timed)),
            joint=pl.col("op").cast(pl.String).is_in(SYNCHRONISING),
        )
    )
    counters = unnamed_counters(run)
    found: list[tuple[int, Instance]] = []
    every = progress_of(run, entries).select("key", "rank", last_enqueued="enqueued", last_completed="finished")
    rows = every.join(open_ops, on=["key", "rank"], how="left", maintain_order="left").with_columns(
        global_rank="rank", line=pl.lit(0), time_s=pl.lit(None, pl.Float64), ran_ms=pl.lit(None, pl.Int64)
    )
    for (key,), part in rows.partition_by("key", as_dict=True, maintain_order=True).items():
        first = part["time_created_ns"].min()
        group = groups[str(key)]
        members = frozenset(group.members or part["rank"].to_list())
        # Members whose dump shows nothing of the group have issued none of what it shows.
        missing = sorted((members & ranks) - set(part["rank"].to_list()))
        none = {"rank": missing, "global_rank": missing, "last_enqueued": [counters.get(r, -1) for r in missing]}
        part = pl.concat([part, pl.DataFrame(none)], how="diagonal_relaxed")
        whole = group.members is not None and members <= ranks
        at = int(first) if isinstance(first, int) else _NEVER
        found.append(
            (at, Instance(group.label, part, members, True, True, whole=whole, listed=True, proof="not-issued"))
        )
    return tuple(instance for _, instance in sorted(found, key=lambda f: f[0]))

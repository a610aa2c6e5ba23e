"""The course of the job by its program's own output: when it began, its last step, and whether it came to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from nccl_insight.facts.clock import with_time
from nccl_insight.model import Ref
from nccl_insight.readers.embedded.endings import BEGUN, COURSE, DONE, LAST, STEP
from nccl_insight.tables.run import Run


@dataclass(frozen=True)
class Course:
    """``begun_s``, ``ended_s``: clocks of the first and last stamped line of the program (seconds since 1970).

    ``through``: the line of each input at which its processes had come to their end: the program says so, or the first
    communicator was closed in a job in which every rank closed all of them. Empty where that is not proved.
    ``inputs``: all inputs that the job's ranks wrote.
    """

    begun_s: float | None = None
    ended_s: float | None = None
    through: Mapping[int, int] = field(default_factory=dict)
    inputs: frozenset[int] = frozenset()

    @property
    def completed(self) -> bool:
        """Whether the job came to its end."""
        return bool(self.through)

    def got_over(self, refs: Sequence[Ref]) -> bool:
        """Whether the program was at work, or through, after these lines, all of which its processes printed."""
        return self.completed and bool(refs) and all(ref.input_id in self.inputs for ref in refs)

    def outside(self, first_s: float | None, last_s: float | None) -> bool:
        """Whether something began and ended before the job's first line, or began after its last one."""
        last = last_s if last_s is not None else first_s
        if last is not None and self.begun_s is not None and last < self.begun_s:
            return True
        return first_s is not None and self.ended_s is not None and first_s > self.ended_s


def course(run: Run) -> Course:
    """The job's course; empty where nothing tells."""
    return run.memo("facts.course", _build)


def in_order(run: Run) -> bool:
    """Whether the log holds every rank of every communicator, and each destroyed its communicators (no abort).

    Then no process was lost: what is said of closed connections beside that is how the others left.
    """
    return run.memo("facts.course.in_order", _in_order)


def _in_order(run: Run) -> bool:
    ends = run.table("milestones")
    if ends.is_empty() or not (ends["end"].cast(pl.String) == "destroyed").fill_null(False).all():
        return False
    ranks = run.table("ranks").drop_nulls(["comm_id", "rank", "nranks"])
    sizes = ranks.group_by("comm_id").agg(pl.col("rank").n_unique().alias("_seen"), pl.col("nranks").max())
    return sizes.height > 0 and bool((sizes["_seen"] >= sizes["nranks"]).all())


def _build(run: Run) -> Course:
    marks = run.table("milestones")
    own = frozenset(int(i) for i in marks["input_id"].unique()) if marks.height else frozenset()
    rows = run.table("endings").filter(
        pl.col("kind").is_in([*COURSE, LAST]) & pl.col("input_id").is_in(list(own))
    )
    timed = with_time(run, rows, "text")
    stamped = timed.filter(pl.col("kind") != LAST) if own else timed
    begun, ended = stamped.filter(pl.col("kind") == BEGUN)["time_s"].min(), timed["time_s"].max()
    return Course(
        begun if isinstance(begun, float) else None,
        ended if isinstance(ended, float) else None,
        _through(run, rows, marks),
        own,
    )


def _through(run: Run, rows: pl.DataFrame, marks: pl.DataFrame) -> dict[int, int]:
    if in_order(run):
        closed = marks.group_by("input_id").agg(pl.col("destroyed").min()).drop_nulls()
        return {int(i): int(line) for i, line in closed.iter_rows()}
    last = {
        kind: dict(
            rows.filter(pl.col("kind") == kind).group_by("input_id").agg(pl.col("line").max()).iter_rows()
        )
        for kind in (STEP, DONE)
    }
    # A program that counts steps after it said so has gone on, or a next attempt has begun.
    begun = dict(
        marks.group_by("input_id")
        .agg(pl.max_horizontal("launched", "init_started", "init_completed").max())
        .drop_nulls()
        .iter_rows()
    )
    return {
        int(i): int(line)
        for i, line in last[DONE].items()
        if line >= max(int(last[STEP].get(i, 0)), int(begun.get(i, 0)))
    }

"""The course of the job by its program's own output: when it began, its last step, and whether it came to its end."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.base.model import Ref
from nccl_insight.base.words import words
from nccl_insight.facts.said.clock import since, with_time
from nccl_insight.readers.embedded.endings import BEGUN, COURSE, DONE, LAST, STEP
from nccl_insight.tables.run import Run, fact

# Steps that were begun may still be counted so long after a rank is gone.
_LONG_S: Final = 60.0
_LONG_LINES: Final = 20

# The kernel's own words, which stand beside a job's log and of any process of the machine.
KERNEL: Final = (
    r"\bkernel: |NVRM: |\boom-kill:|[Oo]ut of memory: Killed process|\bsegfault at|\bmlx5_core |Bus Error: severity"
    r"|^\s*\[[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8} [0-9]{4}\]"
)
STEPS: Final = words("launched bootstrapped init_started init_completed connected first_call last_call destroyed")
"""The milestones of a rank, as columns of the table ``milestones``, in order."""
_NONE: Final = pl.lit(False)
_TEXT: Final = pl.col("text")


@dataclass(frozen=True)
class Course:
    """``begun_s``, ``ended_s``: clocks of the first and last stamped line of the program (seconds since 1970).

    ``through``: the line of each input at which its processes had come to their end: the program says so, or the first
    communicator was closed in a job in which every rank closed all of them. Empty where that is not proved.
    ``steps``: line of the last step that each input counts, and its clock or that of the last stamped line before it.
    ``inputs``: all inputs that the job's ranks wrote, with the line of each at which the first of them began.
    """

    begun_s: float | None = None
    ended_s: float | None = None
    through: Mapping[int, int] = field(default_factory=dict)
    steps: Mapping[int, tuple[int, float | None]] = field(default_factory=dict)
    inputs: Mapping[int, int] = field(default_factory=dict)

    @property
    def completed(self) -> bool:
        """Whether the job came to its end."""
        return bool(self.through)

    def got_over(self, refs: Sequence[Ref]) -> bool:
        """Whether the program was at work, or through, after these lines, all of which its processes printed."""
        return self.completed and bool(refs) and all(ref.input_id in self.inputs for ref in refs)

    def in_front(self, refs: Sequence[Ref]) -> bool:
        """Whether the job began behind these lines, and came to its end."""
        return self.completed and bool(refs) and all(ref.line < self.inputs.get(ref.input_id, 0) for ref in refs)

    def went_on(self, refs: Sequence[Ref], last_s: float | None) -> bool:
        """Whether the program counted steps long after these lines, and came to its end."""
        return self.completed and bool(refs) and all(self.counted_on(ref.input_id, ref.line, last_s) for ref in refs)

    def counted_on(self, input_id: int, line: int, time_s: float | None) -> bool:
        """Whether the program counted steps, or was through, in this input long after a line: by clock, else lines."""
        last, last_s = self.steps.get(input_id, (0, None))
        if time_s is not None and last_s is not None:
            return last_s >= time_s + _LONG_S
        return max(last, self.through.get(input_id, 0)) >= line + _LONG_LINES

    def behind(self, refs: Sequence[Ref]) -> bool:
        """Whether any of these lines stands behind the word of its own input that the program is through."""
        return any(ref.line > self.through.get(ref.input_id, ref.line) for ref in refs)

    def outlived(self, last_s: float | None) -> bool:
        """Whether the program counted steps long after that time."""
        counted = [time_s for _, time_s in self.steps.values() if time_s is not None]
        return last_s is not None and bool(counted) and max(counted) > last_s + _LONG_S

    def not_stopped(self, rows: pl.DataFrame, leaving: pl.Expr = _NONE, said: pl.Expr = _TEXT) -> pl.DataFrame:
        """The rows (``input_id``, ``line``, ``text``) without those that did not stop a job that came to its end.

        Those that it got over, those of ``leaving``, by which processes leave, and what the kernel says in other files
        (``said``: a line with what stands in front of it).
        """
        if not self.completed or rows.is_empty():
            return rows
        line = pl.col("input_id").cast(pl.Int64).replace_strict(dict(self.through), default=None, return_dtype=pl.Int64)
        own = pl.col("input_id").is_in(list(self.inputs))
        over = own & (pl.col("line").cast(pl.Int64) <= line).fill_null(False)
        machine = ~own & said.str.contains(KERNEL)
        return rows.filter(~(over | (own & leaving) | machine).fill_null(False))

    def beside(self, input_id: int, text: str) -> bool:
        """Whether a line is the kernel's, in a file beside the log of a job that came to its end."""
        return self.completed and input_id not in self.inputs and re.search(KERNEL, text) is not None

    def outside(self, first_s: float | None, last_s: float | None) -> bool:
        """Whether something began and ended before the job's first line, or began after its last one."""
        last = last_s if last_s is not None else first_s
        if last is not None and self.begun_s is not None and last < self.begun_s:
            return True
        return first_s is not None and self.ended_s is not None and first_s > self.ended_s


@fact
def left_in_order(run: Run) -> bool:
    """Whether the log holds every rank of every communicator, and each destroyed its communicators (no abort).

    Then no process was lost: what is said of closed connections beside that is how the others left.
    """
    ends = run.table("milestones")
    if ends.is_empty() or not (ends["end"].cast(pl.String) == "destroyed").fill_null(False).all():
        return False
    ranks = run.table("ranks").drop_nulls(["comm_id", "rank", "nranks"])
    sizes = ranks.group_by("comm_id").agg(pl.col("rank").n_unique().alias("_seen"), pl.col("nranks").max())
    return sizes.height > 0 and bool((sizes["_seen"] >= sizes["nranks"]).all())


def signs_of_life(run: Run) -> dict[int, int]:
    """The last line of each input on which a rank took a step: what was complained of before it did not end the job."""
    marks = run.table("milestones")
    if marks.is_empty():
        return {}
    steps = pl.max_horizontal(pl.col(s).cast(pl.Int64) for s in STEPS)
    last = marks.group_by("input_id").agg(steps.max().alias("_last")).drop_nulls()
    return {int(input_id): int(line) for input_id, line in last.iter_rows()}


@fact
def course(run: Run) -> Course:
    """The job's course; empty where nothing tells."""
    marks = run.table("milestones")
    first = pl.min_horizontal(pl.col(s).cast(pl.Int64) for s in STEPS).min().fill_null(0)
    own = {int(i): int(line) for i, line in marks.group_by("input_id").agg(first).iter_rows()} if marks.height else {}
    rows = run.table("endings").filter(pl.col("kind").is_in([*COURSE, LAST]))
    # Without a line of NCCL the job's inputs are those that count steps or say that the program is through.
    counted = rows.filter(pl.col("kind").is_in([STEP, DONE]) & pl.lit(marks.is_empty()))["input_id"]
    own |= dict.fromkeys(map(int, counted.drop_nulls()), 0)
    rows = rows.filter(pl.col("input_id").is_in(list(own)))
    timed = with_time(run, rows, "text")
    stamped = timed.filter(pl.col("kind") != LAST) if own else timed
    begun, ended = stamped.filter(pl.col("kind") == BEGUN)["time_s"].min(), timed["time_s"].max()
    return Course(
        begun if isinstance(begun, float) else None,
        ended if isinstance(ended, float) else None,
        _through(run, rows, marks),
        {
            int(i): (int(line), time_s if time_s is not None else since(run, int(i), int(line)))
            for i, line, time_s in timed.filter(pl.col("kind") == STEP).select("input_id", "line", "time_s").iter_rows()
        },
        own,
    )


def _through(run: Run, rows: pl.DataFrame, marks: pl.DataFrame) -> dict[int, int]:
    if left_in_order(run):
        closed = marks.group_by("input_id").agg(pl.col("destroyed").min()).drop_nulls()
        return {int(i): int(line) for i, line in closed.iter_rows()}
    last = {
        kind: dict(rows.filter(pl.col("kind") == kind).group_by("input_id").agg(pl.col("line").max()).iter_rows())
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

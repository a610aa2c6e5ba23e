"""The inputs hold several attempts of one job.

What it finds
-------------
A job that was started again: by a launcher that restarts its workers, by a scheduler that queues it once more, or by
hand into the same log.

Why it matters
--------------
What an earlier attempt says is over: its errors explain why it was started again, not how the job is now.

How it decides
--------------
The launcher says so (torchrun's "will restart worker group", Slurm's REQUEUE, folders `attempt_0`, `attempt_1`), or the
same ranks of the same number of ranks begin again in other processes after all earlier processes stopped, and the
earlier ones failed or did not finish init.

What to do
----------
Read the verdict as one on the last attempt. To judge an earlier one, give its lines alone.

False positives
---------------
Two runs of a script that are appended to one log, of which the first failed: they are listed as attempts.

References
----------
torch/distributed/elastic/agent/server/api.py; Slurm sbatch --requeue.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.parts import parts
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.NONE
CONFIDENCE = Confidence.HIGH
NEEDS = ("ranks",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding per job that was started more than once, with the first line of each attempt as evidence."""
    found = parts(run)
    several = len({p.job for p in found}) > 1
    for job in sorted({p.job for p in found if p.attempt > 1}):
        own = [p for p in found if p.job == job]
        yield Hit(
            title=f"{f'Job {job}' if several else 'The job'} was started {plural(len(own), 'time')}: "
            "the last attempt is judged",
            explanation="What the earlier attempts report is listed with them and is no part of the verdict.",
            observed=plural(len(own), "attempt"),
            unit="attempts",
            next_step="give the lines of one attempt alone to judge it",
            evidence=tuple(p.begins for p in reversed(own) if p.begins is not None)[:5],
        )

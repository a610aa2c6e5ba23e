"""The GPUs of all ranks stand idle for a part of some steps.

What it finds
-------------
Steps that take longer than the others because every GPU waits for its CPU.

Why it matters
--------------
Averages hide it: one step of five that waits for the next batch costs as much as a slow rank.

How it decides
--------------
The traces of the job are replayed with the idle time of these steps as in the other steps: it gains 1% or more of the
recorded time, and at most half of the steps are such.

What to do
----------
Look at what the launching threads do there: data loading, checkpoints, evaluation, logging, recompilation, garbage
collection.

False positives
---------------
Steps that evaluate or save on purpose.

References
----------
Lin et al., Understanding Stragglers in Large Model Training Using What-if Analysis, OSDI 2025.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.replay import IDLE
from nccl_insight.model import Action, Hit, Severity
from nccl_insight.rules._gains import mended, replayed, slow_steps_hit
from nccl_insight.rules._late_reason import Why
from nccl_insight.tables.run import Run

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
NEEDS = ("gpu_work",)
SOURCES = ("Understanding Stragglers in Large Model Training Using What-if Analysis, OSDI 2025",)


def check(run: Run) -> Iterator[Hit]:
    """One finding for the steps."""
    if not replayed(run):
        return
    for one in mended(run, {"step"}):
        if one.gain.scenario.cause == IDLE:
            yield slow_steps_hit(run, one, "The GPUs of all ranks stand idle longer", Why(), _LOOK)


_LOOK = "look at these steps in a trace: data loading (DataLoader workers, prefetch), checkpoints, evaluation, logging"

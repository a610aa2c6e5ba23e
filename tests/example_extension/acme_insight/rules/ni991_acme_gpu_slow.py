"""A GPU was slower than the others in Acme's burn-in.

What it finds
-------------
A GPU whose burn-in figure is below 80 % of the best one on its host.

Why it matters
--------------
The slowest GPU sets the pace of a job.

How it decides
--------------
Figures of the same burn-in file are compared with one another.

What to do
----------
Run the burn-in again on this GPU alone.

False positives
---------------
A GPU that was in use during the burn-in.

References
----------
Acme's runbook, page 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Ref, Severity
from nccl_insight.tables.run import Run

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
NEEDS = ("acme_burnin",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for each slow GPU."""
    rows = run.table("acme_burnin").to_dicts()
    best = max(row["tflops"] for row in rows)
    for row in rows:
        if row["tflops"] < 0.8 * best:
            yield Hit(
                title=f"GPU {row['gpu']} reached {row['tflops']:.0f} TFLOP/s in the burn-in, the best one {best:.0f}",
                explanation="GPUs of one kind differ by a few percent at most.",
                observed=f"{row['tflops']:.0f} TFLOP/s",
                expected=f"about {best:.0f} TFLOP/s",
                next_step=f"acme-burnin --gpu {row['gpu']}",
                evidence=(Ref(row["input_id"], row["line"]),),
            )

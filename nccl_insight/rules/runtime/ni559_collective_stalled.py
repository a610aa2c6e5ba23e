"""All ranks came to a collective, and none of them finished it.

What it finds
-------------
Time-outs of torch's watchdog in which every rank of the job waits in the same operation.

Why it matters
--------------
Nobody is missing: the transfer itself hangs. The fault is in the network, a GPU, a link, or in ranks that mean
different operations by the same number.

How it decides
--------------
Only where the log shows all ranks of the job and each of them timed out in the same operation of the default group.

What to do
----------
ncclras, and the flight recorder's dumps (torchfrtrace), show operation and sizes of each rank; then the counters of
NICs and links.

False positives
---------------
A time limit shorter than the operation needs (first step, checkpoint).

References
----------
PyTorch flight recorder; NCCL RAS.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.settings import rank_words
from nccl_insight.facts.watchdog import verdicts
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._faults import ANY
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("errors",)
CAUSED_BY = (*ANY, "peer-died", "nvls-multicast-failed", "ib-queue-error", "link-flap")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding a process group."""
    for item in verdicts(run)[1]:
        yield Hit(
            title=f"All {len(item.ranks)} ranks waited in collective {item.seq:,} "
            f"({item.op or 'operation unknown'}) and "
            "none finished it",
            next_step="ncclras; torchfrtrace /tmp/nccl_trace_rank_   # do all ranks mean the same operation and "
            "size? then mlxlink -d "
            "<device> -m -c and nvidia-smi nvlink -e on each host",
            explanation="No rank is missing, so the program reached the operation everywhere. Data does not "
            "move, or the "
            "ranks mean different operations.",
            observed=f"{rank_words(item.ranks)} in collective {item.seq:,}",
            expected="the collective finishes",
            evidence=item.evidence,
            first_s=item.first_s,
            last_s=item.first_s,
        )

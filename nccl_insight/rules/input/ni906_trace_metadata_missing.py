"""A trace lacks what some figures need: rank, message sizes, groups.

What it finds
-------------
Traces of old torch versions, of CUDA graphs or cut windows, without ``distributedInfo``; Nsight Systems exports
without NVTX payloads; traces whose collectives cannot be matched over ranks.

Why it matters
--------------
Without size and group there is no bandwidth, without a rank no comparison. The figures are left empty, not guessed.

How it decides
--------------
The readers count what is missing and say how to record it.

What to do
----------
torch 2.3 or newer, ``profile(activities=[CPU, CUDA], record_shapes=True)`` after ``init_process_group``; for Nsight
Systems ``--trace=cuda,nvtx`` and an export with ``--include-blobs=true``.

False positives
---------------
None: it is a statement about the input.

References
----------
Kineto communication metadata (torch 2.3); nsys export options.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._trace_notes import noted
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.NONE
NEEDS = ("inputs",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs."""
    texts, evidence = noted(run, "trace-metadata-missing")
    if texts:
        more = f" (and {plural(len(texts) - 1, 'more note')})" if len(texts) > 1 else ""
        yield Hit(
            title=f"Metadata is missing in the traces: {texts[0]}{more}",
            explanation="; ".join(texts[1:6]),
            observed=plural(len(texts), "gap"),
            next_step="record with torch 2.3+ (activities CPU and CUDA, record_shapes=True) or export with "
            "nsys --include-blobs=true",
            evidence=evidence,
            absence=None if evidence else texts[0],
        )

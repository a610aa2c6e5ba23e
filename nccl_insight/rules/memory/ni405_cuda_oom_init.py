"""A GPU ran out of memory while NCCL allocated its buffers.

What it finds
-------------
CUDA "out of memory" in NCCL's allocations.

Why it matters
--------------
NCCL needs some hundred MiB per communicator; when the framework already took everything, init of a rank
fails and all others wait or lose their peer.

How it decides
--------------
The CUDA message decides. A failed NCCL allocation whose CUDA reason is not in the log counts with medium
confidence.

What to do
----------
Look at what else holds the GPU (`nvidia-smi`), leave room for NCCL (lower the framework's memory
fraction), and lower NCCL_BUFFSIZE or the number of channels and communicators if needed.

False positives
---------------
None known.

References
----------
NCCL user guide, NCCL_BUFFSIZE; CUDA runtime API, cudaErrorMemoryAllocation (2).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.errors import ALLOC_FAILED, present
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)
_OTHER_REASONS = {
    "cuda-unhandled", "cuda-init-error", "cuda-driver-shutdown", "cuda-driver-too-old", "fabric-manager-issue",
    "mnnvl-imex-missing", "nvls-multicast-failed", "cumem-import-failed",
}  # fmt: skip


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """CUDA's message, else an allocation of NCCL that failed without a stated reason."""
    found = trouble(run, "cuda-oom-init")
    confidence = None
    if found is None:
        if present(run) & _OTHER_REASONS:
            return
        found = trouble(run, ALLOC_FAILED)
        confidence = Confidence.MEDIUM
    if found is None:
        return
    yield from report(
        run,
        "cuda-oom-init",
        "A GPU ran out of memory while NCCL allocated buffers",
        "nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory --format=csv   # on the hosts named, while the "
        "job starts",
        explanation="NCCL allocates outside of the framework's memory pool. Either the framework or another "
        "process already "
        "holds the GPU's memory, or there are very many communicators and channels.",
        confidence=confidence,
        rows=found,
        quiet=None,
    )

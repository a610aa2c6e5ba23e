"""GPU memory of a peer process could not be mapped.

What it finds
-------------
Imports of shareable memory handles and CUDA IPC handles that fail (CUDA 101, 400, invalid argument) in
the P2P transport.

Why it matters
--------------
The two processes cannot use peer-to-peer memory; init or the first collective fails.

How it decides
--------------
The message, or a CUDA failure from the P2P transport. Where the log has only the result traces of the P2P
transport with result 1 (CUDA error) and no CUDA message, it is concluded with low confidence.

What to do
----------
Give each container all GPUs of the node (select with CUDA_VISIBLE_DEVICES instead), share the IPC
namespace, or set NCCL_CUMEM_ENABLE=0 or NCCL_P2P_DISABLE=1 to do without.

False positives
---------------
CUDA errors of other kinds that surface in the P2P transport.

References
----------
NVIDIA/nccl issue 1647; NCCL user guide, NCCL_CUMEM_ENABLE.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.errors import CONSEQUENCE, present
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import Trouble, report, trouble
from nccl_insight.rules._faults import DEVICE, MEMORY, others
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
CAUSED_BY = (*others(DEVICE, "cumem-import-failed"), *MEMORY)
_NAMED = {
    "cuda-oom-init", "cuda-unhandled", "cuda-init-error", "cuda-driver-shutdown", "cuda-driver-too-old",
    "fabric-manager-issue", "mnnvl-imex-missing", "nvls-multicast-failed", "alloc-failed",
}  # fmt: skip


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """Stated, else from the result traces of the P2P transport."""
    found = trouble(run, "cumem-import-failed")
    traced = None if found is not None or present(run) & _NAMED else _traced(run)
    yield from report(
        run,
        "cumem-import-failed",
        "GPU memory of a peer process could not be mapped",
        "nvidia-smi -L; readlink /proc/self/ns/ipc   # in each container of the node: all must see the same GPUs; "
        "or NCCL_CUMEM_ENABLE=0",
        explanation="A process can import a peer's memory only when it sees the peer's GPU. Containers with one "
        "GPU each, separate IPC "
        "namespaces and mixed settings of NCCL_CUMEM_ENABLE break that."
        + (
            ""
            if traced is None
            else " The CUDA message itself is not in this log; the trace through the P2P transport is."
        ),
        confidence=None if traced is None else Confidence.LOW,
        rows=found or traced,
        quiet=None,
    )


def _traced(run: Run) -> Trouble | None:
    traces = trouble(run, CONSEQUENCE)
    return traces.telling("trail", "p2p-cuda") if traces else None

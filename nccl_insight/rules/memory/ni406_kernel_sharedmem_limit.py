"""NCCL's kernels need more shared memory than the GPU has.

What it finds
-------------
The message that ncclMaxSharedMem exceeds the limit of the device or function. It is printed at level
INFO.

Why it matters
--------------
The kernels cannot be launched with that carve-out; init fails on new GPU models with an NCCL built before
them.

How it decides
--------------
The message decides.

What to do
----------
Use an NCCL release that knows the GPU (for RTX 50 cards 2.26.2 or later), built for its architecture.

False positives
---------------
None known.

References
----------
NVIDIA/nccl issue 1637; NVIDIA/nccl src/enqueue.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "kernel-sharedmem-limit",
        "NCCL's kernels need more shared memory than the GPU offers",
        'python -c "import torch; print(torch.cuda.nccl.version(), '
        'torch.cuda.get_device_capability())"   # then install a newer NCCL',
        explanation="This NCCL build was not made for this GPU: its largest kernel asks for more shared "
        "memory per block than the device allows. The line is INFO but init fails after it.",
        expected="an NCCL release that supports the GPU's architecture",
        quiet=None,
    )

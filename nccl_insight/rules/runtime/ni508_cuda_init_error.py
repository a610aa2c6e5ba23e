"""CUDA could not be initialised in an NCCL process.

What it finds
-------------
"initialization error" (CUDA 3) from calls that NCCL makes.

Why it matters
--------------
CUDA does not work in this process; nothing on the GPU can.

How it decides
--------------
The message decides.

What to do
----------
Check that libcuda in the container fits the host's driver, that the process was not forked after CUDA was
used (use spawn), and that the GPU answers at all.

False positives
---------------
None known.

References
----------
CUDA runtime API, cudaErrorInitializationError; PyTorch multiprocessing notes (fork).
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
CAUSED_BY = ("fabric-manager-issue", "cuda-driver-too-old")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "cuda-init-error",
        "CUDA failed to initialise inside NCCL",
        'nvidia-smi; python -c "import torch; torch.zeros(1).cuda()"; ldconfig -p | grep '
        "libcuda.so   # inside the container, on each host named",
        explanation="Candidates in this order: libcuda in the image does not fit the host's driver; the "
        "process was forked after CUDA had been used; the GPU or its device files are not usable "
        "in this container.",
        expected="cuInit succeeds",
        quiet=Severity.WARNING,
    )

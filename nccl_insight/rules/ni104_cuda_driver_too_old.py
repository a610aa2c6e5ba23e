"""The NVIDIA driver is older than the CUDA runtime that NCCL was built for.

What it finds
-------------
CUDA refusing calls because the driver is insufficient or the call unknown to it (CUDA errors 35 and 36),
seen inside NCCL.

Why it matters
--------------
No collective can start. Newer images on older hosts are the usual way into this.

How it decides
--------------
The error text alone decides. Where `cudaDriverVersion` was printed, it is compared with the CUDA version
of the NCCL build.

What to do
----------
Compare `nvidia-smi` on the host with the CUDA version of the image; upgrade the driver, use an older
image, or install the matching cuda-compat package in the image.

False positives
---------------
None known: CUDA states it itself. A wrong libcuda.so found first in LD_LIBRARY_PATH (stubs, an old compat
package) gives the same text.

References
----------
CUDA runtime API, cudaErrorInsufficientDriver (35) and cudaErrorCallRequiresNewerDriver (36); CUDA
compatibility guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "cuda-driver-too-old",
        "The NVIDIA driver is too old for this NCCL's CUDA",
        "nvidia-smi --query-gpu=driver_version --format=csv,noheader; ldconfig -p | grep "
        "libcuda.so   # inside the container, on each host named",
        explanation="CUDA says that the installed driver cannot serve the CUDA runtime in use. Either the "
        "host's driver is old, or an older libcuda.so (a compat package, a stub) is found first.",
        expected="a driver that supports the CUDA version NCCL was built with",
        quiet=None,
    )

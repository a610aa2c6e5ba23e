"""The CUDA libraries of the process do not fit the kernel driver.

What it finds
-------------
CUDA 803 (user-mode and kernel driver differ) and 804 (forward compatibility on a GPU without it).

Why it matters
--------------
No CUDA program can run on that host, or in that container, until the libraries fit.

How it decides
--------------
The CUDA code decides.

What to do
----------
803: the container brings a libcuda of its own, or the driver was upgraded without a reboot. 804: a cuda-compat
package on a GPU that has no forward compatibility (GeForce, RTX): take it out of the library path.

False positives
---------------
None known.

References
----------
CUDA runtime API, cudaErrorSystemDriverMismatch (803), cudaErrorCompatNotSupportedOnDevice (804).
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors", "tracebacks")
SPEAKS = True
CAUSED_BY: tuple[str, ...] = ()


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "cuda-driver-mismatch",
        "The CUDA libraries do not fit the kernel driver",
        'cat /proc/driver/nvidia/version; nvidia-smi; ldconfig -p | grep -E "libcuda.so|compat"   # on the host, '
        "and inside the container",
        explanation="User-mode and kernel driver are of different versions (803), or a cuda-compat package is "
        "used on a GPU without forward compatibility (804). A configuration fault: nothing is broken.",
        quiet=Severity.WARNING,
    )

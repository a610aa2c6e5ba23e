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
The error text decides. Without one, a `cudaDriverVersion` below the CUDA version of the NCCL build is a hint,
and only where no init completed: a warning across major versions, information within one (minor version
compatibility lets most programs run).

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

import polars as pl

from nccl_insight.facts.settings import hosts_of, refs
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors", "processes", "tracebacks")
SPEAKS = True
_NEXT = (
    "nvidia-smi --query-gpu=driver_version --format=csv,noheader; ldconfig -p | grep libcuda.so   "
    "# inside the container, on each host named"
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """CUDA's own statement, else the two versions."""
    if trouble(run, "cuda-driver-too-old") is None:
        yield from _compared(run)
        return
    yield from report(
        run,
        "cuda-driver-too-old",
        "The NVIDIA driver is too old for this NCCL's CUDA",
        _NEXT,
        explanation="CUDA says that the installed driver cannot serve the CUDA runtime in use. Either the host's "
        "driver "
        "is old, or an older libcuda.so (a compat package, a stub) is found first.",
        quiet=None,
    )


def _compared(run: Run) -> Iterator[Hit]:
    """``cudaDriverVersion`` (1000 x major + 10 x minor) against ``+cudaX.Y``, where no init completed."""
    works = run.table("ranks")["init_complete"].fill_null(False).any()
    if works or any(run.has(table) for table in ("connections", "rings", "calls", "benchmarks")):
        return
    built = run.table("processes")["cuda_version"].str.extract_groups(r"^([0-9]+)\.([0-9]+)").drop_nulls()
    numbers = [(int(g["1"]), int(g["2"])) for g in built.to_list() if g["1"] and g["2"]]
    drivers = run.table("processes").filter(pl.col("driver_version") > 0)
    if not numbers or drivers.is_empty():
        return
    major, minor = min(numbers)
    old = drivers.filter(pl.col("driver_version") < major * 1000 + minor * 10)
    if old.is_empty():
        return
    driver = int(old["driver_version"][0])
    have = f"{driver // 1000}.{driver % 1000 // 10}"
    across = driver // 1000 < major
    yield Hit(
        title=f"The driver supports CUDA {have}, NCCL was built for CUDA {major}.{minor}, and no init completed",
        next_step=_NEXT,
        explanation="Across major versions this cannot work without the cuda-compat package."
        if across
        else "Within a major version most calls work; newer ones fail as not supported by the installed driver.",
        observed=f"cudaDriverVersion {driver}",
        expected=f"at least {major * 1000 + minor * 10}",
        severity=Severity.WARNING if across else Severity.INFO,
        confidence=Confidence.MEDIUM if across else Confidence.LOW,
        hosts=hosts_of(old),
        evidence=refs(old),
    )

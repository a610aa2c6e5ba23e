"""The NVIDIA driver is older than the CUDA runtime that NCCL was built for."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence, Hit, Severity
from nccl_insight.facts.settings import hosts_of
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """CUDA's own statement, else the two versions."""
    run = ctx.run
    if ctx.lines() is None:
        yield from _compared(run)
        return
    yield from ctx.report(
        "The NVIDIA driver is too old for this NCCL's CUDA",
        explanation="CUDA says that the installed driver cannot serve the CUDA runtime in use. Either the host's "
        "driver is old, or an older libcuda.so (a compat package, a stub) is found first.",
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
    yield hit(
        old,
        whom=hosts_of(old),
        title=f"The driver supports CUDA {have}, NCCL was built for CUDA {major}.{minor}, and no init completed",
        explanation="Across major versions this cannot work without the cuda-compat package."
        if across
        else "Within a major version most calls work; newer ones fail as not supported by the installed driver.",
        observed=f"cudaDriverVersion {driver}",
        expected=f"at least {major * 1000 + minor * 10}",
        severity=Severity.WARNING if across else Severity.INFO,
        confidence=Confidence.MEDIUM if across else Confidence.LOW,
    )

"""The NVIDIA driver is older than the CUDA runtime that NCCL was built for."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.facts.setup.settings import hosts_of
from nccl_insight.facts.who.members import completed
from nccl_insight.rules.context import Context, Hits, says
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """CUDA's own statement, else the two versions."""
    if ctx.lines() is None:
        yield from _compared(ctx.run)
        return
    yield from ctx.tells("found", quiet=None)


def _compared(run: Run) -> Iterator[Hit]:
    """``cudaDriverVersion`` (1000 x major + 10 x minor) against ``+cudaX.Y``, where no init completed."""
    if completed(run).height or any(run.has(table) for table in ("connections", "rings", "calls", "benchmarks")):
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
    yield says(
        "cuda-driver-too-old.compared",
        old,
        whom=hosts_of(old),
        have=f"{driver // 1000}.{driver % 1000 // 10}",
        major=major,
        minor=minor,
        across=driver // 1000 < major,
        driver=driver,
        least=major * 1000 + minor * 10,
    )

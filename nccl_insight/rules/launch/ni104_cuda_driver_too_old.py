"""The NVIDIA driver is older than the CUDA runtime that NCCL was built for."""

import polars as pl

from nccl_insight.facts.setup.settings import hosts_of
from nccl_insight.facts.who.members import completed
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """CUDA's own statement, else the two versions."""
    if ctx.lines() is None:
        yield from _compared(ctx)
        return
    yield from ctx.tells("found", quiet=None)


def _compared(ctx: Context) -> Hits:
    """``cudaDriverVersion`` (1000 x major + 10 x minor) against ``+cudaX.Y``, where no init completed."""
    run = ctx.run
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
    yield ctx.says(
        "compared",
        old,
        whom=hosts_of(old),
        have=f"{driver // 1000}.{driver % 1000 // 10}",
        major=major,
        minor=minor,
        across=driver // 1000 < major,
        driver=driver,
        least=major * 1000 + minor * 10,
    )

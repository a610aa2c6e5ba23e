"""NCCL cannot find a GPU or NIC in /sys."""

import polars as pl

from nccl_insight.base.model import Severity
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.who.members import completed
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for all paths."""
    found = ctx.lines() or _listed(ctx.run)
    if found is None:
        return
    processes = found.rows.select("host", "pid")
    went_on = completed(ctx.run).join(processes, on=["host", "pid"], how="semi", nulls_equal=True).height > 0
    yield from ctx.tells("found", quiet=Severity.INFO if went_on else None, rows=found, went_on=went_on)


def _listed(run: Run) -> Trouble | None:
    """The same message where it was read as a note about a device."""
    frame = run.table("interfaces")
    rows = frame.filter(pl.col("device_path").str.contains(r"/(?:pci|devices/pci)").fill_null(False))
    if rows.is_empty():
        return None
    template = causes(run).clear()
    text = pl.format("Could not find real path of {}", "device_path")
    shown = rows.select("input_id", "line", "host", "pid", text.alias("text"), pl.lit(True).alias("loud"))
    return Trouble(pl.concat([template, shown], how="diagonal_relaxed"))

"""NVLink SHARP multicast could not be set up."""

import polars as pl

from nccl_insight.base.model import Severity
from nccl_insight.facts.fabric.nvls import failures, one_sided
from nccl_insight.facts.said.errors import causes
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.ends import TIMED_OUT
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for all lines; where NVLS failed on some ranks only and all hang, those ranks."""
    run = ctx.run
    sided = one_sided(run)
    hanging = trouble(run, TIMED_OUT)
    if sided is not None and hanging is not None:
        ranks, hosts = sided
        yield from ctx.tells(
            "found-nvls-failed",
            whom=(*ranks, *hosts),
            rows=Trouble(causes_of(run)),
            quiet=Severity.ERROR,
            hosts=hosts,
            ranks=ranks,
        )
        return
    yield from ctx.tells("found", quiet=Severity.WARNING)


def causes_of(run: Run) -> pl.DataFrame:
    """The lines about NVLS that failed, with what the errors of a run have besides."""
    lines = failures(run).select("input_id", "line").unique(maintain_order=True)
    return causes(run).join(lines, on=["input_id", "line"], how="semi", maintain_order="left")

"""NVLink SHARP multicast could not be set up."""

import polars as pl

from nccl_insight.base.model import Severity
from nccl_insight.base.units import rank_words
from nccl_insight.facts.errors import causes
from nccl_insight.facts.nvls import failures, one_sided
from nccl_insight.facts.settings import named
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for all lines; where NVLS failed on some ranks only and all hang, those ranks."""
    run = ctx.run
    sided = one_sided(run)
    hanging = trouble(run, "watchdog-timeout")
    if sided is not None and hanging is not None:
        ranks, hosts = sided
        words = rank_words(ranks)
        yield from ctx.report(
            f"NVLS failed on {words}{' on ' + named(hosts) if hosts else ''} only, and all ranks hang",
            next_step="NCCL_NVLS_ENABLE=0 <the same job>   # works around it; update to NCCL 2.29; systemctl status "
            "nvidia-fabricmanager; dmesg -T | grep -i xid   # on the host named",
            whom=(*ranks, *hosts),
            explanation="NCCL 2.27 and 2.28 go on without NVLS on the ranks where it fails. Ranks that use NVLS and "
            "ranks that do not wait for each other in the first collective. 2.29 fails on all ranks instead.",
            severity=Severity.ERROR,
            rows=Trouble(causes_of(run)),
            quiet=Severity.ERROR,
        )
        return
    yield from ctx.report(
        "NVLink SHARP (NVLS) multicast could not be set up",
        next_step="systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A2 -i fabric   # on the hosts named; "
        "meanwhile NCCL_NVLS_ENABLE=0",
        explanation="Candidates in this order: the Fabric Manager was restarted while GPUs were in use (reset the GPUs "
        "or reboot), it is not running or of another version than the driver, an NVSwitch or NVLink is down.",
        quiet=Severity.WARNING,
    )


def causes_of(run: Run) -> pl.DataFrame:
    """The lines about NVLS that failed, with what the errors of a run have besides."""
    lines = failures(run).select("input_id", "line").unique(maintain_order=True)
    return causes(run).join(lines, on=["input_id", "line"], how="semi", maintain_order="left")

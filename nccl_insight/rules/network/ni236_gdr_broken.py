"""GPUDirect RDMA is probably broken on these hosts."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence, Hit, Severity
from nccl_insight.facts.errors import present
from nccl_insight.facts.mentions import mentions
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Stated by plugin or NCCL, else memory access errors, else flushes without a cause."""
    run = ctx.run
    stated = ctx.lines()
    if stated is not None:
        yield from _hit(
            ctx, "GPUDirect RDMA was announced and cannot be set up", Severity.ERROR, Confidence.HIGH, stated
        )
        return
    net = run.table("connections").filter(pl.col("transport").cast(pl.String) == "NET")
    if net.height and not net["gdr"].any():
        return
    causes = present(run)
    acs = not mentions(run, "acs-on").is_empty()
    if "ib-completion-local-prot" in causes:
        sure = Confidence.HIGH if acs else Confidence.MEDIUM
        title = "Possible cause: GPUDirect RDMA is broken (memory access errors)"
        yield from _hit(ctx, title, Severity.WARNING, sure, trouble(run, "ib-completion-local-prot"))
    elif "ib-completion-flush" in causes and causes.isdisjoint(ctx.names("unless")):
        title = "Possible cause: GPUDirect RDMA is broken (flushed requests and no other error)"
        yield from _hit(ctx, title, Severity.INFO, Confidence.LOW, trouble(run, "ib-completion-flush"))


def _hit(ctx: Context, title: str, severity: Severity, confidence: Confidence, rows: Trouble | None) -> Iterator[Hit]:
    yield from ctx.report(title, severity=severity, confidence=confidence, rows=rows)

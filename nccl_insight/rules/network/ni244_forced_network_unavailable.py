"""The network that NCCL_NET asks for is not there."""

import polars as pl

from nccl_insight.base.model import Confidence, Severity
from nccl_insight.facts.settings import value_of
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines, with the setting where NCCL printed it."""
    run = ctx.run
    asked = value_of(run, "NCCL_NET")
    plugins = run.table("plugins")
    others = (plugins["kind"].cast(pl.String) == "net") & (plugins["outcome"].cast(pl.String) == "loaded")
    doubtful = asked is None and bool(others.any())
    yield from ctx.report(
        f"The network that was asked for is not available{f' (NCCL_NET={asked})' if asked else ''}",
        explanation="NCCL_NET (or a plugin setting) leaves no choice, and that network did not start: no device of "
        "that kind is visible, its library is missing, or the name is misspelt."
        + (" Other processes of this log did start a network." if doubtful else ""),
        severity=Severity.WARNING if doubtful else None,
        confidence=Confidence.MEDIUM if doubtful else None,
    )

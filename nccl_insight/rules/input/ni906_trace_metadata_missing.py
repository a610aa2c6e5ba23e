"""A trace lacks what some figures need: rank, message sizes, groups."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.base.units import plural
from nccl_insight.rules._trace_notes import noted
from nccl_insight.rules.context import Context


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs."""
    run = ctx.run
    texts, evidence = noted(run, ctx.name)
    if texts:
        more = f" (and {plural(len(texts) - 1, 'more note')})" if len(texts) > 1 else ""
        yield ctx.hit(
            evidence,
            title=f"Metadata is missing in the traces: {texts[0]}{more}",
            explanation="; ".join(texts[1:6]),
            observed=plural(len(texts), "gap"),
            absence=None if evidence else texts[0],
        )

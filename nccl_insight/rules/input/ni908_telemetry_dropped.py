"""A recorder dropped events."""

from collections.abc import Iterator

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.base.units import plural
from nccl_insight.rules._trace_notes import noted
from nccl_insight.rules.context import Context


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs."""
    run = ctx.run
    texts, refs = noted(run, ctx.name)
    if not texts:
        return
    more = f" and {plural(len(texts) - 1, 'more recorder')}" if len(texts) > 1 else ""
    yield ctx.hit(
        refs[:5],
        title=f"A recorder dropped events: {texts[0]}{more}",
        explanation="Operations that are not in these records may have run; nothing is concluded from their absence.",
        observed=f"{plural(len(texts), 'recorder')} with dropped events",
        absence=None if refs else texts[0],
    )

"""A trace ends in the middle or is damaged; what could be read was used."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import CannotJudge, Hit
from nccl_insight.rules._trace_notes import noted
from nccl_insight.rules.context import Context
from nccl_insight.units import plural

_NAMED = 8


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs."""
    run = ctx.run
    texts, evidence = noted(run, "trace-truncated")
    if texts:
        names = [text.split(": ", 1)[0] for text in texts[1:]]
        beyond = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        more = f" (also {', '.join(names[:_NAMED])}{beyond})" if names else ""
        yield Hit(
            title=f"An input ends early or is damaged: {texts[0]}{more}",
            explanation="; ".join(texts[1:6]) or "What could be read before the damage was used.",
            observed=plural(len(texts), "damaged input", "damaged inputs"),
            evidence=evidence,
            absence=None if evidence else texts[0],
        )

"""A trace ends in the middle or is damaged; what could be read was used."""

from nccl_insight.base.units import plural
from nccl_insight.rules._notes import noted
from nccl_insight.rules.context import Context, Hits

_NAMED = 8


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    run = ctx.run
    texts, evidence = noted(run, ctx.name)
    if texts:
        more = f" and {plural(len(texts) - 1, 'other input')}" if len(texts) > 1 else ""
        yield ctx.says(
            "found",
            evidence,
            observed=plural(len(texts), "damaged input", "damaged inputs"),
            absence=None if evidence else texts[0],
            name=texts[0].split(": ", 1)[0].rsplit("/", 1)[-1],
            more=more,
            first_texts="; ".join(texts[:_NAMED]),
        )

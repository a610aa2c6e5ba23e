"""A trace ends in the middle or is damaged; what could be read was used."""

from nccl_insight.rules._notes import noted
from nccl_insight.rules.context import Context, Hits

_NAMED = 8


def check(ctx: Context) -> Hits:
    """One finding for all inputs."""
    texts, evidence = noted(ctx.run, ctx.name)
    if texts:
        yield ctx.says(
            "found",
            evidence,
            absence=None if evidence else texts[0],
            name=texts[0].split(": ", 1)[0].rsplit("/", 1)[-1],
            first_texts="; ".join(texts[:_NAMED]),
            texts=texts,
        )

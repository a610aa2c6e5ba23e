"""The network that NCCL_NET asks for is not there."""

import polars as pl

from nccl_insight.facts.setup.settings import value_of
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines, with the setting where NCCL printed it."""
    asked = value_of(ctx.run, "NCCL_NET")
    plugins = ctx.run.table("plugins")
    others = (plugins["kind"].cast(pl.String) == "net") & (plugins["outcome"].cast(pl.String) == "loaded")
    doubtful = asked is None and bool(others.any())
    yield from ctx.tells("found", asked=asked, doubtful=doubtful)

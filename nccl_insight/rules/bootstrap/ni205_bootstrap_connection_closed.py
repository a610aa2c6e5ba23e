"""A stray connection broke NCCL's bootstrap."""

import polars as pl

from nccl_insight.facts.said.errors import causes
from nccl_insight.rules._closed import accepting
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Wrong magic numbers and connections closed while being accepted."""
    stated = ctx.lines()
    closed = causes(ctx.run).join(accepting(ctx.run), on=["input_id", "line"], how="semi")
    parts = [frame for frame in (stated.rows if stated else None, closed) if frame is not None and frame.height]
    if not parts:
        return
    yield from ctx.tells("found", rows=Trouble(pl.concat(parts).sort("input_id", "line")))

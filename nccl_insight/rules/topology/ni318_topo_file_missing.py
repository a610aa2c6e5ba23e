"""A topology or graph file that was asked for cannot be read."""

import polars as pl

from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.said.topics import told
from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines, from the errors or from the notes about topology files."""
    asked = causes(ctx.run).filter(pl.col("cause") == ctx.name)
    asked = asked.filter(told(asked, "default-topology").is_null())
    if asked.height:
        yield from ctx.tells("asked", quiet=None, rows=Trouble(asked))
        return
    rows = ctx.run.table("topo").filter(pl.col("event") == "file_unopened")
    rows = rows.filter(told(rows, "default-topology").is_null())
    if rows.is_empty():
        return
    yield ctx.says("found", refs(rows), whom=hosts_of(rows), observed=str(rows["reason"][0] or "not opened"), rows=rows)

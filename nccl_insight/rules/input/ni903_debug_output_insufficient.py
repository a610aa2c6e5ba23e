"""The log cannot answer the usual questions."""

import polars as pl

from nccl_insight.base.words import words
from nccl_insight.facts.said.errors import VAGUE, present
from nccl_insight.facts.setup.settings import refs
from nccl_insight.rules.context import Context, Hits

_SUBSTANCE = words("""ranks communicators connections rings trees net_devices interfaces networks env graphs
    channel_counts calls connected plugins collectives benchmarks topology_links topology_nodes gdr""")


def check(ctx: Context) -> Hits:
    """One finding when a log holds nothing but versions and warnings."""
    run = ctx.run
    inputs = run.table("inputs").filter(pl.col("nccl_lines") > 0)
    if inputs.is_empty() or any(run.has(table) for table in _SUBSTANCE):
        return
    informed = (run.table("errors")["level"] == "INFO").any()
    if informed or present(run) - VAGUE - {*ctx.names("beside")}:
        return
    warned = run.has("errors")
    first = run.table("errors") if warned else run.table("processes")
    yield ctx.says("found", refs(first, 1), lines=int(inputs["nccl_lines"].sum()), warned=warned)

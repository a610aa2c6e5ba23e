"""Rings cross node boundaries more often than once per node."""

import polars as pl

from nccl_insight.facts.fabric.traffic import ring_crossings
from nccl_insight.facts.setup.settings import refs, setting
from nccl_insight.facts.who.members import comms
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for each communicator; says when rings were too short to judge."""
    run = ctx.run
    wide = {c.comm_id: c for c in comms(run) if len(c.hosts) > 1 and c.nodes != 1}
    wide = {i: c for i, c in wide.items() if c.nodes is None or c.nodes <= len(c.hosts)}
    if not wide:
        return
    rings = ring_crossings(run).filter(pl.col("comm_id").is_in([i for i in wide if i]))
    if rings.is_empty():
        yield ctx.cannot("untold")
        return
    bad = rings.filter(pl.col("crossings") > pl.col("hosts"))
    graph_file = setting(run, "NCCL_GRAPH_FILE")
    for (comm_id,), rows in bad.group_by("comm_id", maintain_order=True):
        yield ctx.says(
            "found",
            (*refs(rows, 2), *refs(graph_file, 1)),
            whom=wide[str(comm_id)].hosts,
            comm_id=str(comm_id),
            rows=rows,
            total=rings.filter(pl.col("comm_id") == comm_id).height,
            worst=rows.sort("crossings", descending=True, maintain_order=True).row(0, named=True),
            graph_file=graph_file,
        )

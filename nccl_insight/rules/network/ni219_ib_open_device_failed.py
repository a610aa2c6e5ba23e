"""An RDMA device is listed but cannot be opened."""

import polars as pl

from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all devices."""
    rows = mentions(ctx.run, "device-unopened")
    said = ctx.lines()
    if said is not None:
        shown = said.rows.select(pl.lit("errors").alias("table"), *(c for c in rows.columns if c != "table"))
        rows = pl.concat([rows, shown], how="vertical_relaxed").unique(
            ["input_id", "line"], keep="first", maintain_order=True
        )
    if rows.is_empty():
        return
    devices = [] if said is None else said.rows["hca_name"].drop_nulls().unique(maintain_order=True).to_list()
    hosts = hosts_of(rows)
    what = ", ".join(devices[:4]) if devices else "An RDMA device"
    yield ctx.says("found", refs(rows, 3), whom=(*ranks_of(rows), *hosts), what=what, n_devices=max(1, len(devices)))

"""Copies between host and GPU use pageable memory and hold up the step."""

import polars as pl

from nccl_insight.base.units import format_bytes, format_ns
from nccl_insight.facts.figures.overlap import step_summary
from nccl_insight.rules._traces import ranks_of, trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all ranks."""
    run = ctx.run
    exposed = pl.col("exposed_pageable_ns")
    bad = step_summary(run).filter((exposed >= ctx["share"] * pl.col("duration_ns")) & (exposed >= ctx["least_ns"]))
    if bad.is_empty():
        return
    bad = bad.with_columns(part=exposed / pl.col("duration_ns")).sort("part", descending=True)
    kinds = (
        run.table("memcpy")
        .filter(pl.col("pageable") & pl.col("input_id").is_in(bad["input_id"].implode()))
        .sort("duration_ns", descending=True)
    )
    ranks = ranks_of(bad)
    yield ctx.says(
        "found",
        trace_refs(
            (i, f"{n}: {c:,} copies, {format_bytes(b or 0)}, {format_ns(d)}")
            for i, n, c, b, d in kinds.select("input_id", "name", "count", "size_bytes", "duration_ns").iter_rows()
        ),
        whom=with_hosts(run, ranks),
        worst=bad.row(0, named=True),
    )

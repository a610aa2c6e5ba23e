"""Communication that compute does not hide takes a large part of the step."""

from typing import Any

import polars as pl

from nccl_insight.facts.figures.exposed import asked_by, exposed_by
from nccl_insight.facts.figures.overlap import step_summary, wait_share
from nccl_insight.rules._gains import late_first, mend_first
from nccl_insight.rules._traces import ranks_of, refs_of, trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for all ranks."""
    run = ctx.run
    warn = ctx["warning_share"]
    every = step_summary(run)
    bad = every.filter(pl.col("exposed_share") >= ctx["info_share"]).sort("exposed_share", descending=True)
    if bad.is_empty():
        yield from _bubble(ctx, every, warn)
        return
    worst = bad.row(0, named=True)
    severe = bad.filter(pl.col("exposed_share") - pl.col("inline_share") >= warn).height > 0
    first = mend_first(run, worst["exposed_share"] - warn)
    waiting = wait_share(run)
    most, code = _whose(run, worst["input_id"], worst["rank"], worst["device"])
    inline = worst["inline_share"] if not severe and worst["exposed_share"] >= warn else 0.0
    yield ctx.says(
        "found",
        (
            *refs_of(bad, "exposed {exposed_comm_ns:ns} of {duration_ns:ns} ({exposed_share:.0%})"),
            *trace_refs([(worst["input_id"], f"asked for by {code['code']}")] if code["code"] else []),
        ),
        whom=with_hosts(run, ranks_of(bad)),
        worst=worst,
        ranked=worst["rank"] is not None,
        overlap=worst["overlap_share"] or 0,
        first=first,
        late=late_first(run),
        inline=inline,
        waits=waiting is not None,
        waiting=waiting,
        most=most,
        code=code,
        severe=severe and not first,
    )


def _whose(run: Run, input_id: int, rank: int | None, device: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of which process group and operation most of it is, and the code that asked for that; of None where unknown."""
    of = (pl.col("input_id") == input_id) & pl.col("rank").eq_missing(rank) & pl.col("device").eq_missing(device)
    rows = exposed_by(run).filter(of).head(1).drop_nulls("op")
    codes = asked_by(run, input_id).join(rows.select("op"), on="op", maintain_order="left")
    most, code = (next(r.iter_rows(named=True), dict.fromkeys(r.columns)) for r in (rows, codes))
    return most, code


def _bubble(ctx: Context, every: pl.DataFrame, warn: float) -> Hits:
    """Stages of a pipeline that wait for each other much, where nothing else is exposed."""
    share = pl.col("stage_wait_ns") / pl.col("duration_ns")
    bad = every.with_columns(share=share).filter(pl.col("share") >= warn).sort("share", descending=True)
    if bad.is_empty():
        return
    worst = bad.row(0, named=True)
    yield ctx.says(
        "bubble",
        refs_of(bad, "{stage_wait_ns:ns} of {duration_ns:ns} ({share:.0%})"),
        whom=with_hosts(ctx.run, ranks_of(bad)),
        worst=worst,
        ranked=worst["rank"] is not None,
    )

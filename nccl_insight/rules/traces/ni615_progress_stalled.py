"""Steps came in a rhythm, and then none."""

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import format_span_s
from nccl_insight.facts.lateness.printed import stalled
from nccl_insight.facts.said.clock import clock_text
from nccl_insight.facts.said.ends import ends
from nccl_insight.facts.said.last_words import unwell
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """At most one finding; a note where a failure is known, whose time it tells."""
    run = ctx.run
    if run.asked.symptom == "hang":
        yield from _sweep(ctx)
    found = stalled(run, run.asked.symptom == "hang")
    if found is None:
        return
    one, at = found.series, found.series.rows["time_s"][-1]
    when = f" at {clock_text(at)}" if at is not None else ""
    span = format_span_s(found.quiet_s) if found.quiet_s is not None else ""
    known = unwell(run).height > 0 or bool(ends(run))
    yield ctx.says(
        "found",
        (one.ref(-1),),
        whom=(one.rank,),
        first_s=at,
        last=one.at(-1),
        when=when,
        found=found,
        article="an" if found.pause[:1] in "aeiou" else "a",
        span=span,
        known=known,
    )


def _sweep(ctx: Context) -> Hits:
    """A sweep of nccl-tests of which the user says that it hangs: the size that it did not get past."""
    cut = ctx.run.table("benchmark_runs").filter(~pl.col("ended").fill_null(False) & (pl.col("rows") > 0))
    rows = ctx.run.table("benchmarks").join(cut.select("input_id", "run"), on=["input_id", "run"], how="semi")
    if rows.is_empty():
        return
    last = rows.row(-1, named=True)
    yield ctx.says(
        "sweep", (Ref(int(last["input_id"]), int(last["line"] or 0)),), last=last, n_sizes=rows["size_bytes"].n_unique()
    )

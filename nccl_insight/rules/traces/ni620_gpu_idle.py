"""The GPUs of all ranks stand idle for a part of some steps."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.facts.lateness.replay import IDLE, what_if
from nccl_insight.rules._gains import mended, replayed, slow_steps_hit
from nccl_insight.rules._late_reason import why_all_idle
from nccl_insight.rules._traces import input_of_rank, trace_refs, traced_ranks, with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the steps. A rank alone waits for nobody: there the idle time itself tells."""
    run = ctx.run
    if not replayed(run) and run.has("collectives"):
        return
    for one in mended(run, {"step"}):
        if one.scenario.cause == IDLE:
            why = why_all_idle(run, traced_ranks(run), one.scenario.steps)
            yield slow_steps_hit(run, one, "All GPUs stand idle longer", why, _LOOK)
            return
    if not run.has("capture_ranks"):  # a few small steps of our own between collectives
        yield from _always(ctx)


def _always(ctx: Context) -> Iterator[Hit]:
    """GPUs of all ranks that wait for their CPUs throughout."""
    run = ctx.run
    rows = run.table("steps").filter(pl.col("rank").is_not_null() & (pl.col("duration_ns") > 0))
    ranks = tuple(rows["rank"].unique().sort())
    by_host = pl.coalesce("idle_host_ns", "idle_ns")
    if float(_shares(rows, by_host)["share"].min() or 0.0) < ctx["told"]:  # type: ignore[arg-type]
        return
    why = why_all_idle(run, ranks)
    # Where each launch takes longer than what it launches, the time until the work starts is the CPU's, too.
    shares = _shares(rows, by_host if why.calls or not why.what else pl.col("idle_ns"))
    least = float(shares["share"].min() or 0.0)  # type: ignore[arg-type]
    # Little is told where the calls are named, and nothing that is to be mended first makes them wait.
    limit = ctx["told"] if why.calls and not what_if(run).gains else ctx["share"]
    if not why.text or least < limit:
        return
    middle = float(shares["share"].median() or 0.0)  # type: ignore[arg-type]
    inputs = input_of_rank(run)
    yield ctx.says(
        "always",
        trace_refs((inputs.get(r), f"rank {r}: {s:.0%} idle") for r, s in shares.iter_rows()),
        whom=with_hosts(run, ranks),
        next_step=why.step or _LOOK,
        alone=len(ranks) == 1,
        middle=middle,
        why=why,
        limit=limit,
        little=least < ctx["named"],
    )


def _shares(rows: pl.DataFrame, idle: pl.Expr) -> pl.DataFrame:
    share = idle.sum() / pl.col("duration_ns").sum()
    return rows.group_by("rank").agg(share=share).drop_nulls().sort("rank")


_LOOK = "look at these steps in a trace: data loading (DataLoader workers, prefetch), checkpoints, evaluation, logging"

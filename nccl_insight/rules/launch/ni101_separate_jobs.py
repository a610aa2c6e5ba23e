"""What should be one job runs as several independent ones."""

import polars as pl

from nccl_insight.facts.setup.settings import hosts_of, refs
from nccl_insight.readers.embedded.endings import AT_THE_END
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """NCCL's message, else worlds of one rank."""
    run = ctx.run
    if ctx.lines() is not None:
        yield from ctx.tells("found-processes-differently")
        return
    yield from _tables(ctx)
    ranks = run.table("ranks").drop_nulls(["nranks", "pid"])
    processes = ranks.group_by("host", "pid", maintain_order=True).agg(
        pl.col("nranks").max(), pl.col("input_id", "line").first()
    )
    if processes.height < 2 or processes["nranks"].max() != 1:
        return
    hosts, each = hosts_of(processes), processes.drop_nulls("host").group_by("host").len()["len"]
    # Several processes on every host, and no benchmark among them: replicas of a server are such jobs on purpose.
    replicas = not run.has("benchmarks") and len(each) > 0 and bool((each > 1).all())
    yield ctx.says("found", refs(processes), whom=hosts, processes=processes, meant=len(hosts) < 2 or replicas)


def _tables(ctx: Context) -> Hits:
    """Heads of nccl-tests that stand beside each other: each is printed by a rank 0."""
    heads = ctx.run.table("benchmark_runs").sort("input_id", "line")
    if heads.height < 2:
        return
    after = pl.col("hosts").shift(-1)
    beside = (pl.col("rows") == 0) & ~pl.col("ended") & (pl.col("input_id") == pl.col("input_id").shift(-1))
    unlisted = pl.col("listed") == 0
    elsewhere = (after.list.len() > 0) & (pl.col("hosts").list.set_intersection(after).list.len() == 0)
    twice = heads.with_row_index("_n").filter(beside & (unlisted | elsewhere))
    if twice.is_empty() or _failed_between(ctx.run, heads):
        return
    starts = heads[sorted({int(n) + k for n in twice["_n"] for k in (0, 1)})]
    listed = sorted({h for found in starts["hosts"].to_list() for h in found})
    yield ctx.says(
        "tables",
        refs(starts),
        whom=tuple(listed),
        starts=starts,
        listed=listed,
        together=bool((twice["listed"] == 0).all()),
    )


def _failed_between(run: Run, heads: pl.DataFrame) -> bool:
    """Whether something failed between the first head and the last: then they are attempts."""
    lines = heads["line"]
    low, high = lines.min(), lines.max()
    failed = run.table("errors").filter(
        pl.col("line").is_between(low, high) & (pl.col("role").cast(pl.String) != "benign")
    )
    ended = run.table("endings").filter(pl.col("line").is_between(low, high) & ~pl.col("kind").is_in(list(AT_THE_END)))
    return bool(failed.height or ended.height)

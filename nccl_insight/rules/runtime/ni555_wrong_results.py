"""A checker found wrong data."""

import polars as pl

from nccl_insight.base.units import format_bytes, plural
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all rows with wrong values, one for the checks of the program."""
    run = ctx.run
    yield from _checks(ctx)
    yield from ctx.tells("found")
    rows = run.table("benchmarks").filter(pl.col("wrong").fill_null(0) > 0)
    if rows.is_empty():
        yield from _summed(ctx)
        return
    sizes = rows["size_bytes"].drop_nulls().unique().sort().to_list()
    ops = ", ".join(str(o) for o in rows["op"].drop_nulls().unique(maintain_order=True).to_list()) or "the collective"
    span = " to ".join(dict.fromkeys(format_bytes(size) for size in (*sizes[:1], *sizes[-1:])))
    worst = int(rows["wrong"].max() or 0)  # type: ignore[arg-type]
    lines, hosts = refs(rows, 4), hosts_of(run.table("processes"))
    yield ctx.says(
        "found-wrong-results",
        lines,
        whom=hosts if len(hosts) == 1 else (),
        absence=None if lines else "the table of the test has rows with wrong values",
        ops=ops,
        worst=worst,
        tests=", ".join(part for part in (plural(rows.height, "test"), span) if part),
    )


def _summed(ctx: Context) -> Hits:
    """The summary of a test whose rows with wrong values are not in the input."""
    found = ctx.run.table("benchmark_runs").filter(pl.col("out_of_bounds").fill_null(0) > 0)
    if found.is_empty():
        return
    values = int(found["out_of_bounds"].sum())
    yield ctx.says("summed", refs(found, 4), values=values)


def _checks(ctx: Context) -> Hits:
    """What a test program found itself; an assertion counts where it expects the number of ranks, the sum of ones."""
    size = ctx.run.table("ranks")["nranks"].max()
    ones = pl.col("expected") == (size if isinstance(size, int) else -1)
    found = ctx.run.table("value_checks").filter(~pl.col("assertion") | ones)
    if found.is_empty():
        return
    ranks = ranks_of(found)
    first = found.row(0, named=True)
    yield ctx.says("checks", refs(found, 4), whom=ranks, observed=str(first["text"])[:200], first=first, found=found)

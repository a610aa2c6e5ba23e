"""A checker found wrong data."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Hit, Ref
from nccl_insight.base.units import format_bytes, plural
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs
from nccl_insight.rules.context import Context, Hits, says
from nccl_insight.tables.run import Run

_PATHS = (
    "run the same test with -c 1 on each host alone, then on pairs; NCCL_P2P_DISABLE=1, NCCL_NET_GDR_LEVEL=LOC and "
    "NCCL_PROTO=Simple, one at a time, tell which path corrupts; dcgmi diag -r 3 on the idle host"
)
_CANDIDATES = (
    "Candidates: a bad GPU, NVLink or NIC; GPUDirect RDMA writes that overtake each other (PCIe relaxed ordering, "
    "ACS); NCCL 2.18.1 with Tree and LL128."
)


def check(ctx: Context) -> Hits:
    """One finding for all rows with wrong values, one for the checks of the program."""
    run = ctx.run
    yield from _checks(run)
    yield from ctx.tells("found")
    rows = run.table("benchmarks").filter(pl.col("wrong").fill_null(0) > 0)
    if rows.is_empty():
        yield from _summed(run)
        return
    sizes = rows["size_bytes"].drop_nulls().unique().sort().to_list()
    ops = ", ".join(str(o) for o in rows["op"].drop_nulls().unique(maintain_order=True).to_list()) or "the collective"
    span = " to ".join(dict.fromkeys(format_bytes(size) for size in (*sizes[:1], *sizes[-1:])))
    worst = int(rows["wrong"].max() or 0)  # type: ignore[arg-type]
    lines = rows.select("input_id", "line").drop_nulls()
    hosts = run.table("processes")
    yield ctx.says(
        "found-wrong-results",
        tuple(Ref(int(i), int(n)) for i, n in lines.head(4).iter_rows()),
        whom=hosts_of(hosts) if hosts.height and len(hosts_of(hosts)) == 1 else (),
        next_step=_PATHS,
        explanation=_CANDIDATES,
        absence=None if lines.height else "the table of the test has rows with wrong values",
        ops=ops,
        worst=worst,
        tests=", ".join(part for part in (plural(rows.height, "test"), span) if part),
    )


def _summed(run: Run) -> Iterator[Hit]:
    """The summary of a test whose rows with wrong values are not in the input."""
    found = run.table("benchmark_runs").filter(pl.col("out_of_bounds").fill_null(0) > 0)
    if found.is_empty():
        return
    values = int(found["out_of_bounds"].sum())
    yield says("wrong-results.summed", refs(found, 4), next_step=_PATHS, explanation=_CANDIDATES, values=values)


def _checks(run: Run) -> Iterator[Hit]:
    """What a test program found itself; an assertion counts where it expects the number of ranks, the sum of ones."""
    size = run.table("ranks")["nranks"].max()
    ones = pl.col("expected") == (size if isinstance(size, int) else -1)
    found = run.table("value_checks").filter(~pl.col("assertion") | ones)
    if found.is_empty():
        return
    ranks = ranks_of(found)
    first = found.row(0, named=True)
    yield says(
        "wrong-results.checks", refs(found, 4), whom=ranks, observed=str(first["text"])[:200], first=first, found=found
    )

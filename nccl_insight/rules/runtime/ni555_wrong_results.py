"""A checker found wrong data."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Action, Confidence, Hit, Ref
from nccl_insight.base.units import format_bytes, plural, rank_words
from nccl_insight.facts.settings import hosts_of, ranks_of, refs
from nccl_insight.rules.context import Context, Hits, hit
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
    yield from ctx.report(
        "The program's own check of its results says that a rank computes wrong ones",
        explanation="Megatron computes a result that looks wrong again, on the same GPU and on another one. What does "
        "not come out again on another GPU was computed wrongly by the first.",
        expected="the same result on every GPU",
    )
    rows = run.table("benchmarks").filter(pl.col("wrong").fill_null(0) > 0)
    if rows.is_empty():
        yield from _summed(run)
        return
    sizes = rows["size_bytes"].drop_nulls().unique().sort().to_list()
    ops = ", ".join(str(o) for o in rows["op"].drop_nulls().unique(maintain_order=True).to_list()) or "the collective"
    span = " to ".join(dict.fromkeys(format_bytes(size) for size in (*sizes[:1], *sizes[-1:])))
    tests = ", ".join(part for part in (plural(rows.height, "test"), span) if part)
    worst = int(rows["wrong"].max() or 0)  # type: ignore[arg-type]
    lines = rows.select("input_id", "line").drop_nulls()
    hosts = run.table("processes")
    yield ctx.hit(
        tuple(Ref(int(i), int(n)) for i, n in lines.head(4).iter_rows()),
        whom=hosts_of(hosts) if hosts.height and len(hosts_of(hosts)) == 1 else (),
        title=f"Wrong results: {ops} returned up to {worst:,} wrong values ({tests})",
        next_step=_PATHS,
        explanation=_CANDIDATES,
        observed=f"{worst:,} wrong values",
        expected="0 wrong values",
        unit="values",
        absence=None if lines.height else "the table of the test has rows with wrong values",
    )


def _summed(run: Run) -> Iterator[Hit]:
    """The summary of a test whose rows with wrong values are not in the input."""
    found = run.table("benchmark_runs").filter(pl.col("out_of_bounds").fill_null(0) > 0)
    if found.is_empty():
        return
    values = int(found["out_of_bounds"].sum())
    yield hit(
        refs(found, 4),
        title=f"Wrong results: nccl-tests counts {values:,} values out of bounds",
        next_step=_PATHS,
        explanation=_CANDIDATES,
        observed=f"{values:,} wrong values",
        expected="0 wrong values",
        unit="values",
    )


def _checks(run: Run) -> Iterator[Hit]:
    """What a test program found itself; an assertion counts where it expects the number of ranks, the sum of ones."""
    size = run.table("ranks")["nranks"].max()
    ones = pl.col("expected") == (size if isinstance(size, int) else -1)
    found = run.table("value_checks").filter(~pl.col("assertion") | ones)
    if found.is_empty():
        return
    ranks = ranks_of(found)
    first = found.row(0, named=True)
    yield hit(
        refs(found, 4),
        whom=ranks,
        title=f"Wrong results: the program's check got {first['observed']:g} where it expected {first['expected']:g} "
        f"({plural(found.height, 'value')}{f', told by {rank_words(ranks)}' if ranks else ''})",
        next_step="run all_reduce_perf -c 1 (nccl-tests) on the same GPUs: #wrong above 0 means the machine or NCCL, 0 "
        "the program; then once with NCCL_P2P_DISABLE=1 and once with CUDA_VISIBLE_DEVICES unset",
        explanation="Candidates: peer-to-peer access that is broken (IOMMU, ACS, virtual machines), a device order "
        "that ranks see differently (CUDA_VISIBLE_DEVICES permuted), a bug of this NCCL version, or the check itself.",
        observed=str(first["text"])[:200],
        confidence=Confidence.MEDIUM,
        action=Action.TRIAGE,
    )

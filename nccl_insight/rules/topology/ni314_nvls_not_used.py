"""NVLink SHARP (NVLS) is available and not used."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence, Hit, Severity
from nccl_insight.base.units import rank_words
from nccl_insight.facts.members import members, rank_hosts, unambiguous
from nccl_insight.facts.outliers import outliers
from nccl_insight.facts.settings import hosts_of, named, ranks_of, refs, setting
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for hosts that differ, else one for the run."""
    run = ctx.run
    counts = (
        unambiguous(run, run.table("channel_counts"))
        .filter(pl.col("nvls_channels").is_not_null())
        .join(rank_hosts(run), on=["comm_id", "rank"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            pl.when(pl.col("nvls_channels") > 0).then(pl.lit("used")).otherwise(pl.lit("not used")).alias("nvls")
        )
    )
    odd = [o for o in outliers(counts, "nvls") if o.value == "not used"]
    off = setting(run, "NCCL_NVLS_ENABLE").filter(pl.col("value") == "0")
    algorithm = setting(run, "NCCL_ALGO")
    if off.height:
        return
    if odd:
        first = odd[0]
        yield ctx.hit(
            first,
            title=f"{named(first.whole_hosts or first.hosts)} does not use NVLS, {first.majority_ranks} other ranks do",
            explanation="NVLS is missing on a part of the communicator: multicast cannot be set up there.",
            observed="0 NVLS channels",
            expected="NVLS on every host",
            next_step="systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric   # on the odd host",
            severity=Severity.WARNING,
            comm_id=first.comm_id,
            caused_by=("nvls-multicast-failed", "env-mismatch"),
        )
        return
    yield from _unused(run, counts, algorithm)


def _unused(run: Run, counts: pl.DataFrame, algorithm: pl.DataFrame) -> Iterator[Hit]:
    support = run.table("nvls").filter((pl.col("event") == "support") & pl.col("nvls_not").is_null())
    if support.is_empty() or counts.is_empty() or counts.filter(pl.col("nvls") == "used").height:
        return
    local = members(run).select("comm_id", "rank", "local_ranks")
    rows = counts.join(local, on=["comm_id", "rank"], how="left", nulls_equal=True).filter(pl.col("local_ranks") > 2)
    if rows.is_empty():
        return
    forced = algorithm.height > 0 and "nvls" not in str(algorithm.item(0, "value")).lower()
    hosts = hosts_of(rows)
    yield hit(
        (*refs(support, 1), *refs(rows, 1), *refs(algorithm, 1)),
        whom=hosts,
        title=f"The GPUs of {rank_words(ranks_of(rows))} offer NVLS and no communicator uses it",
        explanation=f"NCCL_ALGO={algorithm.item(0, 'value')} leaves NVLS out."
        if forced
        else "NCCL may leave NVLS out by its own choice; a failed multicast set-up is the other cause.",
        observed="0 NVLS channels",
        expected="16 or more on NVSwitch machines from Hopper on",
        unit="channels",
        next_step="unset NCCL_ALGO" if forced else "systemctl status nvidia-fabricmanager; grep nvls.cc <log>",
        confidence=Confidence.LOW,
        caused_by=("nvls-multicast-failed",),
    )

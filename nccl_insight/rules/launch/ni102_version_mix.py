"""Ranks of one communicator run different NCCL versions."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.base.model import Confidence, Hit, Ref
from nccl_insight.base.units import plural, rank_words
from nccl_insight.facts.members import comms, members
from nccl_insight.facts.mentions import mentions
from nccl_insight.facts.outliers import Outlier, outliers
from nccl_insight.facts.settings import hosts_of, named, refs
from nccl_insight.facts.wording import wording_clashes
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for the communicator that shows it best, else for the job, else from wording."""
    run = ctx.run
    lines = run.table("processes").select("host", "pid", "input_id", "line")
    ranks = (
        members(run)
        .drop("input_id", "line")
        .join(lines.unique(["host", "pid"], keep="first"), on=["host", "pid"], how="left", nulls_equal=True)
    )
    found = outliers(ranks, "nccl_version")
    if found:
        yield _members_hit(max(found, key=lambda o: len(o.ranks) + o.majority_ranks))
        return
    yield from _unjoined(run)


def _members_hit(odd: Outlier) -> Hit:
    where = named(odd.hosts) or rank_words(odd.ranks)
    return hit(
        odd,
        title=f"{where}: NCCL {odd.value}, while {plural(odd.majority_ranks, 'rank')} of the communicator: "
        f"{odd.majority}",
        explanation="Ranks of one communicator must run the same NCCL release.",
        observed=f"{odd.value} and {odd.majority}",
        expected="one version",
        comm_id=odd.comm_id,
    )


def _unjoined(run: Run) -> Iterator[Hit]:
    """Processes that print different versions and never met."""
    reported = mentions(run, "releases-differ", "stated")
    trouble = mentions(run, "releases-differ")
    finished = any(c.init_complete for c in comms(run) if c.nranks > 1)
    table = run.table("processes").with_columns(
        pl.col("nccl_version").str.extract(r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)").alias("number")
    )
    versions = table.filter(pl.col("number").is_not_null()).unique("number", keep="first", maintain_order=True)
    numbers = versions.get_column("number").to_list()
    evidence: tuple[Ref, ...] = (*refs(versions, 2), *refs(trouble, 1))
    if reported.height or (len(numbers) > 1 and trouble.height and not finished):
        yield hit(
            evidence,
            whom=hosts_of(versions),
            title="Processes of the job run different NCCL versions"
            + (f": {', '.join(numbers[:4])}" if len(numbers) > 1 else ""),
            explanation="Their start-up messages do not fit each other: init cannot finish.",
            observed=", ".join(numbers[:4]) or "mismatch reported by NCCL",
            expected="one version",
            confidence=Confidence.HIGH if reported.height else Confidence.MEDIUM,
        )
        return
    for clash in wording_clashes(run) if not finished else ():
        yield hit(
            clash.evidence,
            whom=(clash.host,),
            title=f"{clash.host} prints messages of NCCL {clash.observed}, but {clash.other_host} "
            f"those of {clash.expected}",
            explanation="The wording of a message changes between releases; the two hosts load different ones.",
            observed=f"wording of {clash.observed}",
            expected=f"wording of {clash.expected} on every host",
            confidence=Confidence.MEDIUM,
        )
        return

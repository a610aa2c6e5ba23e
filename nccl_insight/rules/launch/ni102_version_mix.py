"""Ranks of one communicator run different NCCL versions."""

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.units import rank_words
from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.said.wording import source_clashes, wording_clashes
from nccl_insight.facts.setup.outliers import outliers
from nccl_insight.facts.setup.settings import hosts_of, named, refs
from nccl_insight.facts.who.members import comms, members
from nccl_insight.rules.context import Context, Hits


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
        odd = max(found, key=lambda o: len(o.ranks) + o.majority_ranks)
        where = named(odd.hosts) or rank_words(odd.ranks)
        yield ctx.says("members", odd, comm_id=odd.comm_id, where=where, odd=odd)
        return
    yield from _unjoined(ctx)


def _unjoined(ctx: Context) -> Hits:
    """Processes that print different versions and never met."""
    run = ctx.run
    reported = mentions(run, "releases-differ", "stated")
    trouble = mentions(run, "releases-differ")
    finished = any(c.init_complete for c in comms(run) if c.nranks > 1)
    table = run.table("processes").with_columns(
        number=pl.col("nccl_version").str.extract(r"([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
    )
    versions = table.filter(pl.col("number").is_not_null()).unique("number", keep="first", maintain_order=True)
    numbers = versions.get_column("number").to_list()
    evidence: tuple[Ref, ...] = (*refs(versions, 2), *refs(trouble, 1))
    if reported.height or (len(numbers) > 1 and trouble.height and not finished):
        yield ctx.says("unjoined", evidence, whom=hosts_of(versions), numbers=numbers, reported=reported)
        return
    for clash in wording_clashes(run) if not finished else ():
        yield ctx.says("unjoined-prints-messages", clash.evidence, whom=(clash.host,), clash=clash)
        return
    for clash in source_clashes(run)[:1] if not finished else ():
        yield ctx.says("unjoined-prints-from", clash.evidence, whom=(clash.host,), clash=clash)

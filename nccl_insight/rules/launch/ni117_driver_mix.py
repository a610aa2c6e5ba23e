"""Hosts of one communicator have different CUDA drivers or toolkits."""

from nccl_insight.base.model import Hit
from nccl_insight.facts.setup.outliers import Outlier, outliers
from nccl_insight.facts.who.members import members, unambiguous
from nccl_insight.rules._diag import drivers_differ
from nccl_insight.rules._subjects import subject
from nccl_insight.rules.context import Context, Hits, says

_FACTS = (("driver_version", "CUDA driver"), ("cuda_version", "CUDA toolkit of NCCL"))


def check(ctx: Context) -> Hits:
    """One finding for each of the two facts, at the largest communicator that shows it."""
    run = ctx.run
    lines = run.table("processes").select("host", "pid", "input_id", "line").unique(["host", "pid"], keep="first")
    ranks = unambiguous(run, members(run)).drop("input_id", "line")
    ranks = ranks.join(lines, on=["host", "pid"], how="left", nulls_equal=True, maintain_order="left")
    for column, words in _FACTS:
        odd = outliers(ranks, column)
        if odd:
            yield _hit(max(odd, key=lambda o: len(o.ranks) + o.majority_ranks), words)
    yield from drivers_differ(run)


def _hit(odd: Outlier, words: str) -> Hit:
    return says("driver-mix.found", odd, comm_id=odd.comm_id, who=subject(odd), words=words, odd=odd)

"""Hosts of one communicator have different CUDA drivers or toolkits."""

from nccl_insight.facts.said.diagnostics import findings
from nccl_insight.facts.setup.outliers import outliers
from nccl_insight.facts.who.members import members, unambiguous
from nccl_insight.rules._diag import diagnosed
from nccl_insight.rules.context import Context, Hits

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
            most = max(odd, key=lambda o: len(o.ranks) + o.majority_ranks)
            yield ctx.says("found", most, comm_id=most.comm_id, words=words, odd=most)
    yield from diagnosed(ctx, "drivers-differ", findings(run, "CUDA driver version"))

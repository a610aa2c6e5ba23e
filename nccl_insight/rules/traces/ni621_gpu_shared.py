"""Ranks take turns on one GPU."""

from nccl_insight.facts.lateness.replay import LATE
from nccl_insight.facts.who.shared_gpu import shared_gpu
from nccl_insight.rules._gains import mended
from nccl_insight.rules._traces import input_of_rank, trace_refs, with_hosts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for the ranks."""
    if ranks := shared_gpu(ctx.run):
        inputs = input_of_rank(ctx.run)
        seen = trace_refs((inputs.get(r), f"rank {r} computes in turn with the others") for r in ranks)
        yield ctx.says("found", seen, whom=with_hosts(ctx.run, ranks), late=bool(mended(ctx.run, LATE)))

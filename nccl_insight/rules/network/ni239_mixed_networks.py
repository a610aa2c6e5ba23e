"""Ranks of one communicator chose different networks."""

import polars as pl

from nccl_insight.facts.fabric.networks import member_networks, process_networks, used_networks
from nccl_insight.facts.setup.outliers import Outlier, outliers
from nccl_insight.facts.who.members import comms
from nccl_insight.facts.who.transports import is_rdma
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for each odd network of the job, at the largest communicator that shows it."""
    wide = {c.comm_id: c for c in comms(ctx.run) if c.spans_hosts or len(c.hosts) > 1}
    found: dict[tuple[str, str, tuple[str, ...]], Outlier] = {}
    for odd in _odd(ctx.run, [c for c in wide if c]):
        key = (odd.value, odd.majority, odd.hosts)
        if key not in found or len(found[key].ranks) < len(odd.ranks):
            found[key] = odd
    for odd in found.values():
        done = wide[odd.comm_id].init_complete if odd.comm_id in wide else False
        crossing = is_rdma(odd.value) != is_rdma(odd.majority)
        yield ctx.says(
            "found", (*odd.lines, *odd.usual_lines), whom=odd, comm_id=odd.comm_id, odd=odd, stops=crossing or not done
        )


def _odd(run: Run, comm_ids: list[str]) -> tuple[Outlier, ...]:
    """Odd networks by what processes say, else by what their connections use."""
    for networks in (process_networks(run), used_networks(run)):
        frame = member_networks(run, networks).filter(pl.col("comm_id").is_in(comm_ids))
        odd = outliers(frame, "network")
        if odd:
            return odd
    return ()

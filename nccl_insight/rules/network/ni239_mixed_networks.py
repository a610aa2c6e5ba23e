"""Ranks of one communicator chose different networks."""

import polars as pl

from nccl_insight.base.model import Confidence, Severity
from nccl_insight.base.units import plural, rank_words
from nccl_insight.facts.members import comms
from nccl_insight.facts.networks import member_networks, process_networks, used_networks
from nccl_insight.facts.outliers import Outlier, outliers
from nccl_insight.facts.settings import named
from nccl_insight.facts.transports import is_rdma
from nccl_insight.rules._subjects import subject
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for each odd network of the job, at the largest communicator that shows it."""
    run = ctx.run
    wide = {c.comm_id: c for c in comms(run) if c.spans_hosts or len(c.hosts) > 1}
    found: dict[tuple[str, str, tuple[str, ...]], Outlier] = {}
    for odd in _odd(run, [c for c in wide if c]):
        key = (odd.value, odd.majority, odd.hosts)
        if key not in found or len(found[key].ranks) < len(odd.ranks):
            found[key] = odd
    for odd in found.values():
        done = wide[odd.comm_id].init_complete if odd.comm_id in wide else False
        where = subject(odd)
        crossing = is_rdma(odd.value) != is_rdma(odd.majority)
        yield ctx.hit(
            (*odd.lines, *odd.usual_lines),
            whom=odd,
            title=f"{where}: network {odd.value}, while {plural(odd.majority_ranks, 'rank')} of the communicator "
            f"chose {odd.majority}",
            observed=f"{odd.value} on {rank_words(odd.ranks)}",
            expected=f"{odd.majority} on every rank",
            next_step=(
                f"on {named(odd.hosts) or 'the odd host'}: ibv_devinfo; ls /dev/infiniband; env | grep NCCL_"
                "   # compare with a good host"
            ),
            severity=Severity.ERROR if crossing or not done else Severity.WARNING,
            confidence=Confidence.HIGH if odd.whole_hosts else Confidence.MEDIUM,
            comm_id=odd.comm_id,
            caused_by=("ib-open-device-failed", "ofi-plugin-init-failed", "env-mismatch"),
        )


def _odd(run: Run, comm_ids: list[str]) -> tuple[Outlier, ...]:
    """Odd networks by what processes say, else by what their connections use."""
    for networks in (process_networks(run), used_networks(run)):
        frame = member_networks(run, networks).filter(pl.col("comm_id").is_in(comm_ids))
        odd = outliers(frame, "network")
        if odd:
            return odd
    return ()

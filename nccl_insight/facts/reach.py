"""Whether a job leaves its node, and what an absence in the log can prove."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.versions import at_least
from nccl_insight.facts.members import comms, rank_hosts
from nccl_insight.facts.settings import setting, switched_on
from nccl_insight.facts.transports import links
from nccl_insight.tables.run import Run, fact

#: init.cc: NCCL_PARAM(RuntimeConnect) defaults to 1 since this release
_LAZY_SINCE = "2.22.3"


@fact
def spans_hosts(run: Run) -> bool | None:
    """Whether the job uses several hosts: ``True``, ``False`` (one node for sure) or ``None`` (unknown)."""
    known = comms(run)
    hosts = rank_hosts(run).group_by("comm_id").agg(pl.col("host").n_unique()).get_column("host").max()
    several = isinstance(hosts, int) and hosts > 1
    if several or any(len(c.hosts) > 1 for c in known) or net_crosses(run):
        return True
    isolated = nodes_are_processes(run)
    if any(c.nodes and c.nodes > 1 for c in known) and not isolated:
        return True
    if known and all(c.single_node or isolated for c in known):
        return False
    return None


def needs_no_network(run: Run) -> bool:
    """Whether the job is known to stay on one host, and finished its init there: a network that fails costs nothing."""
    known = comms(run)
    hosts = {host for c in known for host in c.hosts}
    return spans_hosts(run) is False and len(hosts) <= 1 and all(c.init_complete for c in known)


def nodes_are_processes(run: Run) -> bool:
    """Whether P2P and SHM are both switched off, so that NCCL takes each process for a node of its own."""
    level = setting(run, "NCCL_P2P_LEVEL").filter(pl.col("value").str.to_uppercase().is_in(["LOC", "0"]))
    no_p2p = switched_on(run, "NCCL_P2P_DISABLE").height or level.height
    return bool(no_p2p and switched_on(run, "NCCL_SHM_DISABLE").height)


def net_crosses(run: Run) -> bool:
    """Whether a NET connection shows two nodes: NCCL uses NET inside a node only without P2P and SHM."""
    net = links(run).filter(pl.col("transport") == "NET")
    if net.filter(pl.col("same_host").eq_missing(False)).height:
        return True
    return bool(net.height) and not nodes_are_processes(run)


@dataclass(frozen=True)
class Judgeable:
    """Whether the absence of connection lines means anything, and if not, why."""

    yes: bool
    reason: str = ""


def connections_judgeable(run: Run) -> Judgeable:
    """Whether missing connections mean missing traffic.

    Since 2.23 NCCL connects on first use and for the chosen algorithm only, and a log that lacks ranks or
    the INIT subsystem shows none at all.
    """
    if not run.has("connections"):
        return Judgeable(False, "the log has no connection lines (NCCL connects lazily, or INFO is off)")
    if any(c.ranks_seen < c.nranks for c in comms(run)):
        return Judgeable(False, "the log lacks some ranks of a communicator")
    if _one_sided(run):
        return Judgeable(False, "the log lacks the other end of some connections: lines are missing")
    versions = run.table("processes").get_column("nccl_version").drop_nulls().unique().to_list()
    lazy = [v for v in versions if at_least(v, _LAZY_SINCE)]
    if lazy:
        return Judgeable(False, f"NCCL {lazy[0]} connects on first use only")
    return Judgeable(True)


def _one_sided(run: Run) -> bool:
    """Whether a NET connection shows at one end only although both ranks write to this log."""
    net = links(run).filter((pl.col("transport") == "NET") & pl.col("pxn_rank").is_null())
    both = net.filter(pl.col("src_host").is_not_null() & pl.col("dst_host").is_not_null())
    ends = both.group_by("comm_id", "channel", "conn_index", "src_rank", "dst_rank").agg(
        pl.col("direction").n_unique().alias("ends")
    )
    return ends.filter(pl.col("ends") < 2).height > 0

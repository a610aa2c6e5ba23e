"""Whether a job leaves its node, and what an absence in the log can prove."""

import polars as pl

from nccl_insight.facts.setup.settings import setting, switched_on
from nccl_insight.facts.who.members import comms
from nccl_insight.facts.who.transports import links
from nccl_insight.loading.assemble.places import rank_hosts
from nccl_insight.tables.run import Run, fact

_LOOPBACK = r"^\[?(?:127\.|::1\b)"


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
    """Whether NCCL's nodes are processes of one host: P2P and SHM are off, or loopback alone brought them together."""
    if _met_over_loopback(run):
        return True
    level = setting(run, "NCCL_P2P_LEVEL").filter(pl.col("value").str.to_uppercase().is_in(["LOC", "0"]))
    no_p2p = switched_on(run, "NCCL_P2P_DISABLE").height or level.height
    return bool(no_p2p and switched_on(run, "NCCL_SHM_DISABLE").height)


def _met_over_loopback(run: Run) -> bool:
    """Whether processes of several nodes made a communicator together, and no interface but loopback is told.

    They are on one host, then; NCCL_HOSTID parts its nodes.
    """
    addresses = pl.concat([run.table(table)["address"].drop_nulls() for table in ("interfaces", "net_devices")])
    known = comms(run)
    met = any((c.nodes or 1) > 1 for c in known) or (known and all(c.init_complete for c in known))
    if addresses.is_empty() or not met:
        return False
    return bool(addresses.str.contains(_LOOPBACK).all())


def net_crosses(run: Run) -> bool:
    """Whether a NET connection shows two nodes: NCCL uses NET inside a node only without P2P and SHM."""
    net = links(run).filter(pl.col("transport") == "NET")
    if net.filter(pl.col("same_host").eq_missing(False)).height:
        return True
    return bool(net.height) and not nodes_are_processes(run)

"""Shared by the rules about TCP sockets: what the user chose, what failed, what RDMA there should be."""

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.words import words
from nccl_insight.facts.fabric.networks import ipoib, nics
from nccl_insight.facts.said.mentions import library_missing, mentions, no_device
from nccl_insight.facts.setup.settings import setting, settings, switched_on
from nccl_insight.facts.who.transports import TCP_NETWORKS
from nccl_insight.rules.says import said
from nccl_insight.tables.run import Run, fact

_RDMA_SETTINGS = words("""NCCL_IB_HCA NCCL_IB_GID_INDEX NCCL_IB_TC NCCL_IB_SL NCCL_IB_QPS_PER_CONNECTION NCCL_IB_TIMEOUT
    NCCL_IB_RETRY_CNT NCCL_IB_PCI_RELAXED_ORDERING NCCL_NET_GDR_LEVEL NCCL_IB_ADAPTIVE_ROUTING NCCL_IB_CUDA_SUPPORT""")


def chosen_by_user(run: Run) -> pl.DataFrame:
    """Settings that rule out RDMA: rows of settings for NCCL_IB_DISABLE and NCCL_NET."""
    net = setting(run, "NCCL_NET").filter(pl.col("value").str.to_lowercase().is_in(list(TCP_NETWORKS)))
    return pl.concat([switched_on(run, "NCCL_IB_DISABLE"), net])


@fact
def plugin_failures(run: Run) -> pl.DataFrame:
    """Lines that say that an RDMA plugin was there and could not start."""
    return mentions(run, "rdma-plugin-failed")


@dataclass(frozen=True)
class Cause:
    """Why RDMA was not used, as far as the log tells."""

    rows: pl.DataFrame
    certain: bool
    diagnosis: str
    what: str
    check: str


def causes(run: Run) -> tuple[Cause, ...]:
    """Reasons for the socket network, the most certain first."""
    found = (
        Cause(
            mentions(run, "device-unopened"), True, "ib-open-device-failed", **said("net-socket-fallback.unopened", {})
        ),
        Cause(plugin_failures(run), True, "ofi-plugin-init-failed", **said("net-socket-fallback.plugin", {})),
        Cause(library_missing(run), False, "ib-libibverbs-missing", **said("net-socket-fallback.no-library", {})),
        Cause(no_device(run), False, "ib-no-device", **said("net-socket-fallback.no-device", {})),
    )
    return tuple(c for c in found if c.rows.height)


def rdma_hints(run: Run) -> list[tuple[str, pl.DataFrame]]:
    """Signs that the hosts have RDMA although it is not used: interface names, settings of the user."""
    hints: list[tuple[str, pl.DataFrame]] = []
    listed = nics(run)
    tcp = listed.filter(pl.col("network").str.to_lowercase().is_in(list(TCP_NETWORKS)))
    over_ib = tcp.filter(pl.col("name").map_elements(ipoib, return_dtype=pl.Boolean, skip_nulls=True).fill_null(False))
    if over_ib.height:
        hints.append((f"interface {over_ib.item(0, 'name')} is IP over InfiniBand", over_ib))
    wanted = settings(run).filter(pl.col("name").is_in(_RDMA_SETTINGS))
    if wanted.height:
        hints.append((f"{wanted.item(0, 'name')}={wanted.item(0, 'value')} asks for RDMA", wanted))
    return hints

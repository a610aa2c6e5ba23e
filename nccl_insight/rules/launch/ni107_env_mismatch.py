"""Ranks of one communicator run with different values of a setting that must agree."""

from typing import Final

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.words import words
from nccl_insight.facts.setup.outliers import Outlier, outliers
from nccl_insight.facts.setup.settings import settings
from nccl_insight.facts.who.members import begun, members, unambiguous
from nccl_insight.rules._diag import settings_differ
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

MUST_AGREE: Final = words("""NCCL_ALGO NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS
    NCCL_NCHANNELS_PER_NET_PEER NCCL_MIN_P2P_NCHANNELS NCCL_MAX_P2P_NCHANNELS NCCL_BUFFSIZE NCCL_LL_BUFFSIZE
    NCCL_LL128_BUFFSIZE NCCL_P2P_NET_CHUNKSIZE NCCL_P2P_PCI_CHUNKSIZE NCCL_P2P_NVL_CHUNKSIZE NCCL_NTHREADS NCCL_NET
    NCCL_NET_PLUGIN NCCL_IB_DISABLE NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_NET_GDR_LEVEL
    NCCL_NVLS_ENABLE NCCL_COLLNET_ENABLE NCCL_CROSS_NIC NCCL_PXN_DISABLE NCCL_MNNVL_ENABLE NCCL_CUMEM_ENABLE
    NCCL_TREE_THRESHOLD NCCL_SINGLE_RING_THRESHOLD NCCL_IB_SPLIT_DATA_ON_QPS NCCL_IB_QPS_PER_CONNECTION NCCL_IB_TC
    NCCL_IB_SL NCCL_IB_FIFO_TC NCCL_IB_ADAPTIVE_ROUTING""")
FATAL: Final = words("""NCCL_ALGO NCCL_PROTO NCCL_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LL128_BUFFSIZE NCCL_NET
    NCCL_P2P_NET_CHUNKSIZE NCCL_IB_DISABLE""")
SERVICE: Final = ("NCCL_IB_TC", "NCCL_IB_SL", "NCCL_IB_FIFO_TC", "NCCL_IB_ADAPTIVE_ROUTING")
"""How the fabric treats the packets: ranks that differ still understand each other."""
LAZY: Final = ("NCCL_SHM_DISABLE", "NCCL_IB_QPS_PER_CONNECTION", "NCCL_IB_SPLIT_DATA_ON_QPS", *SERVICE)
"""Read by some ranks only, when they need them: silence says nothing."""
_UNSET: Final = "not set"


def check(ctx: Context) -> Hits:
    """One finding for each setting, at the largest communicator that shows it."""
    found = _differences(ctx.run)
    yield from (_hit(ctx, name, odd) for name, odd in found)
    yield from settings_differ(ctx.run, frozenset(name for name, _ in found))


def _differences(run: Run) -> list[tuple[str, Outlier]]:
    values = settings(run)
    wanted = values.filter(pl.col("name").is_in(MUST_AGREE) & (pl.col("origin") != "config"))
    if wanted.is_empty():
        return []
    ranks = unambiguous(run, members(run)).filter(pl.col("nranks") > 1)
    ranks = ranks.select("comm_id", "rank", "host", "pid", "input_id", "line")
    if run.table("inputs").get_column("torn_lines").sum():
        ranks = ranks.join(values.select("host", "pid"), on=["host", "pid"], how="semi", nulls_equal=True)
    first = begun(run).with_columns(_silent=pl.lit(_UNSET))
    ranks = ranks.join(first, on=["host", "pid"], how="left", nulls_equal=True, maintain_order="left")
    found: list[tuple[str, Outlier]] = []
    for name in wanted.get_column("name").unique(maintain_order=True):
        mine = wanted.filter(pl.col("name") == name).select(
            "host", "pid", "value", set_input=pl.col("input_id"), set_line=pl.col("line")
        )
        table = ranks.join(mine, on=["host", "pid"], how="left", nulls_equal=True, maintain_order="left").with_columns(
            pl.col("value") if name in LAZY else pl.coalesce("value", "_silent"),
            input_id=pl.coalesce("set_input", "input_id"),
            line=pl.coalesce("set_line", "line"),
        )
        odd = outliers(table, "value")
        if odd:
            found.append((name, max(odd, key=lambda o: (len(o.ranks) + o.majority_ranks, -min(o.ranks, default=0)))))
    return found


def _hit(ctx: Context, name: str, odd: Outlier) -> Hit:
    explicit = _UNSET not in (odd.value, odd.majority)
    # Others of the same host print it: as a rule they have one environment, and the line was lost.
    lost = odd.value == _UNSET and not odd.whole_hosts and bool(odd.hosts)
    return ctx.says(
        "found",
        odd,
        comm_id=odd.comm_id,
        caused_by=("p2p-disabled-by-env",) if name in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL") else (),
        service=name in SERVICE,
        odd=odd,
        unset=odd.value == _UNSET,
        name=name,
        lost=lost,
        fatal=explicit and name in FATAL,
        explicit=explicit,
    )

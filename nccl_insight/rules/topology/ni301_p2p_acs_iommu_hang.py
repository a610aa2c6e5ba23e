"""PCIe peer-to-peer may hang because ACS or an IOMMU redirects it."""

import polars as pl

from nccl_insight.facts.said.mentions import mentions
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.ends import TIMED_OUT


def check(ctx: Context) -> Hits:
    """P2P over PCIe together with a first collective that never finished."""
    run = ctx.run
    p2p = run.table("connections").filter(
        (pl.col("transport").cast(pl.String) == "P2P") & ~pl.col("method").fill_null("").str.contains("(?i)mnnvl")
    )
    links = run.table("topology_links")
    if p2p.is_empty() or (links["link"].cast(pl.String) == "NVL").any():
        return
    watchdog = trouble(run, TIMED_OUT)
    hung = watchdog is not None and watchdog.telling("first-operation") is not None
    stated = not mentions(run, "acs-on").is_empty()
    if not hung and not stated:
        return
    yield ctx.says(
        "found",
        (*(watchdog.evidence[:1] if watchdog is not None else ()), *refs(p2p, 2)),
        whom=(*ranks_of(p2p, "src_rank"), *hosts_of(p2p)),
        p2p=p2p,
        stated=stated,
    )

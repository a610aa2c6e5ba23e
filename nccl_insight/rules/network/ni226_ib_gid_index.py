"""The RoCE GID index may be wrong."""

import polars as pl

from nccl_insight.base.natures import names
from nccl_insight.facts.setup.settings import value_of
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """A candidate beside refused and unroutable connections, and off InfiniBand beside lost packets."""
    run = ctx.run
    index = value_of(run, "NCCL_IB_GID_INDEX")
    layers = run.table("net_devices")["link_layer"].cast(pl.String)
    infiniband = bool((layers == "IB").any()) and not bool((layers == "RoCE").any())
    lost = () if infiniband and index is None else names("unanswered")
    yield from ctx.candidate(
        "Possible cause: the RoCE GID index is wrong" + (f" (NCCL_IB_GID_INDEX={index})" if index else ""),
        trouble(run, *names("refused"), *lost),
        "gid-index",
        stated=index is not None and index != "-1" and trouble(run, *names("refused")) is not None,
    )

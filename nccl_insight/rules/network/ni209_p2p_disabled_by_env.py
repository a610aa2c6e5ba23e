"""P2P between GPUs is switched off or limited by a setting."""

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.units import rank_words
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, refs, setting, settings, switched_on
from nccl_insight.facts.who.members import members
from nccl_insight.facts.who.transports import links
from nccl_insight.rules.context import Context, Hits

_LOW_LEVELS = ("loc", "nvl", "pix", "0", "1")


def check(ctx: Context) -> Hits:
    """One finding for each setting."""
    run = ctx.run
    for rows, effect in (
        (switched_on(run, "NCCL_P2P_DISABLE"), "GPUs of a node exchange data through host memory"),
        (
            setting(run, "NCCL_P2P_LEVEL").filter(pl.col("value").str.to_lowercase().is_in(_LOW_LEVELS)),
            "only GPUs that are this close use P2P",
        ),
    ):
        if rows.height:
            yield _hit(ctx, rows, effect)


def _hit(ctx: Context, rows: pl.DataFrame, effect: str) -> Hit:
    run = ctx.run
    name, value = rows.item(0, "name"), rows.item(0, "value")
    everyone = members(run).select("comm_id", "rank", "host", "pid", "nranks").filter(pl.col("nranks") > 1)
    affected = everyone.join(rows.select("host", "pid"), on=["host", "pid"], how="semi", nulls_equal=True)
    sharing = everyone.join(affected.select("comm_id").unique(), on="comm_id", how="semi", nulls_equal=True)
    if run.table("inputs").get_column("torn_lines").sum():
        speaking = settings(run).select("host", "pid")
        sharing = sharing.join(speaking, on=["host", "pid"], how="semi", nulls_equal=True)
    some = 0 < affected.select("host", "pid").n_unique() < sharing.select("host", "pid").n_unique()
    shm = links(run).filter(pl.col("transport") == "SHM")
    ranks = ranks_of(affected) if some else ()
    only = f" on {rank_words(ranks)} only" if some else ""
    return ctx.says(
        "found",
        (*refs(rows, 2), *refs(shm, 1)),
        whom=(*ranks, *hosts_of(rows)),
        name=name,
        value=value,
        only=only,
        effect=effect,
        some=some,
    )

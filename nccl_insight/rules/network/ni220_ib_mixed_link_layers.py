"""InfiniBand and RoCE devices are used together."""

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.base.natures import names
from nccl_insight.facts.fabric.networks import nics
from nccl_insight.facts.fabric.reach import spans_hosts
from nccl_insight.facts.setup.settings import hosts_of, refs, setting
from nccl_insight.facts.who.transports import net_links
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for hosts that list both, or for hosts that differ."""
    run = ctx.run
    rdma = nics(run).filter(pl.col("link_layer").is_in(["IB", "RoCE", "iWARP"]))
    per_host = rdma.group_by("host", maintain_order=True).agg(
        pl.col("link_layer").n_unique().alias("layers"),
        pl.col("link_layer").first().alias("layer"),
        pl.col("input_id", "line").first(),
    )
    both = per_host.filter(pl.col("layers") > 1)
    if both.height:
        yield _within(ctx, rdma.join(both.select("host"), on="host", how="semi", nulls_equal=True))
    elif per_host.get_column("layer").n_unique() > 1 and spans_hosts(run):
        counts = per_host.group_by("layer").len().sort("len", "layer", descending=[True, False])
        usual = counts.item(0, "layer")
        odd = per_host.filter(pl.col("layer") != usual)
        yield ctx.says(
            "between",
            (*refs(odd, 2), *refs(per_host.filter(pl.col("layer") == usual), 1)),
            whom=hosts_of(odd),
            usual=usual,
            odd=odd,
        )


def _within(ctx: Context, rows: pl.DataFrame) -> Hit:
    run = ctx.run
    counts = rows.unique(["host", "name", "port"]).group_by("link_layer").len()
    counts = counts.sort("len", "link_layer", descending=[True, False])
    usual, odd = counts.item(0, "link_layer"), counts.item(1, "link_layer")
    named = rows.filter(pl.col("link_layer") == odd).get_column("name").unique(maintain_order=True).to_list()
    usual_names = rows.filter(pl.col("link_layer") == usual).get_column("name").unique(maintain_order=True)
    wanted = setting(run, "NCCL_IB_HCA")
    asked = wanted.item(0, "value") if wanted.height else ""
    chosen = bool(
        asked and not asked.startswith("^") and any(n in asked for n in named) and any(n in asked for n in usual_names)
    )
    odd_rows = rows.filter(pl.col("link_layer") == odd)
    alone = spans_hosts(run) is False or _unused(run, odd_rows)
    return ctx.says(
        "within",
        (*refs(rows, 2), *refs(wanted, 1)),
        whom=hosts_of(rows),
        odd=odd,
        what=", ".join(named[:4]),
        n_usual=usual_names.len(),
        usual=usual,
        chosen=chosen,
        names=",".join(named[:4]),
        harmless=chosen or alone or not _matters(run, odd_rows),
    )


def _matters(run: Run, odd: pl.DataFrame) -> bool:
    """Whether a connection uses these devices, or connections between devices fail: a list alone proves no use."""
    if trouble(run, *names("unanswered", "refused", "ib-verbs-failed")) is not None:
        return True
    used = net_links(run).filter(pl.col("net_dev").is_not_null())
    numbers = odd["index"].drop_nulls().unique().to_list()
    return used.filter(pl.col("net_dev").is_in(numbers)).height > 0


def _unused(run: Run, odd: pl.DataFrame) -> bool:
    """Whether the log shows connections and none of them uses these devices: listed is not used."""
    used = net_links(run).filter(pl.col("net_dev").is_not_null())
    numbers = odd["index"].drop_nulls().unique().to_list()
    return used.height > 0 and bool(numbers) and used.filter(pl.col("net_dev").is_in(numbers)).is_empty()

"""NCCL_SOCKET_IFNAME names an interface that does not exist."""

import polars as pl

from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.setup.settings import setting
from nccl_insight.rules._errors import Trouble, trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Messages that only a missing interface causes, or no interface while a name was asked for."""
    run = ctx.run
    rows = setting(run, "NCCL_SOCKET_IFNAME").filter(pl.col("value").fill_null("") != "")
    names = [ctx.name, *(ctx.names("beside") if rows.height else ())]
    found = trouble(run, *names)
    if found is None:
        return
    failing = causes(run).filter(pl.col("cause").is_in(names))
    same = rows.join(failing.select("host", "pid").unique(), on=["host", "pid"], how="semi", nulls_equal=True)
    values = (same if same.height else rows)["value"].unique(maintain_order=True).to_list()
    value = f"NCCL_SOCKET_IFNAME={values[0]}" if values else "NCCL_SOCKET_IFNAME"
    excludes = bool(values) and values[0].startswith("^")
    yield from ctx.tells("found", rows=Trouble(found.rows), quiet=None, excludes=excludes, value=value, values=values)

"""A variable is set that this NCCL version advises against."""

import polars as pl

from nccl_insight.advise.settings.check import check_deprecated
from nccl_insight.facts.setup.settings import hosts_of
from nccl_insight.facts.setup.user_settings import user_settings
from nccl_insight.language.load import playing
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding a variable, by the catalog of settings, else as NCCL says itself."""
    named: set[str] = set()
    for setting in user_settings(ctx.run):
        if setting.version is None or setting.name in named:
            continue
        issue = check_deprecated(setting.name, setting.version)
        if issue is not None:
            named.add(setting.name)
            yield ctx.says("found", setting.evidence, whom=setting.hosts, setting=setting, issue=issue)
    rejected = ctx.run.table("env_rejected")
    rows = rejected.filter(pl.col("message").is_in(playing("old-setting"))).drop_nulls("name")
    for (name, message), group in rows.group_by(["name", "message"], maintain_order=True):
        if str(name) in named:
            continue
        what = "has no effect in this release" if message in playing("unused-setting") else "is deprecated"
        yield ctx.says("said-by-nccl", group, whom=hosts_of(group), name=str(name), what=what)

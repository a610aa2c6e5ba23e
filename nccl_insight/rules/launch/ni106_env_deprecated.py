"""A variable is set that this NCCL version advises against."""

from collections.abc import Iterator

import polars as pl

from nccl_insight.advise.settings.check import check_deprecated
from nccl_insight.base.model import Hit
from nccl_insight.facts.settings import hosts_of
from nccl_insight.facts.user_settings import user_settings
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding a variable."""
    run = ctx.run
    named: set[str] = set()
    for setting in user_settings(run):
        if setting.version is None or setting.name in named:
            continue
        issue = check_deprecated(setting.name, setting.version)
        if issue is not None:
            named.add(setting.name)
            yield ctx.hit(
                setting.evidence,
                whom=setting.hosts,
                title=f"{setting.name}={setting.value[:60]} is set; {issue.title}",
                next_step=issue.next_step,
                explanation=issue.explanation,
                observed=f"{setting.name}={setting.value[:60]} with NCCL {setting.version}",
            )
    yield from _said_by_nccl(run, named)


def _said_by_nccl(run: Run, named: set[str]) -> Iterator[Hit]:
    rejected = run.table("env_rejected")
    rows = rejected.filter(pl.col("message").is_in(["env_deprecated", "env_unused"])).drop_nulls("name")
    for (name, message), group in rows.group_by(["name", "message"], maintain_order=True):
        if str(name) in named:
            continue
        what = "has no effect in this release" if message == "env_unused" else "is deprecated"
        yield hit(
            group,
            whom=hosts_of(group),
            title=f"NCCL says that {str(name)[:60]} {what}",
            next_step=f"Remove {str(name)[:60]} from the environment and from nccl.conf.",
            observed=f"{str(name)[:60]} set",
        )

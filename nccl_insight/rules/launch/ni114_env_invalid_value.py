"""A setting has a value that NCCL cannot parse or use."""

import polars as pl

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import check_value
from nccl_insight.base.model import Severity
from nccl_insight.base.versions import at_least
from nccl_insight.facts.setup.settings import hosts_of
from nccl_insight.facts.setup.user_settings import user_settings
from nccl_insight.facts.who.members import comms, processes
from nccl_insight.language.load import playing
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits, hit
from nccl_insight.tables.run import Run

_STRINGS = frozenset({"enum", "set", "algo", "proto", "ctapolicy", "hostport"})


def check(ctx: Context) -> Hits:
    """One finding for each variable or wording."""
    run = ctx.run
    refused = ctx.lines(but=(*playing("limited"), *playing("replaced")))
    if refused is not None:
        # The variables that the lines name, as a pattern for grep.
        words = " ".join(refused.rows["text"].drop_nulls().to_list()).replace("=", " ").replace('"', " ").split()
        names = dict.fromkeys(w.strip(".,:;'()") for w in words if w.startswith(("NCCL_", "RCCL_", "OFI_", "FI_")))
        yield from ctx.tells(
            "found",
            quiet=Severity.WARNING,
            rows=refused,
            refused=refused,
            variables="|".join(list(names)[:4]) or "^(NCCL|RCCL|OFI)_",
        )
    yield from _replaced(ctx)
    yield from _limited(ctx)
    yield from _reported(run, refused is not None)
    yield from _nothing_usable(ctx)


def _replaced(ctx: Context) -> Hits:
    """``Invalid value X for Y, using default Z``."""
    env = ctx.run.table("env")
    rows = env.filter((pl.col("origin").cast(pl.String) == "default") & pl.col("default_value").is_not_null())
    for (name, value), group in rows.group_by(["name", "value"], maintain_order=True):
        shown, default = str(value or "")[:60], group.get_column("default_value")[0]
        yield ctx.says("replaced", group, whom=hosts_of(group), name=name, shown=shown, default=default)


def _limited(ctx: Context) -> Hits:
    rejected = ctx.run.table("env_rejected")
    rows = rejected.filter(pl.col("message").is_in(playing("limited")))
    for (message,), group in rows.group_by(["message"], maintain_order=True):
        name = next((str(n) for n in group["name"].drop_nulls()), "")
        value = next((str(v) for c in ("config_value", "value") for v in group[c].drop_nulls()), "")
        what = name or str(message).removeprefix("env_").replace("_", " ")
        yield ctx.says("limited", group, whom=hosts_of(group), what=what, value=value)


def _reported(run: Run, refused: bool) -> Hits:
    """Values that NCCL reports and that it cannot use."""
    for setting in user_settings(run):
        variable = catalog().get(setting.name)
        if variable is None or (refused and setting.name in {"NCCL_ALGO", "NCCL_PROTO", "NCCL_COMM_ID"}):
            continue
        issue = check_value(setting.name, setting.value, setting.version)
        if issue is None:
            continue
        yield hit(
            setting.evidence,
            whom=setting.hosts,
            title=issue.title,
            next_step=issue.next_step,
            explanation=issue.explanation,
            observed=f"{setting.name}={setting.value[:60]}",
            expected=issue.expected,
            severity=Severity.WARNING if variable.type in _STRINGS else Severity.INFO,
        )


def _nothing_usable(ctx: Context) -> Hits:
    """2.14 to 2.23 on one node: no usable name in NCCL_ALGO."""
    run = ctx.run
    ignored = trouble(run, "collnet-unavailable")
    rows = ignored.telling("algorithm-ignored") if ignored else None
    versions = processes(run).get_column("nccl_version").drop_nulls().unique().to_list()
    known = comms(run)
    if rows is None or not known or not all(c.single_node for c in known):
        return
    if not versions or not all(at_least(v, "2.14") for v in versions):
        return
    if any(s.name == "NCCL_ALGO" for s in user_settings(run)):
        return  # the value is known: judged above
    yield ctx.says(
        "nothing-usable",
        rows,
        title=rows.titled("NCCL_ALGO names no algorithm that works here, and NCCL ignores it"),
        observed=rows.text,
    )

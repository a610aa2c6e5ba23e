"""Settings for experiments are left in force."""

from nccl_insight.advise.settings.check import check_pinned
from nccl_insight.facts.setup.user_settings import user_settings
from nccl_insight.rules.context import Context, Hits

_SHOWN = 5


def check(ctx: Context) -> Hits:
    """One finding for all of them."""
    chosen = user_settings(ctx.run)
    pinned = {issue.variable for issue in check_pinned({s.name: s.value for s in chosen})}
    found = [s for s in chosen if s.name in pinned]
    if not found:
        return
    shown = ", ".join(f"{s.name}={s.value[:40]}" for s in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    names = " ".join(dict.fromkeys(s.name for s in found))
    yield ctx.says(
        "found",
        tuple(dict.fromkeys(ref for s in found for ref in s.evidence[:1]))[:4],
        whom=tuple(sorted({host for s in found for host in s.hosts})),
        observed=shown + more,
        pinned=pinned,
        shown=shown,
        more=more,
        names=names,
    )

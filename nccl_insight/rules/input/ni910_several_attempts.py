"""The inputs hold several attempts of one job."""

from nccl_insight.facts.who.parts import parts
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding per job that was started more than once, with the first line of each attempt as evidence."""
    found = parts(ctx.run)
    several = len({p.job for p in found}) > 1
    for job in sorted({p.job for p in found if p.attempt > 1}):
        own = [p for p in found if p.job == job]
        yield ctx.says(
            "found",
            tuple(p.begins for p in reversed(own) if p.begins is not None)[:5],
            several=several,
            job=job,
            own=own,
        )

"""Lines printed on the way out after another fault."""

from nccl_insight.rules._outside import passed_on_alone
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """At most one finding; where these lines are all there is, ``unexplained-failure`` tells of them."""
    printed = ctx.lines()
    if printed is not None and printed.loud and passed_on_alone(ctx.run) is None:
        yield from ctx.tells("found-ranks-report")

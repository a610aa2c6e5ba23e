"""torch's watchdog thread itself hangs."""

from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """One finding for all lines."""
    found = ctx.lines()
    if found is None:
        return
    numbers = found.rows["launcher_rank"].fill_null(found.rows["rank"]).drop_nulls().unique().sort()
    ranks = tuple(int(n) for n in numbers)
    seconds = found.rows["stuck_s"].drop_nulls()
    span = f" for {int(seconds[0]):,} s" if seconds.len() else ""
    yield from ctx.tells(
        "found",
        whom=(*ranks, *places(ctx.run).hosts(ranks)),
        rows=found,
        span=span,
        ends=found.rows["message"].is_in(playing("stuck-end")).any(),
    )

"""The steps that the program prints became slower and stayed so, or every n-th stands out."""

from nccl_insight.base.model import Hit
from nccl_insight.base.units import format_ns
from nccl_insight.facts.lateness.printed import Series, Shift, periodic, shift
from nccl_insight.facts.said.clock import clock_text
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """At most one finding for a change, and one for a pause in equal intervals."""
    changed, paused = shift(ctx.run, ctx["ratio"]), periodic(ctx.run)
    if changed is not None:
        yield _changed(ctx, changed)
    if paused is not None:
        one = paused.series
        yield ctx.says(
            "paused",
            tuple(one.ref(n) for n in paused.rows[:2]),
            whom=(one.rank,),
            found=paused,
            slow=_cost(one, paused.slow),
            usual=_cost(one, paused.usual),
            article="an" if paused.pause[:1] in "aeiou" else "a",
            explained=paused.pause or paused.share < ctx["least_share"],
        )


def _cost(one: Series, cost: float) -> str:
    """A time of one step, or the rate as printed."""
    return format_ns(cost * 1e9) if one.timed else f"{1 / cost:,.4g}"


def _changed(ctx: Context, found: Shift) -> Hit:
    one, row = found.series, found.row
    at = one.rows["time_s"][row]
    what = "Steps are slower" if one.timed else "The rate fell"
    when = f" ({clock_text(at)})" if at is not None else ""
    times = f"{_cost(one, found.before)} before, {_cost(one, found.after)} after"
    return ctx.says(
        "changed",
        (one.ref(row), one.ref(row - 1)),
        whom=(one.rank,),
        first_s=at,
        gradual=f"{what} little by little: {_cost(one, found.before)} at first, {_cost(one, found.after)} at last"
        if found.gradual
        else f"{what} from {one.at(row)} on{when}: {times}",
        found=found,
        ratio=found.after / found.before,
        before=_cost(one, found.before),
    )

"""An InfiniBand port went down while the job ran and did not come back."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from nccl_insight.base.model import Hit, Ref
from nccl_insight.facts.fabric.links import Flap, failed_after, flaps
from nccl_insight.rules.context import Context, Hits
from nccl_insight.rules.says import said
from nccl_insight.tables.run import Run

# Switches that restart, and power that goes, take their ports with them within this time.
_AT_ONCE_S: Final = 10.0


def check(ctx: Context) -> Hits:
    """One finding for the devices that stayed down."""
    run = ctx.run
    down = [flap for flap in flaps(run) if not flap.back]
    if not down:
        yield from _came_back(ctx)
        return
    hurt = [flap for flap in down if failed_after(run, flap)]
    # What went down in the same moment is the same event, though no error of the job came over it.
    moments = [f.first_s for f in hurt]
    chosen = [f for f in down if f in hurt or _near(f.first_s, moments)] or down
    names = ", ".join(sorted({f.device for f in chosen if f.device})[:4])
    hit = ctx.says(
        "found",
        tuple(Ref(i, n) for f in chosen for i, n in f.lines[:2])[:4],
        **_where(chosen),
        names=names,
        hurt=hurt,
        device=names.split(", ")[0] or "<device>",
        sure=hurt or not all(f.first_s is not None for f in chosen),
    )
    yield _shared(run, chosen, hit) or hit


def _where(found: Sequence[Flap]) -> dict[str, Any]:
    """Ranks, hosts and devices of these ports, and when they were down."""
    times = [t for f in found for t in (f.first_s, f.last_s) if t is not None]
    return {
        "whom": (*sorted({r for f in found for r in f.ranks}), *sorted({f.host for f in found if f.host})),
        "devices": tuple(sorted({f.key for f in found if f.device})),
        "first_s": min(times, default=None),
        "last_s": max(times, default=None),
    }


def _near(time_s: float | None, moments: list[float | None]) -> bool:
    return time_s is not None and any(m is not None and abs(time_s - m) <= _AT_ONCE_S for m in moments)


def _shared(run: Run, found: list[Flap], hit: Hit) -> Hit | None:
    """The hit with what ports of several hosts that went down at once have in common; None where they did not."""
    hosts = sorted({f.host for f in found if f.host})
    firsts = [f.first_s for f in found if f.first_s is not None]
    if len(hosts) < 2 or len(firsts) < len(found) or max(firsts) - min(firsts) > _AT_ONCE_S:
        return None
    devices = sorted({f.device for f in found if f.device})
    known = sorted(run.table("processes")["host"].drop_nulls().unique())
    rest = len(set(known) - set(hosts))
    span = max(firsts) - min(firsts)
    words = {"found": found, "hosts": hosts, "apart": span >= 0.05, "span": span, "devices": devices, "rest": rest}
    return replace(hit, says_more=True, **said("ib-port-error.shared", words | {"rail": len(devices) == 1}))


def _came_back(ctx: Context) -> Hits:
    """Ports that came back in a log that ends with it: whether the job survived is not known."""
    for flap in flaps(ctx.run)[:3]:
        if flap.went_on or failed_after(ctx.run, flap):
            continue
        yield ctx.says("came-back", tuple(Ref(i, n) for i, n in flap.lines[:3]), **_where([flap]), flap=flap)

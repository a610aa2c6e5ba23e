"""Settings for experiments are left in force.

What it finds
-------------
NCCL_ALGO, NCCL_PROTO, minimum and maximum numbers of channels or CTAs, buffer and chunk sizes, and their kin.

Why it matters
--------------
NCCL chooses these for each collective, size and machine. Values that won on one machine, size or release often
lose on the next, and hide later improvements.

How it decides
--------------
The settings that NCCL reports are compared with the list of tuning variables. Excluding one algorithm or
protocol (``^LL128``) is the documented workaround for a bug and is not reported.

What to do
----------
Measure without them; keep only what wins, and note why.

False positives
---------------
Benchmarks, and cloud plugins whose vendors prescribe such values (these are recognized and left alone).

References
----------
NCCL user guide: environment variables (debugging section), performance and tuning.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.user_settings import user_settings
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.settings.check import check_pinned
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("env",)
SPEAKS = True
SOURCES = ("NCCL user guide: environment variables, performance and tuning",)
_SHOWN = 5


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all of them."""
    chosen = user_settings(run)
    pinned = {issue.variable for issue in check_pinned({s.name: s.value for s in chosen})}
    found = [s for s in chosen if s.name in pinned]
    if not found:
        return
    shown = ", ".join(f"{s.name}={s.value[:40]}" for s in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    names = " ".join(dict.fromkeys(s.name for s in found))
    yield Hit(
        title=f"{plural(len(pinned), 'tuning setting')} pinned by the environment: {shown}{more}",
        next_step=f"Measure without: unset {names}",
        explanation="NCCL makes these choices for each collective, size and topology; fixed values take that away.",
        observed=shown + more,
        hosts=tuple(sorted({host for s in found for host in s.hosts})),
        evidence=tuple(dict.fromkeys(ref for s in found for ref in s.evidence[:1]))[:4],
    )

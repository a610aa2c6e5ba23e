"""The algorithm or protocol chosen is unusual for the size.

What it finds
-------------
Collectives above 16 MiB (and 256 KiB per rank) that use the latency protocol LL, or a single channel, or collectives
below 4 KiB that use Simple, in the tuner's own lines.

Why it matters
--------------
LL sends four bytes of flag for four bytes of data: half of the bandwidth. Simple needs several microseconds
more on small messages.

How it decides
--------------
The lines "AllReduce: N Bytes -> Algo X proto Y channel{Lo..Hi}". When NCCL_ALGO, NCCL_PROTO or channel limits are
set, the setting is named as the cause and it is reported as a note.

What to do
----------
Remove the setting, or update the tuner plugin, and compare with all_reduce_perf at that size.

False positives
---------------
Simple is NCCL's only protocol for some algorithms (NVLS, CollNet, PAT) and on some links; these are left out.

References
----------
NCCL user guide, NCCL_ALGO and NCCL_PROTO; NCCL source graph/tuning.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.choices import LATENCY_PROTOCOL, ONE_CHANNEL, SIMPLE_PROTOCOL, Chosen, choices
from nccl_insight.facts.settings import refs, settings
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, plural

CLASS = "P"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("tuning_choice",)
SOURCES = ("NCCL user guide: NCCL_ALGO, NCCL_PROTO",)
_PINS = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_TUNER_PLUGIN",
)


# Kinds of choices: what is unusual, and what would be usual.
_CASES = (
    (LATENCY_PROTOCOL, "the latency protocol LL", "LL128 or Simple"),
    (ONE_CHANNEL, "a single channel", "all channels"),
    (SIMPLE_PROTOCOL, "protocol Simple", "LL or LL128"),
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for each kind of surprise."""
    unusual = choices(run).unusual
    pins = settings(run).filter(pl.col("name").is_in(_PINS))
    for kind, what, usual in _CASES:
        if kind in unusual:
            yield _hit(unusual[kind], what, usual, pins)


def _hit(found: Chosen, what: str, usual: str, pins: pl.DataFrame) -> Hit:
    first = found.rows.row(0, named=True)
    forced = pins.select("name", "value").unique(maintain_order=True).rows()
    named = ", ".join(f"{n}={v}" for n, v in forced[:3])
    op = first["op"] or "collective"
    return Hit(
        title=f"{plural(found.count, 'collective')} with an unusual choice: "
        f"{op} of {format_bytes(first['size_bytes'])} uses {what} ({first['algorithm']})"
        + (f" because of {named}" if named else ""),
        explanation=f"{named} limits the choice." if named else "No setting explains it; a tuner plugin may.",
        observed=what,
        expected=usual,
        next_step=f"unset {forced[0][0]} and compare with nccl-tests at {format_bytes(first['size_bytes'])}"
        if forced
        else "run nccl-tests at this size with NCCL_DEBUG_SUBSYS=TUNING and compare protocols",
        severity=Severity.INFO,
        confidence=Confidence.HIGH if named else Confidence.LOW,
        comm_id=first["comm_id"],
        evidence=(*refs(found.rows, 2), *refs(pins, 1)),
    )

"""The algorithm or protocol chosen is unusual for the size."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.choices import LATENCY_PROTOCOL, ONE_CHANNEL, SIMPLE_PROTOCOL, Chosen, choices
from nccl_insight.facts.settings import refs, settings
from nccl_insight.model import CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules.context import Context
from nccl_insight.units import format_bytes, plural

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


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding for each kind of surprise."""
    run = ctx.run
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
        title=f"{op} of {format_bytes(first['size_bytes'])} uses {what} ({first['algorithm']})"
        + (f" because of {named}" if named else "")
        + (f", and {plural(found.count - 1, 'other')} alike" if found.count > 1 else ""),
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

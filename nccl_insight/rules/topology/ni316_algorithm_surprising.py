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

from nccl_insight.facts.choices import Chosen, first_of
from nccl_insight.facts.members import main_comm
from nccl_insight.facts.settings import refs, settings
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, plural

CLASS = "P"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("tuning_choice",)
SOURCES = ("NCCL user guide: NCCL_ALGO, NCCL_PROTO",)
_LARGE, _SMALL = 16 << 20, 4 << 10
_PER_RANK = (
    256 << 10
)  # what a rank sends in a step: of many ranks the pieces are small, and LL is right for them
_PINS = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_TUNER_PLUGIN",
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for each kind of surprise."""
    algo, proto = pl.col("algorithm").str.to_uppercase(), pl.col("protocol").str.to_uppercase()
    size, one_channel = pl.col("size_bytes"), pl.col("channels_lo") == pl.col("channels_hi")
    classic = algo.is_in(["RING", "TREE"])
    collective = ~pl.col("op").cast(pl.String).is_in(["Send", "Recv", "SendRecv"])
    ranks = main_comm(run)
    large = max(_LARGE, _PER_RANK * (ranks.nranks if ranks is not None else 1))
    pins = settings(run).filter(pl.col("name").is_in(_PINS))
    cases = (
        (
            classic & (size >= large) & (proto == "LL"),
            "the latency protocol LL",
            "LL128 or Simple",
        ),
        (classic & collective & (size >= _LARGE) & one_channel, "a single channel", "all channels"),
        (
            classic & (size <= _SMALL) & (size > 0) & (proto == "SIMPLE"),
            "protocol Simple",
            "LL or LL128",
        ),
    )
    usual_of = {what: usual for _, what, usual in cases}
    for what, found in first_of(run, {what: condition for condition, what, _ in cases}):
        yield _hit(found, what, usual_of[what], pins)


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

"""The algorithm or protocol chosen is unusual for the size."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.choices import LATENCY_PROTOCOL, ONE_CHANNEL, SIMPLE_PROTOCOL, Chosen, choices
from nccl_insight.facts.settings import refs, settings
from nccl_insight.model import CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules.context import Context
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, plural

_PINS = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_NTHREADS",
    "NCCL_TUNER_PLUGIN",
)


_LEAST_BYTES = 32 << 10
_TURN = 1.5

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
    yield from _turns(run)


def _turns(run: Run) -> Iterator[Hit]:
    """Sizes of a sweep from which on more bytes take far less time: below, a slow algorithm is kept too long.

    A single slow row is noise: the row before must be slow as well, the one behind fast, in place and out of place.
    """
    keys = ["input_id", "run", "op", "dtype", "nranks", "in_place"]
    before, after, later = (pl.col("time_us").shift(n).over(keys) for n in (1, -1, -2))
    turns = (
        run.table("benchmarks")
        .filter((pl.col("size_bytes") >= _LEAST_BYTES) & (pl.col("time_us") > 0))
        .with_columns(next_bytes=pl.col("size_bytes").shift(-1).over(keys), next_us=after)
        .filter(
            (pl.col("time_us") > _TURN * after)
            & (before > after)
            & (later < pl.col("time_us"))
            & (pl.col("next_bytes") > pl.col("size_bytes"))
            & (pl.col("next_bytes") <= 2 * pl.col("size_bytes"))
        )
    )
    for part in turns.partition_by(
        "input_id", "run", "op", "dtype", "nranks", "size_bytes", maintain_order=True
    ):
        row = part.row(0, named=True)
        ways = run.table("benchmarks").filter(pl.col("input_id") == row["input_id"])["in_place"].n_unique()
        if part.height < ways:
            continue
        size, more = format_bytes(row["size_bytes"]), format_bytes(row["next_bytes"])
        yield Hit(
            title=f"{row['op']} of {size} takes {row['time_us']:.0f} us, of {more} only {row['next_us']:.0f} us",
            explanation="NCCL picks algorithm and protocol for each size from a model of the machine. Where more bytes "
            "take less time, the model is wrong below that size; releases and tuner plugins differ in it.",
            observed=f"{row['time_us']:.0f} us",
            expected=f"at most {row['next_us']:.0f} us, what {more} take",
            unit="us",
            next_step="NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING <the same job>   # algorithm and protocol on both "
            "sides of the step; then compare with another NCCL release and with NCCL_PROTO=Simple",
            severity=Severity.WARNING,
            evidence=refs(part, 2),
        )


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

"""The algorithm or protocol chosen is unusual for the size."""

from typing import Any

import polars as pl

from nccl_insight.base.model import Hit, Ref
from nccl_insight.base.units import format_bytes, format_ns, plural
from nccl_insight.facts.setup.choices import LATENCY_PROTOCOL, ONE_CHANNEL, SIMPLE_PROTOCOL, choices
from nccl_insight.facts.setup.settings import refs, settings
from nccl_insight.rules.context import Context, Hits

_PINS = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_NTHREADS", "NCCL_TUNER_PLUGIN")


_RUN = ("input_id", "run", "op", "nranks", "dtype")

# Kinds of choices: what is unusual, and what would be usual.
_CASES = (
    (LATENCY_PROTOCOL, "the latency protocol LL", "LL128 or Simple"),
    (ONE_CHANNEL, "a single channel", "all channels"),
    (SIMPLE_PROTOCOL, "protocol Simple", "LL or LL128"),
)


def check(ctx: Context) -> Hits:
    """One finding for each kind of surprise, and one per sweep of nccl-tests in which more bytes take less time: its
    deepest dip."""
    unusual = choices(ctx.run).unusual
    pins = settings(ctx.run).filter(pl.col("name").is_in(_PINS))
    for kind, what, usual in _CASES:
        if kind in unusual:
            found = unusual[kind]
            first = found.rows.row(0, named=True)
            forced = pins.select("name", "value").unique(maintain_order=True).rows()
            op = first["op"] or "collective"
            yield ctx.says(
                "found",
                (*refs(found.rows, 2), *refs(pins, 1)),
                expected=usual,
                comm_id=first["comm_id"],
                op=op,
                first=first,
                what=what,
                named=", ".join(f"{n}={v}" for n, v in forced[:3]),
                count=f", and {plural(found.count - 1, 'other')} alike" if found.count > 1 else "",
                forced=forced,
            )
    rows = ctx.run.table("benchmarks").filter((pl.col("size_bytes") > 0) & (pl.col("time_us") >= ctx["least_us"]))
    if rows.is_empty():
        return
    # Measured twice: the slower of a larger size still beats the faster of a smaller one.
    sizes = rows.group_by(*_RUN, "size_bytes").agg(
        pl.col("time_us").min().alias("best_us"),
        pl.col("time_us").max().alias("worst_us"),
        pl.len(),
        pl.col("line").min(),
    )
    sizes = sizes.filter(pl.col("len") > 1).sort("size_bytes")
    for sweep in sizes.partition_by(_RUN, maintain_order=True):
        later = sweep["worst_us"].reverse().cum_min().reverse().shift(-1)
        dips = sweep.with_columns(_later=later).filter(pl.col("best_us") > ctx["ratio"] * pl.col("_later"))
        if dips.height:
            yield _dip(
                ctx,
                sweep,
                dips.sort(pl.col("best_us") / pl.col("_later")).row(-1, named=True),
                dips["size_bytes"].to_list(),
            )


def _dip(ctx: Context, sweep: pl.DataFrame, worst: dict[str, Any], slow: list[int]) -> Hit:
    faster = sweep.filter((pl.col("size_bytes") > worst["size_bytes"]) & (pl.col("worst_us") == worst["_later"]))
    other = faster.row(0, named=True)
    small, large = format_bytes(worst["size_bytes"]), format_bytes(other["size_bytes"])
    where = small if len(slow) == 1 else f"{format_bytes(slow[0])} to {format_bytes(slow[-1])}"
    op = worst["op"] or "A collective"
    return ctx.says(
        "dip",
        (Ref(int(worst["input_id"]), int(worst["line"] or 0)), Ref(int(worst["input_id"]), int(other["line"] or 0))),
        op=op,
        where=where,
        small=small,
        times=f"{format_ns(worst['best_us'] * 1e3)}, {large} only {format_ns(other['worst_us'] * 1e3)}",
        factor=worst["best_us"] / other["worst_us"],
        large=large,
    )

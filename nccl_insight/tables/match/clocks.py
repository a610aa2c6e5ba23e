"""Whether the clocks of ranks can be compared."""

from typing import Final

import polars as pl

_CLOCK_SLACK_NS: Final = 100_000
_EXPLAINED: Final = 0.5


def clocks_of(members: pl.DataFrame) -> pl.DataFrame:
    """Per rank: how far its ends lie from the others' ends, and whether its clock can be compared.

    Members of a synchronising collective end together, so a constant offset of the ends is one of the clocks. Clocks of
    one host are taken for equal, unless ends are offset and durations do not tell why: GPUs whose time the profiler
    translated wrongly.
    """
    ends = members.with_columns(
        offset=pl.col("end_ns") - pl.col("end_ns").median().over("match_id"),
        longer=pl.col("duration_ns") - pl.col("duration_ns").median().over("match_id"),
    )
    table = ends.group_by("rank").agg(
        host=pl.col("host").first(),
        offset_ns=pl.col("offset").median().cast(pl.Int64),
        typical=pl.col("duration_ns").median(),
        longer=pl.col("longer").median(),
    )
    hosts = table["host"].drop_nulls().n_unique()
    known = table["host"].null_count() == 0
    offset = pl.col("offset_ns")
    near = offset.abs() <= pl.max_horizontal(pl.lit(_CLOCK_SLACK_NS), 0.2 * pl.col("typical"))
    if known:
        near |= pl.col("longer") * offset.sign() >= _EXPLAINED * offset.abs()
    return table.with_columns(comparable=near & pl.lit(hosts <= 1)).drop("typical", "longer").sort("rank")


def clocks_text(clocks: pl.DataFrame) -> str:
    """Why the clocks cannot be compared, for a note."""
    hosts = clocks["host"].drop_nulls().n_unique()
    if hosts > 1:
        return f"the traces come from {hosts} hosts, whose clocks are not proven equal: start skew is not judged"
    worst = clocks.sort(pl.col("offset_ns").abs(), descending=True).row(0, named=True)
    return (
        f"the ends of matched collectives differ by {abs(worst['offset_ns']) / 1e6:.3f} ms on rank {worst['rank']}: "
        "the traces have no common clock, start skew is not judged"
    )

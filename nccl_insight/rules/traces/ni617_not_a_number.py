"""The loss is not a number."""

import polars as pl

from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """At most one finding: where a counter's loss became NaN and stayed so, else where it was NaN in between."""
    series = ["input_id", "rank", "series"]
    lost = pl.col("not_a_number").fill_null(False)
    counted = ctx.run.table("progress").filter(pl.col("counter").is_not_null())
    counted = counted.with_columns(good=pl.col("line").filter(~lost).max().over(series).fill_null(0))
    bad = counted.filter(lost)
    stays = bad.filter(pl.col("line") > pl.col("good"))
    stays = stays.filter(pl.len().over(series) >= ctx["least"])
    rows = (bad if stays.is_empty() else stays).sort("input_id", "line")
    if rows.height:
        at = rows.row(0, named=True)
        unit = "step" if at["unit"] == "it" else at["unit"]
        if stays.is_empty():
            yield ctx.says("between", rows, unit=unit, count=at["counter"], again=at["line"] < at["good"])
        else:
            yield ctx.says("stays", rows, unit=unit, count=at["counter"], n=rows.height)

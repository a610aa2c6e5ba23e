"""Templates of records that no rule knows."""

from typing import Final

import polars as pl

from nccl_insight.readers.nccl_log.classify import template
from nccl_insight.tables.declared import frame

_MOST: Final = 5000
_SCHEMA: Final = frame("input_id u16, template str, level str, count u64, example str, line u64")


def templates(unknown: pl.DataFrame) -> pl.DataFrame:
    """Templates of unknown records with their number, level, first line and an example."""
    return (
        unknown.with_columns(template=template(pl.col("_body")))
        .group_by("input_id", "template", "_level", maintain_order=True)
        .agg(
            count=pl.len().cast(pl.UInt64),
            example=pl.col("_body").first().str.slice(0, 500),
            line=pl.col("_line").first(),
        )
        .rename({"_level": "level"})
        .select(list(_SCHEMA))
    )


def merge_templates(parts: list[pl.DataFrame], apart: bool = True, most: int | None = None) -> pl.DataFrame:
    """One row a template over several chunks, most frequent first; rare ones beyond ``most`` (None: the usual number)
    are summed up. ``apart``: the inputs are told apart."""
    by = ["input_id", "template", "level"] if apart else ["template", "level"]
    if not parts:
        return pl.DataFrame(schema=_SCHEMA)
    merged = (
        pl.concat(parts)
        .group_by(by, maintain_order=True)
        .agg(pl.all().exclude(*by, "count").first(), pl.col("count").sum())
        .select(list(_SCHEMA))
        .sort("count", "input_id", "line", descending=[True, False, False])
    )
    most = _MOST if most is None else most
    if merged.height <= most:
        return merged
    rest = merged[most:]
    said = {"template": pl.lit("(further templates)"), "level": pl.lit(None, pl.String)}
    other = rest.head(1).with_columns(**said, count=pl.lit(rest["count"].sum(), pl.UInt64))
    return pl.concat([merged[:most], other])

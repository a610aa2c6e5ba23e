"""What ranks printed last that no other rank printed in this form: the nearest to a reason that a silent rank gives."""

from collections.abc import Collection

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.loading.assemble.places import places
from nccl_insight.readers.embedded.endings import LAST, alike, tells
from nccl_insight.tables.run import Run

_MOST = 160


def last_said(run: Run, ranks: Collection[int]) -> tuple[tuple[int, Ref], ...]:
    """Each rank with its own last line, of ranks that have a file of their own beside those of others.

    Lines that count steps are no reason, and lines that differ in numbers and addresses alone are alike.
    """
    of_input = places(run).rank_of_input
    rows = run.table("endings").filter((pl.col("kind") == LAST) & tells(pl.col("text")))
    rows = rows.with_columns(
        rank=pl.col("input_id").cast(pl.Int64).replace_strict(of_input, default=None, return_dtype=pl.Int64),
        form=alike(pl.col("text")),
    ).drop_nulls("rank")
    if rows["rank"].n_unique() < 2:
        return ()
    alone = pl.col("rank").n_unique().over("form") == 1
    own = rows.filter(alone & pl.col("rank").is_in(list(ranks)))
    last = own.sort("rank", "input_id", "line").group_by("rank", maintain_order=True).last()
    told = last.select("rank", "input_id", "line", pl.col("text").str.strip_chars().str.slice(0, _MOST))
    return tuple((rank, Ref(input_id, line, text)) for rank, input_id, line, text in told.iter_rows())

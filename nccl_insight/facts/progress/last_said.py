"""What ranks printed last that no other rank printed in this form: the nearest to a reason that a silent rank gives."""

from collections.abc import Collection

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.facts.progress.watchdog import WHO
from nccl_insight.loading.assemble.places import places
from nccl_insight.readers.embedded.endings import LAST, OF_RANK, alike, rank_of, tells
from nccl_insight.tables.run import Run

_MOST = 160


def last_said(run: Run, ranks: Collection[int]) -> tuple[tuple[int, Ref], ...]:
    """Each rank with its own last line: of its file beside those of others, or the last that begins with its number.

    Lines that count steps are no reason, nor what stands behind the first line of the watchdog of this rank; lines
    that differ in numbers and addresses alone are alike.
    """
    of_input = places(run).rank_of_input
    text = pl.col("text")
    rows = run.table("endings").filter(tells(text))
    own = pl.col("input_id").cast(pl.Int64).replace_strict(of_input, default=None, return_dtype=pl.Int64)
    who = WHO.cast(pl.Int64).alias("rank")
    gave_up = run.table("watchdog").group_by("input_id", who).agg(gave_up=pl.col("line").min())
    found = {
        rank: Ref(input_id, line, said)
        for kind, rank_ in ((OF_RANK, rank_of(text)), (LAST, own))
        for rank, input_id, line, said in _alone(rows.filter(pl.col("kind") == kind), rank_, gave_up).iter_rows()
        if rank in ranks
    }
    return tuple(sorted(found.items()))


def _alone(rows: pl.DataFrame, rank: pl.Expr, gave_up: pl.DataFrame) -> pl.DataFrame:
    """The last line of each rank in a form that no other rank's has; none where only one rank has lines."""
    rows = rows.with_columns(rank=rank, form=alike(pl.col("text"))).drop_nulls("rank")
    rows = rows.join(gave_up, on=("input_id", "rank"), how="left").filter(
        (pl.col("line") < pl.col("gave_up")).fill_null(True)
    )
    rows = rows.filter((pl.col("rank").n_unique().over("form") == 1) & (pl.col("rank").n_unique() > 1))
    last = rows.sort("rank", "input_id", "line").group_by("rank", maintain_order=True).last()
    return last.select("rank", "input_id", "line", pl.col("text").str.strip_chars().str.slice(0, _MOST))

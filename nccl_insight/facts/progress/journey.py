"""How far ranks got, and whether what was written goes on behind them."""

from typing import Final

import polars as pl

from nccl_insight.loading.assemble.places import rank_in_job
from nccl_insight.tables.notes import CUT, LOG_CUT, TORN
from nccl_insight.tables.run import Run, fact

_OUTSIDE: Final = frozenset(
    {"inputs", "unknown", "notes", "endings", "progress", "unreadable", "milestones", "environment"}
)


@fact
def silent_ranks(run: Run) -> tuple[int, ...]:
    """Ranks of the job that say nothing more while others of a communicator got further.

    Where most members are behind, the log ends in the middle of the work: a few are ahead, and nobody is silent.
    """
    rows = run.table("milestones")
    quiet = pl.col("end").cast(pl.String) == "silent"
    few = 2 * quiet.sum().over("comm_id") <= pl.len().over("comm_id")
    found = rows.filter(quiet & few).select("comm_id", "rank").drop_nulls().unique()
    alone = rows["comm_id"].n_unique() == 1
    ranks = ((int(rank), rank_in_job(run, comm, int(rank))) for comm, rank in found.iter_rows())
    return tuple(sorted({rank if own is None else own for rank, own in ranks if own is not None or alone}))


@fact
def goes_on(run: Run) -> bool:
    """Whether the program's own output goes on after the last line of NCCL that was kept, in any input."""
    parts = [
        frame.group_by("input_id").agg(pl.col("line").max().cast(pl.Int64))
        for name in run.having("input_id", "line")
        if name not in _OUTSIDE
        for frame in run.pieces(name, "input_id", "line")
    ]
    if not parts:
        return False
    last = pl.concat(parts, how="vertical_relaxed").group_by("input_id").agg(pl.col("line").max())
    last = last.join(run.table("inputs").filter(pl.col("nccl_lines") > 0), on="input_id", how="semi")
    return last_of_input(run, last).height < last.height


def last_of_input(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows (``input_id``, ``line``) behind which no line of another program stands in their input."""
    own = run.table("inputs").select("input_id", pl.col("last_foreign_line").cast(pl.Int64).fill_null(0))
    later = own.join(rows.select("input_id", "line"), on="input_id").filter(
        pl.col("last_foreign_line") > pl.col("line").cast(pl.Int64)
    )
    return rows.join(later, on=["input_id", "line"], how="anti", maintain_order="left")


def damaged(run: Run) -> bool:
    """Whether the stream of an input breaks off, or its last line is torn."""
    notes = run.table("notes")
    if notes.is_empty():
        return False
    sizes = run.table("inputs").select("input_id", "lines")
    last = notes.join(sizes, on="input_id", how="left").filter(
        ((pl.col("kind") == TORN) & (pl.col("line") >= pl.col("lines")))
        | ((pl.col("kind") == LOG_CUT) & pl.col("detail").str.contains("damaged"))
        | (pl.col("kind") == CUT)
    )
    return last.height > 0

"""Which lines about an end are about this job's: others are left out, such as those of a script before it began."""

from typing import Final

import polars as pl

from nccl_insight.facts.said.topics import told
from nccl_insight.readers.embedded.endings import AT_THE_END, COURSE, LAST, TORN
from nccl_insight.tables.run import Run, fact

# A program that fails says so in its last words; blank lines and a launcher's summary may follow.
_LAST_LINES: Final = 5


def torn(run: Run) -> bool:
    """Whether the last line of an input is a head of NCCL that was not written to its end."""
    rows = _with_sizes(run).filter((pl.col("kind") == TORN) & (pl.col("line") >= pl.col("lines")))
    return rows.height > 0


def _with_sizes(run: Run) -> pl.DataFrame:
    sizes = run.table("inputs").select("input_id", pl.col("lines").cast(pl.Int64))
    rows = run.table("endings").with_columns(pl.col("line").cast(pl.Int64))
    return rows.join(sizes, on="input_id", how="left", maintain_order="left")


@fact
def endings(run: Run) -> pl.DataFrame:
    """Rows of ``endings`` that tell how processes of the job ended, with ``lines`` of their input, in reading order.

    Not those of a severe level in the middle of the output, those in front of the first line of NCCL of an input in
    which init went on to complete, and those after which every rank closed its communicators in order.
    """
    rows = _with_sizes(run)
    if rows.is_empty():
        return rows
    late = pl.col("line") > pl.col("lines").fill_null(0) - _LAST_LINES
    rows = rows.filter(~pl.col("kind").is_in([TORN, LAST, *COURSE]) & (~pl.col("kind").is_in(list(AT_THE_END)) | late))
    marks = run.table("milestones")
    if rows.is_empty() or marks.is_empty():
        return rows.sort("input_id", "line")
    whole = pl.col("init_completed").is_not_null()
    per_input = marks.group_by("input_id").agg(
        _first=pl.min_horizontal("launched", "init_started", "init_completed").min().cast(pl.Int64),
        _whole=whole.all(),
        _closed=pl.col("destroyed").min().cast(pl.Int64),
        _orderly=(pl.col("end").cast(pl.String) == "destroyed").all(),
    )
    rows = rows.join(per_input, on="input_id", how="left", maintain_order="left")
    before = (pl.col("_whole") & (pl.col("line") < pl.col("_first"))).fill_null(False)
    over = (pl.col("_whole") & pl.col("_orderly") & (pl.col("line") < pl.col("_closed"))).fill_null(False)
    swept = told(rows, "swept").is_not_null() & rows["_orderly"].fill_null(False)
    rows = rows.filter(~before & ~over & ~swept).sort("input_id", "line")
    return rows.drop("_first", "_whole", "_closed", "_orderly")

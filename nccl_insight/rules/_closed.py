"""Connections closed while NCCL was accepting them, and jobs that closed in order, told from peers that went away."""

from typing import Final

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.base.natures import names
from nccl_insight.facts.said.course import left_in_order
from nccl_insight.facts.said.errors import CONSEQUENCE, causes, present
from nccl_insight.facts.said.topics import told
from nccl_insight.tables.normalise.ends import GONE
from nccl_insight.tables.run import Run, fact

_FRAMES: Final = 4
_SCHEMA: Final = {"input_id": pl.UInt16, "line": pl.UInt64}


@fact
def accepting(run: Run) -> pl.DataFrame:
    """``input_id, line`` of closed connections whose trace goes through the code that accepts connections.

    Receiving goes through one or two functions of socket.cc before bootstrap.cc, accepting through at least three.
    No rows when the log holds a failure that ends ranks during start: then it is that rank that went away.
    """
    rows = causes(run).filter(pl.col("cause").is_in([GONE, CONSEQUENCE]))
    if rows.is_empty() or not (rows["cause"] == GONE).any() or present(run) & set(names("startup")):
        return pl.DataFrame(schema=_SCHEMA)
    process = ["input_id", "host", "pid", "tid"]
    marked = (
        rows.select(*process, "line", "cause", told(rows, "trail").alias("trail"))
        .with_columns(nth=(pl.col("cause") == GONE).cum_sum().over(process))
        .filter(pl.col("nth") > 0)
    )
    frame = (pl.col("trail") == "socket").fill_null(False)
    boot = (pl.col("trail") == "bootstrap").fill_null(False)
    before = boot.cast(pl.Int32).cum_sum() == 0
    return (
        marked.group_by(*process, "nth", maintain_order=True)
        .agg(pl.col("line").first(), frames=(frame & before).sum(), bootstrap=boot.any())
        .filter((pl.col("frames") >= _FRAMES) & pl.col("bootstrap"))
        .select("input_id", "line")
    )


def behind_the_close(run: Run, ref: Ref) -> int:
    """How far a line stands behind the last communicator that its input closes; 0 where the job did not close in order.

    Negative in front of it.
    """
    closed = run.table("milestones").filter(pl.col("input_id") == ref.input_id)["destroyed"].drop_nulls()
    return ref.line - max(closed, default=ref.line) if left_in_order(run) else 0

"""Where the ranks of a communicator sit in the largest one: consecutive, at a stride, or anyhow."""

from collections.abc import Mapping
from itertools import pairwise

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run, fact


@dataclass(frozen=True)
class Layout:
    """``kind``: ``world``, ``block`` (consecutive, aligned), ``stride`` (``step`` apart), ``single`` or ``other``."""

    kind: str
    step: int = 0


@fact
def world_ranks(run: Run) -> Mapping[tuple[str, int], tuple[int, ...]]:
    """(comm_id, nranks) -> its members as sorted ranks of the largest communicator, matched by process and GPU.

    Some releases give splits of different sizes one commId, so the size is part of the key.
    """
    ranks = run.table("ranks").drop_nulls(["comm_id", "rank", "nranks"])
    if ranks.is_empty():
        return {}
    biggest = ranks.sort("nranks", descending=True, maintain_order=True).get_column("comm_id")[0]
    key = ["host", "pid", "cuda_dev"]
    world = ranks.filter(pl.col("comm_id") == biggest).select(*key, pl.col("rank").alias("place")).unique(key)
    joined = ranks.join(world, on=key, how="inner", nulls_equal=True, maintain_order="left")
    grouped = joined.group_by("comm_id", "nranks", maintain_order=True).agg(pl.col("place").unique().sort())
    return {(name, int(nranks)): tuple(found) for name, nranks, found in grouped.iter_rows()}


def layout(found: tuple[int, ...], nranks: int, world: int) -> Layout:
    """How ``nranks`` members at these places of a world of ``world`` ranks are laid out."""
    if nranks >= world:
        return Layout("world")
    if nranks == 1:
        return Layout("single")
    if len(found) != nranks:
        return Layout("other")
    steps = {b - a for a, b in pairwise(found)}
    if len(steps) != 1:
        return Layout("other")
    step = next(iter(steps))
    if step == 1:
        return Layout("block" if found[0] % nranks == 0 and world % nranks == 0 else "other")
    return Layout("stride", step)

"""What the groups of a job look like: how many ranks on how many nodes, contiguous or strided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from nccl_insight.run import Run


@dataclass(frozen=True)
class Shape:
    """Groups of one kind. ``split`` is how nccl-tests forms them (``DIV 4``, ``MOD 8``), empty for one group."""

    nranks: int
    nodes: int | None
    groups: int
    world: int
    world_nodes: int | None
    split: str = ""


def shapes(run: Run, calls: pl.DataFrame) -> Mapping[str, tuple[int, Shape]]:
    """Group name -> (index, shape); groups of the same shape have the same index.

    A group is a communicator of one size: some releases give splits of different sizes one commId.
    """
    seen = calls.group_by("group", maintain_order=True).agg(
        pl.col("name").first(), pl.col("nranks").max(), pl.col("rank").n_unique()
    )
    described = {row["comm_id"]: row for row in run.table("communicators").iter_rows(named=True)}
    places = _places(run)
    largest = max(described.values(), key=lambda row: row["nranks"] or 0, default=None)
    world = int(largest["nranks"] or 0) if largest else 0
    world_nodes = _nodes(largest) if largest else None
    kinds: dict[tuple[int, int | None, str], list[str]] = {}
    for row in seen.iter_rows(named=True):
        about = described.get(row["name"])
        nranks = int(row["nranks"] or (about["nranks"] if about else None) or row["rank"] or 1)
        split = _split(places.get((row["name"], nranks), ()), nranks, world)
        kinds.setdefault((nranks, _nodes(about) if about else None, split), []).append(row["group"])
    out: dict[str, tuple[int, Shape]] = {}
    for index, ((nranks, nodes, split), names) in enumerate(kinds.items()):
        shape = Shape(nranks, nodes, len(names), max(world, nranks), world_nodes or nodes, split)
        out.update(dict.fromkeys(names, (index, shape)))
    return out


def _nodes(row: Mapping[str, object]) -> int | None:
    hosts = row.get("hosts")
    if isinstance(hosts, list) and hosts:
        return len(hosts)
    nodes = row.get("n_nodes")
    return nodes if isinstance(nodes, int) else None


def _places(run: Run) -> Mapping[tuple[str, int], tuple[int, ...]]:
    """The ranks of each communicator (and size) as ranks of the largest one, by process."""
    ranks = run.table("ranks").drop_nulls(["comm_id", "rank"])
    if ranks.is_empty():
        return {}
    biggest = ranks.sort("nranks", descending=True, nulls_last=True, maintain_order=True).get_column(
        "comm_id"
    )[0]
    key = ["host", "pid", "cuda_dev"]
    world = ranks.filter(pl.col("comm_id") == biggest).select(*key, pl.col("rank").alias("place")).unique(key)
    joined = ranks.join(world, on=key, how="inner", nulls_equal=True, maintain_order="left")
    grouped = joined.group_by("comm_id", "nranks", maintain_order=True).agg(pl.col("place").unique().sort())
    return {(name, nranks): tuple(places) for name, nranks, places in grouped.iter_rows()}


def _split(places: tuple[int, ...], nranks: int, world: int) -> str:
    if world <= nranks or len(places) != nranks or nranks < 1:
        return ""
    steps = {b - a for a, b in pairwise(places)}
    if steps in ({1}, set()) and world % nranks == 0 and places[0] % nranks == 0:
        return f"DIV {nranks}" if nranks > 1 else ""
    stride = next(iter(steps)) if len(steps) == 1 else 0
    if stride and world == stride * nranks and places[0] < stride:
        return f"MOD {stride}"
    return ""

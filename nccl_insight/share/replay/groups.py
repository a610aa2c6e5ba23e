"""What the groups of a job look like: how many ranks on how many nodes, contiguous or strided."""

from collections.abc import Mapping

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.facts.who.placement import layout, world_ranks
from nccl_insight.tables.run import Run


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
    where = world_ranks(run)
    largest = max(described.values(), key=lambda row: row["nranks"] or 0, default=None)
    world = int(largest["nranks"] or 0) if largest else 0
    world_nodes = _nodes(largest) if largest else None
    kinds: dict[tuple[int, int | None, str], list[str]] = {}
    for row in seen.iter_rows(named=True):
        about = described.get(row["name"])
        nranks = int(row["nranks"] or (about["nranks"] if about else None) or row["rank"] or 1)
        split = _split(where.get((row["name"], nranks), ()), nranks, world)
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


def _split(found: tuple[int, ...], nranks: int, world: int) -> str:
    how = layout(found, nranks, world)
    if how.kind == "block":
        return f"DIV {nranks}"
    if how.kind == "stride" and world == how.step * nranks and found[0] < how.step:
        return f"MOD {how.step}"
    return ""

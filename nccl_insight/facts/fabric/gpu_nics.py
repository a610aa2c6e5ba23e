"""How far each NIC is from each GPU of a node, in the words of NCCL and nvidia-smi: PIX, PXB, PHB, SYS."""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.tables.run import Run, fact

#: From near to far (NCCL's ``graph/topo.h``, ``nvidia-smi topo -m``).
DISTANCES: Final = ("PIX", "PXB", "PXN", "PHB", "NODE", "SYS")
_NUMBER = late.compiled(r"(?<![0-9])[0-9]+$")


@dataclass(frozen=True)
class Gpu:
    """A GPU in a topology: its number on the node, bus id, PCIe switch next to it and socket, as far as listed."""

    index: int
    node: str
    bus_id: str
    switch: str | None
    socket: str | None


@dataclass(frozen=True)
class Nic:
    """A NIC in a topology: its number, name, speed, PCIe switch next to it and socket, as far as listed."""

    index: int
    node: str
    name: str
    speed_gbit: int | None
    switch: str | None
    socket: str | None


@dataclass(frozen=True)
class Topology:
    """What a topology dump or ``nvidia-smi topo -m`` says about the inside of a node.

    ``distance``: kind of path by number of GPU and number of NIC. ``nvlinks``: links of each GPU, 0 where none are
    listed. ``switched``: NVLink goes to NVSwitches.
    """

    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]
    distance: Mapping[tuple[int, int], str]
    nvlinks: Mapping[int, int]
    nvlink_gbps: Mapping[int, float]
    switched: bool


@fact
def topology(run: Run) -> Topology | None:
    """The inside of the first node that the inputs describe, None where none does."""
    nodes, links = run.table("topology_nodes"), run.table("topology_links")
    gpus = nodes.filter(pl.col("kind").cast(pl.String) == "GPU")
    if gpus.is_empty():
        return None
    first = gpus.row(0, named=True)
    nodes, links = (
        f.filter(
            pl.col("input_id").eq_missing(pl.lit(first["input_id"], pl.UInt16))
            & pl.col("host").eq_missing(pl.lit(first["host"], pl.String))
        )
        for f in (nodes, links)
    )
    if first["section"] is None:
        return _of_tree(nodes, links)
    return _of_matrix(*(f.filter(pl.col("section") == first["section"]) for f in (nodes, links)))


def _of_matrix(nodes: pl.DataFrame, links: pl.DataFrame) -> Topology:
    """``nvidia-smi topo -m``: the path of each pair is printed."""
    kinds = {str(n): str(k) for n, k in nodes.select("node", "kind").iter_rows()}
    sockets = {str(n): None if s is None else str(s) for n, s in nodes.select("node", "numa").iter_rows()}
    gpus = [Gpu(_number(n), n, "", None, sockets[n]) for n, k in kinds.items() if k == "GPU"]
    nics = [Nic(_number(n), n, n, None, None, sockets[n]) for n, k in kinds.items() if k in ("NIC", "NET")]
    distance: dict[tuple[int, int], str] = {}
    nvlinks = {g.index: 0 for g in gpus}
    for row in links.select("src", "dst", "path", "count").iter_rows(named=True):
        here, there = kinds.get(row["src"], ""), kinds.get(row["dst"], "")
        if here == "GPU" and there in ("NIC", "NET") and row["path"] in DISTANCES:
            distance[_number(row["src"]), _number(row["dst"])] = row["path"]
        elif here == there == "GPU" and row["count"]:
            nvlinks[_number(row["src"])] = max(nvlinks.get(_number(row["src"]), 0), int(row["count"]))
    return Topology(tuple(gpus), tuple(nics), distance, nvlinks, {}, False)


def _of_tree(nodes: pl.DataFrame, links: pl.DataFrame) -> Topology:
    """A topology dump: the path is found from where the ways to the CPU meet."""
    kind = pl.col("link").cast(pl.String)
    parent = dict(links.filter(kind.is_in(["PCI", "NET"])).unique("dst", keep="first").select("dst", "src").iter_rows())
    nvlinks = links.filter((kind == "NVL") & pl.col("src").str.starts_with("GPU")).group_by("src", maintain_order=True)
    count, rate = pl.col("count").cast(pl.Int64).fill_null(0).replace(0, 1), pl.col("bw_gbps").cast(pl.Float64)
    told = nvlinks.agg(count.sum(), rate.sum(), pl.col("dst").str.starts_with("NVS").any())
    known = nodes.filter(pl.col("kind").cast(pl.String).is_in(["GPU", "NET"])).drop_nulls("index")
    ways = {name: _way(name, parent) for name in known["node"]}
    gpus, nics = [], []
    for row in known.sort("index", maintain_order=True).iter_rows(named=True):
        name = row["node"]
        switch, socket = (next((n for n in ways[name] if n.startswith(kind)), None) for kind in ("PCI", "CPU"))
        if str(row["kind"]) == "GPU":
            gpus.append(Gpu(int(row["index"]), name, str(row["bus_id"] or ""), switch, socket))
        else:
            label = str(row["device"] or name)
            nics.append(Nic(int(row["index"]), name, label, row["speed_gbit"] or None, switch, socket))
    distance = {(g.index, n.index): far for g in gpus for n in nics if (far := _meet(ways[g.node], ways[n.node]))}
    numbers = {g.node: g.index for g in gpus}
    rows = [(numbers[name], *figures) for name, *figures in told.iter_rows() if name in numbers]
    return Topology(
        tuple(gpus),
        tuple(nics),
        distance,
        {n: c for n, c, *_ in rows},
        {n: r for n, _, r, _ in rows},
        bool(told["dst"].any()),
    )


def _way(node: str, parent: Mapping[str, str]) -> list[str]:
    """What stands above a device on its way to the CPU, the nearest first, without GPUs and NICs."""
    found = [node]
    while (above := parent.get(found[-1])) is not None and above not in found:
        found.append(above)
    return [n for n in found if not n.startswith(("GPU", "NET", "NIC"))]


def _meet(one: list[str], other: list[str]) -> str | None:
    """The kind of path between two devices by the first bridge above both."""
    common = next((n for n in one if n in other), None)
    if common is None:
        return "SYS" if one and other else None
    if common.startswith("CPU"):
        return "PHB"
    return "PIX" if one.index(common) == other.index(common) == 0 else "PXB"


def _number(name: str) -> int:
    found = _NUMBER.search(name)
    return int(found[0]) if found else 0

"""The topology that NCCL writes with NCCL_TOPO_DUMP_FILE (or reads with NCCL_TOPO_FILE).

Nodes are named as in NCCL's own dump (``GPU/0-4e000``: system, then bus id). Bandwidths of links are those of
NCCL's model: PCI width x speed as NCCL rates it, NVLinks x the per-link figure of the GPU generation.
"""

import re

import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.readers.xml import Element, begins_with, parse
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import of_input, of_rows

_ROOT = re.compile(rb"<system[\s>]")
# NCCL graph/topo.cc kvDictPciGen (in 100 MB/s per lane) and graph/topo.h *_NVLINK_BW (GB/s per link)
_GENERATIONS = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
_PCI = {f"{gt}{zero} GT/s PCIe": speed for gt, speed in _GENERATIONS.items() for zero in ("", ".0")[: 2 - ("." in gt)]}
_NVLINK = ((60, 18.0), (70, 20.0), (80, 20.0), (86, 12.0), (87, 20.0), (90, 20.6), (100, 40.1))


def sniff(head: bytes, name: str) -> float:
    """0.95 for a ``<system>`` document."""
    return 0.95 if begins_with(head, _ROOT) else 0.0


def read(source: InputFile) -> Partial:
    """Tables ``topology_nodes`` and ``topology_links``."""
    content = _side.read_content(source)
    root, problem = parse(content.data, source.limits)
    walker = _Walker()
    if root is not None and root.name == "system":
        for child in root.children:
            walker.visit(child, None, None, "")
        walker.name_targets()
    tables = {
        "topology_nodes": of_rows(walker.nodes, of_input("topology_nodes")),
        # One row per pair: NCCL adds up the NVLinks of a GPU to the same target.
        "topology_links": (
            of_rows(walker.links, of_input("topology_links"))
            .group_by("src", "dst", "link", maintain_order=True)
            .agg(
                pl.col("line").first(),
                pl.when(pl.col("bw_gbps").is_not_null().any()).then(pl.col("bw_gbps").sum()).alias("bw_gbps"),
                pl.when(pl.col("count").is_not_null().any()).then(pl.col("count").sum()).alias("count"),
            )
        ),
    }
    return _side.partial(source, tables, content.problem, problem)


def _bus_number(bus_id: str) -> str:
    """NCCL's short form of a PCI address: ``0000:4e:00.0`` -> ``4e000``."""
    digits = re.sub(r"[^0-9a-fA-F]", "", bus_id)[:16]
    return f"{int(digits, 16):x}" if digits else "?"


class _Walker:
    """Turns the tree into rows; a PCI element that holds a GPU or NIC is that device."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, object]] = []
        self.links: list[dict[str, object]] = []
        self._names: dict[str, str] = {}
        self._targets: list[tuple[dict[str, object], str, str]] = []

    def visit(self, element: Element, parent: str | None, numa: int | None, host_hash: str) -> None:
        """Adds the rows of an element and of what is below it."""
        if element.name == "cpu":
            numa = _side.as_int(element.get("numaid"), -1, 2**31 - 1)
            host_hash = element.get("host_hash")
            name = f"CPU/0-{element.get('numaid') or '?'}"
            self._node(element, name, "CPU", index=numa, numa=numa, host_hash=host_hash or None)
        elif element.name == "pci":
            name = self._pci(element, parent, numa, host_hash)
        elif element.name == "nic":
            name = parent or "NIC/0-0"
        elif element.name == "net":
            name = f"NET/{element.get('dev') or '?'}"
            self._net(element, name, parent, numa)
            return
        else:
            return
        for child in element.children:
            self.visit(child, name, numa, host_hash)

    def _node(self, element: Element, name: str, kind: str, **columns: object) -> None:
        self.nodes.append({"line": element.line, "node": name, "kind": kind, **columns})

    def _pci(self, element: Element, parent: str | None, numa: int | None, host_hash: str) -> str:
        bus_id = element.get("busid")
        gpu = next((c for c in element.children if c.name == "gpu"), None)
        is_nic = any(c.name == "nic" for c in element.children)
        kind = "GPU" if gpu else "NIC" if is_nic else "PCI"
        name = f"{kind}/0-{_bus_number(bus_id)}"
        self._names[bus_id.lower()] = name
        width = _side.as_int(element.get("link_width"), 0, 64)
        place = {"bus_id": bus_id, "numa": numa, "pci_speed": element.get("link_speed") or None, "pci_width": width}
        index, rank = (_side.as_int(gpu.get(key), 0, 2**31 - 1) if gpu else None for key in ("dev", "rank"))
        sm = _side.as_int(gpu.get("sm"), 0, 10_000) if gpu else None
        gdr = gpu.get("gdr") == "1" if gpu and gpu.get("gdr") else None
        self._node(element, name, kind, **place, host_hash=host_hash or None, index=index, rank=rank, sm=sm, gdr=gdr)
        if parent:
            rate = _PCI.get(element.get("link_speed"))
            self._link(element, parent, name, "PCI", rate * width / 80 if rate and width else None)
        for child in gpu.children if gpu else []:
            self._device_link(child, name, gpu)
        return name

    def _device_link(self, element: Element, name: str, gpu: Element | None) -> None:
        link = {"nvlink": "NVL", "c2c": "C2C", "xgmi": "XGMI"}.get(element.name)
        if link is None:
            return
        count = _side.as_int(element.get("count"), 0, 1024)
        sm = _side.as_int(gpu.get("sm"), 0, 10_000) if gpu else None
        per_link = next((bw for low, bw in reversed(_NVLINK) if sm and sm >= low), None)
        if link == "C2C":
            megabytes = _side.as_float(element.get("bw"))
            per_link = megabytes / 1000 if megabytes else None
        row = self._link(
            element, name, "", link, count * per_link if link != "XGMI" and count and per_link else None, count
        )
        self._targets.append((row, element.get("target").lower(), element.get("tclass")))

    def name_targets(self) -> None:
        """Names the far ends of NVLinks, which may stand later in the file: a GPU, a CPU or the NVSwitch."""
        for row, target, tclass in self._targets:
            other = self._names.get(target)
            if row["link"] == "C2C":
                row["dst"] = other or "CPU"
            elif other is not None and tclass.startswith("0x03"):
                row["dst"] = other
            elif tclass == "0x068001":
                row["dst"] = "CPU"
            else:
                row["dst"] = other or "NVS/0"
        if any(row["dst"] == "NVS/0" for row, _, _ in self._targets):
            self.nodes.append({"node": "NVS/0", "kind": "NVS"})

    def _net(self, element: Element, name: str, parent: str | None, numa: int | None) -> None:
        megabits = _side.as_int(element.get("speed"), 0, 2**31 - 1)
        index, port = (_side.as_int(element.get(key), 0, 2**31 - 1) for key in ("dev", "port"))
        device, speed = element.get("name") or None, megabits // 1000 if megabits else None
        gdr = element.get("gdr") == "1" if element.get("gdr") else None
        self._node(element, name, "NET", index=index, numa=numa, device=device, port=port, speed_gbit=speed, gdr=gdr)
        if parent:
            self._link(element, parent, name, "NET", megabits / 8000 if megabits else None)

    def _link(
        self, element: Element, src: str, dst: str, link: str, bw: float | None, count: int | None = None
    ) -> dict[str, object]:
        ends = {"line": element.line, "src": src, "dst": dst}
        row: dict[str, object] = {**ends, "link": link, "bw_gbps": bw, "count": count}
        self.links.append(row)
        return row


FORMAT = Format(kind="topo_xml", sniff=sniff, read=read)

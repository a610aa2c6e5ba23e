"""The channel search result that NCCL writes with NCCL_GRAPH_DUMP_FILE: graphs and their channels."""

import re

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format, side
from nccl_insight.readers.xml import Element, begins_with, parse
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import of_input, of_rows

_ROOT = re.compile(rb"<graphs[\s>]")
# graph ids as NCCL's init.cc numbers them
_ALGORITHMS = {"0": "Ring", "1": "Tree", "2": "CollNetChain", "3": "NVLS", "4": "CollNetDirect"}
_BY_PATTERN = {"5": "NVLS", "6": "CollNetDirect"}


def sniff(head: bytes, name: str) -> float:
    """0.95 for a ``<graphs>`` document."""
    return 0.95 if begins_with(head, _ROOT) else 0.0


def read(source: InputFile) -> Partial:
    """Tables ``graphs`` (the file does not name its communicator or rank) and ``graph_channels``."""
    content = side.read_content(source)
    root, problem = parse(content.data, source.limits)
    graphs: list[dict[str, object]] = []
    channels: list[dict[str, object]] = []
    for graph in root.children if root is not None and root.name == "graphs" else []:
        if graph.name == "graph":
            row = _graph(graph)
            graphs.append(row)
            for number, channel in enumerate(c for c in graph.children if c.name == "channel"):
                place = {"graph_id": row["graph_id"], "algorithm": row["algorithm"], "channel": number}
                for position, hop in enumerate(channel.children):
                    at = {"position": position, "kind": hop.name.upper()[:8], "dev": _number(hop.get("dev"))}
                    channels.append({"line": hop.line, **place, **at})
    tables = {
        "graphs": of_rows(graphs, of_input("graphs")),
        "graph_channels": of_rows(channels, of_input("graph_channels")),
    }
    return side.partial(source, tables, content.problem, problem)


def _graph(graph: Element) -> dict[str, object]:
    pattern, identity = graph.get("pattern"), graph.get("id")
    return {
        "line": graph.line,
        "graph_id": _number(identity, 2**31 - 1),
        "pattern": _number(pattern, 2**31 - 1),
        "algorithm": _BY_PATTERN.get(pattern) or _ALGORITHMS.get(identity),
        "cross_nic": _number(graph.get("crossnic"), 2**31 - 1),
        "n_channels": _number(graph.get("nchannels"), 2**31 - 1),
        "bw_intra_gbps": side.as_float(graph.get("speedintra")),
        "bw_inter_gbps": side.as_float(graph.get("speedinter")),
        "type_intra": graph.get("typeintra") or None,
        "type_inter": graph.get("typeinter") or None,
        "same_channels": _number(graph.get("samechannels"), 2**31 - 1),
    }


def _number(text: str, high: int = 2**63 - 1) -> int | None:
    """A decimal or 0x number, null when it is neither or too large (NET ids carry the host in high bits)."""
    if re.fullmatch(r"0x[0-9a-fA-F]{1,15}", text):
        return side.as_int(int(text, 16), 0, high)
    return side.as_int(text, -high, high)


FORMAT = Format(kind="graph_xml", sniff=sniff, read=read)

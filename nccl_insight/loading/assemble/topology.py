"""The system topology that NCCL_DEBUG_SUBSYS=GRAPH dumps: a tree drawn with indentation -> nodes and links.

Every rank prints its own view of its host; the first complete dump of each host is taken, further ones would repeat it.
"""

from typing import Final

import polars as pl

from nccl_insight.loading.assemble.base import column
from nccl_insight.tables.declared import frame

_KINDS: Final = ("GPU", "CPU", "PCI", "NVS", "NIC", "NET", "GIN")
_LINKS: Final = ("NVL", "PCI", "SYS", "NET", "C2C", "LOC", "XGMI")
_DUMP_MOST: Final = 4096
_COLUMNS: Final = frame("""input_id u16, _line u64, _host str, _pid i64, _pos u64, indent str, link str, bw_gbps f64,
    node str, node_id str, node_detail str""")
_NODES: Final = frame("input_id u16, line u64, host str, node str, kind str, index i32, bus_id str, rank i32, numa i32")
_EDGES: Final = frame("input_id u16, line u64, host str, src str, dst str, link str, bw_gbps f64")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < 10 else None


def _node_row(row: dict[str, object], name: str) -> dict[str, object]:
    kind = str(row["node"])
    detail = row["node_detail"] if isinstance(row["node_detail"], str) else None
    identity = str(row["node_id"]).rsplit("-", 1)[-1]
    return {
        "input_id": row["input_id"],
        "line": row["_line"],
        "host": row["_host"],
        "node": name,
        "kind": kind if kind in _KINDS else None,
        "index": _number(identity) if kind in {"CPU", "NVS", "NET"} else None,
        "bus_id": identity.lower() if kind in {"GPU", "PCI", "NIC"} else None,
        "rank": _number(detail) if kind == "GPU" else None,
        "numa": _number(identity) if kind == "CPU" else None,
    }


def _walk(rows: list[dict[str, object]]) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    nodes: dict[str, dict[str, object]] = {}
    links: list[dict[str, object]] = []
    above: list[tuple[int, str]] = []
    # 2.21 and later print the system's number in front of an id, but not everywhere: `CPU/0-1` is `CPU/1` in links.
    short = {
        f"{r['node']}/{str(r['node_id']).rsplit('-', 1)[-1]}": f"{r['node']}/{r['node_id']}"
        for r in rows
        if r["link"] is None
    }
    for row in rows:
        name = f"{row['node']}/{row['node_id']}"
        name = short.get(name, name)
        indent = len(str(row["indent"] or ""))
        if row["link"] is None:
            above = [(-1, name)]
        else:
            while above and above[-1][0] >= indent:
                above.pop()
            if above:
                link = row["link"] if row["link"] in _LINKS else None
                place = {"input_id": row["input_id"], "line": row["_line"], "host": row["_host"]}
                links.append({**place, "src": above[-1][1], "dst": name, "link": link, "bw_gbps": row["bw_gbps"]})
            above.append((indent, name))
        if name not in nodes or (row["link"] is None and nodes[name]["rank"] is None):
            nodes[name] = _node_row(row, name)
    return list(nodes.values()), links


def topology_tables(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """``topology_nodes`` and ``topology_links`` from the lines of the dumps."""
    frame = rows.select(column(rows, name, dtype) for name, dtype in _COLUMNS.items())
    first = frame.group_by("input_id", "_host", maintain_order=True).agg(pl.col("_pid").first())
    chosen = frame.join(first, on=["input_id", "_host", "_pid"], how="semi", nulls_equal=True)
    nodes: list[dict[str, object]] = []
    links: list[dict[str, object]] = []
    for _, dump in chosen.sort("_pos").group_by(["input_id", "_host"], maintain_order=True):
        lines = dump.head(_DUMP_MOST).to_dicts()
        roots = [i for i, r in enumerate(lines) if r["link"] is None]
        again = [
            i
            for i in roots[1:]
            if (lines[i]["node"], lines[i]["node_id"]) == (lines[roots[0]]["node"], lines[roots[0]]["node_id"])
        ]
        more_nodes, more_links = _walk(lines[: again[0]] if again else lines)
        nodes += more_nodes
        links += more_links
    return {"topology_nodes": pl.DataFrame(nodes, schema=_NODES), "topology_links": pl.DataFrame(links, schema=_EDGES)}

"""The system topology that NCCL_DEBUG_SUBSYS=GRAPH dumps: a tree drawn with indentation -> nodes and links."""

from __future__ import annotations

import polars as pl

from nccl_insight.loading.assemble.topology import topology_tables


def dump(*lines: tuple[str, str | None, str, str], host: str = "a", pid: int = 7, first: int = 1) -> pl.DataFrame:
    """Lines of (indentation, link, kind, id)."""
    return pl.DataFrame(
        {
            "input_id": [0] * len(lines), "_line": list(range(first, first + len(lines))), "_host": [host] * len(lines),
            "_pid": [pid] * len(lines), "_pos": list(range(first, first + len(lines))),
            "indent": [line[0] for line in lines],
            "link": [line[1] for line in lines], "bw_gbps": [24.0] * len(lines), "node": [line[2] for line in lines],
            "node_id": [line[3] for line in lines], "node_detail": [None] * len(lines),
        },
        schema_overrides={"input_id": pl.UInt16, "_line": pl.UInt64, "link": pl.String, "node_detail": pl.String},
    )  # fmt: skip


TREE = (
    ("", None, "CPU", "0-1"),
    ("+ ", "PCI", "GPU", "0-1B000"),
    ("              + ", "NVL", "NVS", "0-0"),
    ("+ ", "SYS", "CPU", "0"),
)


def test_indentation_tells_what_hangs_on_what() -> None:
    found = topology_tables(dump(*TREE))
    assert found["topology_nodes"].select("node", "kind", "index", "bus_id", "numa").rows()[:2] == [
        ("CPU/0-1", "CPU", 1, None, 1), ("GPU/0-1B000", "GPU", None, "1b000", None),
    ]  # fmt: skip
    assert found["topology_links"].select("src", "dst", "link", "bw_gbps").rows() == [
        ("CPU/0-1", "GPU/0-1B000", "PCI", 24.0), ("GPU/0-1B000", "NVS/0-0", "NVL", 24.0),
        ("CPU/0-1", "CPU/0", "SYS", 24.0),
    ]  # fmt: skip


def test_the_first_dump_of_each_host_is_taken() -> None:
    twice = pl.concat(
        [dump(*TREE), dump(*TREE, pid=8, first=20), dump(*TREE, first=40), dump(*TREE, host="b", first=60)]
    )
    links = topology_tables(twice)["topology_links"]
    assert links.group_by("host", maintain_order=True).len().rows() == [("a", 3), ("b", 3)]
    assert links["line"].max() == 63


def test_no_line_gives_no_node() -> None:
    found = topology_tables(dump(*TREE).clear())
    assert found["topology_nodes"].is_empty()
    assert found["topology_links"].is_empty()

"""How far each NIC is from each GPU of a node, in the words of NCCL and nvidia-smi."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.fabric.gpu_nics import topology
from nccl_insight.tables.run import build_run
from tests.drawings import drawn, figures


def _topology() -> dict[str, pl.DataFrame]:
    """Two sockets; on each a PCIe switch with a GPU and a NIC, and on the first another switch with a GPU."""
    nodes = [
        ("CPU/0", "CPU", 0),
        ("CPU/1", "CPU", 1),
        ("PCI/a", "PCI", None),
        ("PCI/b", "PCI", None),
        ("PCI/c", "PCI", None),
    ]
    nodes += [("GPU/0", "GPU", 0), ("GPU/1", "GPU", 1), ("GPU/2", "GPU", 2), ("NET/0", "NET", 0), ("NET/1", "NET", 1)]
    links = [("CPU/0", "PCI/a"), ("CPU/0", "PCI/b"), ("CPU/1", "PCI/c"), ("PCI/a", "GPU/0"), ("PCI/b", "GPU/1")]
    links += [("PCI/c", "GPU/2"), ("PCI/a", "NIC/0"), ("NIC/0", "NET/0"), ("PCI/c", "NIC/1"), ("NIC/1", "NET/1")]
    return {
        "topology_nodes": pl.DataFrame(nodes, schema=["node", "kind", "index"], orient="row"),
        "topology_links": pl.DataFrame(links, schema=["src", "dst"], orient="row").with_columns(
            link=pl.when(pl.col("dst").str.starts_with("NET")).then(pl.lit("NET")).otherwise(pl.lit("PCI"))
        ),
    }


def test_the_distance_of_gpu_and_nic_is_where_their_ways_to_the_cpu_meet() -> None:
    found = topology(build_run(_topology()))
    assert found is not None
    assert dict(found.distance) == {
        (0, 0): "PIX", (0, 1): "SYS", (1, 0): "PHB", (1, 1): "SYS", (2, 0): "SYS", (2, 1): "PIX",
    }  # fmt: skip
    figure = figures(build_run(_topology()))["nics"]
    assert sum(e.get("class") == "cell d-sys" for e in drawn(figure).iter("rect")) == 3 + 1  # and the legend
    assert "no connection is in the inputs" in figure.summary


def test_the_matrix_of_nvidia_smi_gives_distances_too() -> None:
    nodes = pl.DataFrame(
        {"node": ["GPU0", "NIC0", "NIC1"], "kind": ["GPU", "NIC", "NIC"], "index": [0, 0, 1], "section": [1, 1, 1]}
    )
    links = pl.DataFrame({"src": ["GPU0", "GPU0"], "dst": ["NIC0", "NIC1"], "path": ["PIX", "SYS"], "section": [1, 1]})
    found = topology(build_run({"topology_nodes": nodes, "topology_links": links}))
    assert found is not None
    assert dict(found.distance) == {(0, 0): "PIX", (0, 1): "SYS"}

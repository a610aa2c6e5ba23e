"""The channel search result that NCCL writes with NCCL_GRAPH_DUMP_FILE."""

from __future__ import annotations

import polars as pl

from nccl_insight.readers import graph_xml
from tests.readers.side_files import SHARED, needs_shared, tables


@needs_shared
def test_graphs_of_simulated_machines() -> None:
    found = tables(graph_xml.FORMAT, SHARED / "simulated/2.14.3-2node-8gpu-ib.graph.xml")
    ring = found["graphs"].row(0, named=True)
    assert (ring["algorithm"], ring["n_channels"], ring["bw_intra_gbps"], ring["type_inter"]) == (
        "Ring",
        8,
        24.0,
        "PXB",
    )
    first = found["graph_channels"].filter((pl.col("graph_id") == 0) & (pl.col("channel") == 0))
    assert first.select("kind", "dev").rows()[:3] == [("NET", 0), ("GPU", 0), ("GPU", 7)]

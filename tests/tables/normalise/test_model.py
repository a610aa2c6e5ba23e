"""Normalisers of NCCL's model of the machine."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.normalise.model import topo_paths, tuning_header, tuning_row


def test_paths_of_a_node() -> None:
    frame = pl.DataFrame(
        {
            "node": ["GPU", "NET"],
            "node_id": ["0-1a000", "3"],
            "paths": ["GPU/0-1a000 (0/5000.0/LOC) NVS/0-0 (1/360.0/NVL)", "GPU/1A000 (4/12.000000/PIX) CPU/0 (2/12"],
        }
    )
    assert topo_paths(frame).select("src", "dst", "hops", "bw_gbps", "path_type").rows() == [
        ("GPU/0-1a000", "GPU/0-1a000", 0, 5000.0, "LOC"),
        ("GPU/0-1a000", "NVS/0-0", 1, 360.0, "NVL"),
        ("NET/3", "GPU/1A000", 4, 12.0, "PIX"),
    ]


def test_tuning_table() -> None:
    head = tuning_header(pl.DataFrame({"model_columns": ["    Tree/    LL |    Ring/Simple |"]}))
    assert head["labels"].to_list() == [["Tree/LL", "Ring/Simple"]]
    assert head["n_cells"].to_list() == [2]
    cells = tuning_row(
        pl.DataFrame({"table_function": ["AllReduce"], "model_cells": ["     8.4/   8.0 |    14.0/   inf |"]})
    )
    assert cells["latency_us"].to_list() == [[8.4, 14.0]]
    assert cells["model_bw_gbps"].to_list() == [[8.0, float("inf")]]
    threads = tuning_row(pl.DataFrame({"model_threads": ["            512 |            640 |"]}))
    assert threads["max_threads"].to_list() == [[512, 640]]

"""NCCL's own cost model."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.advise.expect.tuning import PROTOCOLS, Graph, Job, best, costs, time_us
from tests.predictions import needs_reference, simulated


def test_published_constants_give_the_published_table() -> None:
    """Cells of a table that NCCL 2.27.7 printed: 4 nodes of 2 GPUs, 4 channels of 24 GB/s."""
    graphs = {"Ring": Graph(4, 24, 24, True, False), "Tree": Graph(4, 48, 24, True, False, plain_tree=True)}
    job = Job(8, 4, 90, "2.27.7")
    table = {(c.algorithm, c.protocol): c for c in costs("AllReduce", graphs, job)}
    printed = {
        ("Tree", "LL"): (28.0, 8.7),
        ("Tree", "LL128"): (50.5, 35.2),
        ("Tree", "Simple"): (72.4, 37.5),
        ("Ring", "LL"): (30.8, 11.7),
        ("Ring", "LL128"): (53.2, 50.5),
        ("Ring", "Simple"): (119.6, 54.9),
    }
    assert set(table) == set(printed)
    for key, (latency, bandwidth) in printed.items():
        assert table[key].latency_us == pytest.approx(latency, abs=0.06)
        assert table[key].bandwidth_gbps == pytest.approx(bandwidth, abs=0.06)
    small, large = best("AllReduce", graphs, job, 8), best("AllReduce", graphs, job, 1 << 30)
    assert small is not None
    assert (small[0].algorithm, small[0].protocol) == ("Tree", "LL")
    assert large is not None
    assert (large[0].algorithm, large[0].protocol) == ("Ring", "Simple")


def test_ring_latency_between_nodes_grows_for_large_messages() -> None:
    graphs = {"Ring": Graph(4, 24, 24, True)}
    job = Job(8, 4, 90, "2.27.7")
    simple = next(c for c in costs("AllReduce", graphs, job) if c.protocol == "Simple")
    tiny, plateau = time_us(simple, "AllReduce", 8, job, 4), time_us(simple, "AllReduce", 4 * 8 * 64, job, 4)
    assert plateau / tiny == pytest.approx(1.4, rel=0.01)


@needs_reference
@pytest.mark.parametrize("name", ["2.21.5-4node-2gpu-ib-verbose.log", "2.27.7-4node-2gpu-ib-verbose.log"])
def test_formulas_on_the_graph_give_the_table_of_the_log(name: str) -> None:
    run = simulated(name)
    rows = run.table("tuning_model").sort("line")
    graphs = {}
    for row in run.table("graphs").filter(pl.col("rank") == 0).iter_rows(named=True):
        key = {3: "Tree", 4: "Ring"}.get(row["pattern"])
        if key:
            graphs[key] = Graph(
                row["n_channels"],
                row["bw_intra_gbps"],
                row["bw_inter_gbps"],
                row["type_intra"] == "NVL",
                bool(row["same_channels"]),
                row["pattern"] == 3,
            )
    job = Job(8, 4, 90, name.partition("-")[0])
    compared = 0
    algorithms: list[str] = []
    for row in rows.iter_rows(named=True):
        if row["row"] == "algorithms":
            algorithms = row["labels"]
        if row["row"] != "function":
            continue
        mine = {(c.algorithm, c.protocol): c for c in costs(row["table_function"], graphs, job)}
        cells = zip(
            ((a, p) for a in algorithms for p in PROTOCOLS), row["latency_us"], row["model_bw_gbps"], strict=False
        )
        for key, latency, bandwidth in cells:
            if key in mine and bandwidth:
                compared += 1
                assert mine[key].latency_us == pytest.approx(latency, rel=0.05, abs=0.06), (row["table_function"], key)
                assert mine[key].bandwidth_gbps == pytest.approx(bandwidth, rel=0.05, abs=0.06)
    assert compared == 18


@needs_reference
def test_formulas_give_what_nccl_2_31_said() -> None:
    """Ring with LL on 8 GPUs of one node: bound by the most that LL carries, whatever the graph."""
    run = simulated("2.31.2-8gpu-tuning-best.log")
    rows = run.table("predicted").filter(
        pl.col("chosen") & (pl.col("algorithm") == "RING") & (pl.col("protocol") == "LL")
    )
    graphs = {"Ring": Graph(16, 40, 40, True, True)}
    job = Job(8, 1, 90, "2.31.2")
    compared = 0
    for op, size, ns in rows.select(pl.col("op").cast(pl.String), "size_bytes", "predicted_ns").unique().iter_rows():
        cost = next(c for c in costs(op, graphs, job) if c.protocol == "LL")
        assert time_us(cost, op, size, job, 16) == pytest.approx(ns / 1e3, rel=0.05), (op, size)
        compared += 1
    assert compared >= 5

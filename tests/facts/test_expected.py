"""NCCL's own prediction, the efficiency of measured collectives, and the finding about slow ones."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.advise.expect.tuning import PROTOCOLS, Graph, Job, best, costs, time_us
from nccl_insight.engine.measured import measured_sentences
from nccl_insight.facts.expected import GRAPH, HARDWARE, LOG, STATED, efficiency, predicted, predictions
from nccl_insight.report.figures.traces import bandwidth as bandwidth_figure
from nccl_insight.tables.run import Run, build_run
from nccl_insight.views.traces import bandwidth as bandwidth_view
from tests.checks import check
from tests.cli import run_cli

REFERENCE = os.environ.get("NCCL_INSIGHT_REFERENCE_DATA") or None
needs_reference = pytest.mark.skipif(REFERENCE is None, reason="NCCL_INSIGHT_REFERENCE_DATA names no reference data")


def simulated(name: str) -> Run:
    return nccl_insight.load(Path(str(REFERENCE)) / "simulated" / name)


def bench(gpu: str, busbw: float, n_hosts: int = 1, nranks: int = 8) -> Run:
    rows = pl.DataFrame(
        {
            "input_id": [0], "op": ["AllReduce"], "size_bytes": [1 << 30], "in_place": [False],
            "time_us": [(1 << 30) / busbw / 1e3 * 2 * (nranks - 1) / nranks], "busbw_gbps": [busbw],
            "nranks": [nranks], "n_hosts": [n_hosts], "gpu": [gpu], "line": [7], "wrong": [0],
        }
    )  # fmt: skip
    return build_run({"benchmarks": rows})


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
def test_the_log_comes_before_formulas() -> None:
    run = simulated("2.27.7-4node-2gpu-ib-verbose.log")
    band = predicted(run, "AllReduce", 1 << 20, 8)
    assert band is not None
    assert band.source == LOG
    # LL128 of the ring: 53.2 us and 50.5 GB/s.
    assert band.time_us == pytest.approx(53.2 + (1 << 20) / 50.5e3, rel=0.001)
    assert (band.algorithm, band.protocol) == ("Ring", "LL128")
    assert {p.source for p in predictions(run, ("AllReduce",), (8,))} == {LOG}
    assert predicted(run, "AllReduce", 1 << 20, 4) is None
    assert GRAPH != LOG


def test_what_nccl_says_for_a_call_comes_first() -> None:
    said = pl.DataFrame(
        {
            "comm_id": ["0x1"] * 3, "op": ["AllReduce"] * 3, "size_bytes": [1 << 20, 1 << 22, 1 << 30],
            "algorithm": ["RING", "NVLS", "NVLS"], "protocol": ["LL", "SIMPLE", "SIMPLE"],
            "predicted_ns": [20e3, 40e3, 4e6], "chosen": [True] * 3, "input_id": [0] * 3, "line": [1, 2, 3],
        }
    )  # fmt: skip
    comms = pl.DataFrame({"comm_id": ["0x1"], "nranks": [8], "n_nodes": [1], "input_id": [0], "line": [1]})
    run = build_run({"predicted": said, "communicators": comms})
    exact, between = predicted(run, "AllReduce", 1 << 20, 8), predicted(run, "AllReduce", 1 << 21, 8)
    assert exact is not None
    assert (exact.time_us, exact.algorithm, exact.source) == (20, "RING", STATED)
    assert exact.busbw_gbps == pytest.approx((1 << 20) / 20e3 * 1.75)
    assert between is not None
    assert between.time_us == pytest.approx(800**0.5)
    assert predicted(run, "AllReduce", 1 << 26, 8) is None
    assert [b.size_bytes for p in predictions(run, ("AllReduce", "Reduce"), (8,)) for b in p.bands] == [
        1 << 20,
        1 << 22,
        1 << 30,
    ]


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


def test_efficiency_by_the_hardware_table() -> None:
    row = efficiency(bench("NVIDIA A100-SXM4-40GB", 231)).row(0, named=True)
    assert row["expected_from"] == HARDWARE
    assert row["of_expected"] == pytest.approx(1, abs=0.05)
    assert row["expected_low_gbps"] < 231 < row["expected_high_gbps"]
    unknown = efficiency(bench("Mystery 9000", 231)).row(0, named=True)
    assert unknown["of_expected"] is None


def test_measured_sentences_say_how_much_of_the_expected() -> None:
    assert "of the expected" in measured_sentences(bench("NVIDIA A100-SXM4-40GB", 231))[0]
    assert "below" in measured_sentences(bench("NVIDIA A100-SXM4-40GB", 20))[0]
    assert "expected" not in measured_sentences(bench("Mystery 9000", 231))[0]


@pytest.mark.parametrize(
    ("gpu", "busbw", "hosts", "hits"),
    [
        ("NVIDIA A100-SXM4-40GB", 231, 1, 0), ("NVIDIA A100-SXM4-40GB", 20, 1, 1),
        ("NVIDIA H100 80GB HBM3", 360, 1, 0),
        ("NVIDIA H100 80GB HBM3", 45, 1, 1), ("NVIDIA GeForce RTX 4090", 14, 1, 0),
        ("NVIDIA GeForce RTX 4090", 1.5, 1, 1),
        ("AMD Instinct MI300X", 310, 1, 0), ("Tesla T4", 6, 1, 0),
    ],
)  # fmt: skip
def test_slow_benchmarks_are_found(gpu: str, busbw: float, hosts: int, hits: int) -> None:
    found = list(check("NI640", bench(gpu, busbw, hosts)))
    assert len(found) == hits
    for hit in found:
        assert hasattr(hit, "title")


def test_ranks_that_share_a_gpu_are_not_judged(tmp_path: Path) -> None:
    rank = "#  Rank  {0} Group  0 Pid 30{0} on   box device  {1} [0000:02:00] NVIDIA GeForce RTX 5090\n"
    table = (
        "# nThread 1 nGpus 1 minBytes 67108864 maxBytes 67108864 step: 4(factor) warmup iters: 1 iters: 1\n{0}"
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
        "     time   algbw   busbw  #wrong\n"
        "    67108864      16777216     float     sum      -1  28066.8    2.39    2.39       0"
        "  37664.5    1.78    1.78       0\n"
    )
    path = tmp_path / "all_reduce_perf.log"
    path.write_text(table.format(rank.format(0, 0) + rank.format(1, 0)))
    assert efficiency(nccl_insight.load(path))["expected_gbps"].null_count() == 2
    path.write_text(table.format(rank.format(0, 0) + rank.format(1, 1)))
    assert efficiency(nccl_insight.load(path))["expected_gbps"].null_count() == 0


def test_what_cannot_be_judged_is_said() -> None:
    for run in (bench("Mystery 9000", 5), bench("NVIDIA H100 80GB HBM3", 5, n_hosts=2, nranks=16)):
        (note,) = check("NI640", run)
        assert "not known" in note.reason


@needs_reference
def test_command_on_a_run() -> None:
    path = Path(str(REFERENCE)) / "simulated" / "2.27.7-4node-2gpu-ib-verbose.log"
    done = run_cli("expect", path, "--op", "AllReduce")
    assert done.returncode == 0
    assert "tuning table in the log" in done.stdout
    assert "LL128" in done.stdout
    assert run_cli("expect", path, "--gpu", "H100").returncode == 2


@needs_reference
def test_explain_log_says_what_the_model_takes_by_size() -> None:
    path = Path(str(REFERENCE)) / "simulated" / "2.27.7-4node-2gpu-ib-verbose.log"
    text = run_cli("explain-log", path).stdout
    assert "By NCCL's own cost model the fastest is:" in text
    # From the printed table: Tree/LL starts fastest, Ring/Simple has the most bandwidth.
    line = next(row for row in text.splitlines() if row.startswith("- AllReduce: Tree/LL up to"))
    assert line.endswith("Ring/Simple above")


def test_the_report_draws_measurements_in_the_band_of_what_is_expected() -> None:
    rows = pl.DataFrame(
        {
            "input_id": [0] * 3, "op": ["AllReduce"] * 3, "size_bytes": [1 << 20, 1 << 25, 1 << 30],
            "in_place": [False] * 3, "time_us": [50.0, 300.0, 4000.0], "busbw_gbps": [36.7, 195.7, 469.8],
            "nranks": [8] * 3, "n_hosts": [1] * 3, "gpu": ["NVIDIA H100 80GB HBM3"] * 3, "line": [7, 8, 9],
            "wrong": [0] * 3,
        }
    )  # fmt: skip
    run = build_run({"benchmarks": rows})
    view = bandwidth_view(run)
    assert view is not None
    figure = bandwidth_figure(nccl_insight.analyze(run), view)
    assert figure is not None
    assert figure.plot is not None
    curves = {trace["name"]: trace for trace in figure.plot["data"]}
    high, middle, low = (curves[f"AllReduce {word}expected"]["y"] for word in ("highest ", "", "lowest "))
    assert all(0 < under < at < over for under, at, over in zip(low, middle, high, strict=True))
    assert curves["AllReduce lowest expected"]["fill"] == "tonexty"
    assert low[2] < 469.8 < high[2]
    assert "hardware table" in figure.summary

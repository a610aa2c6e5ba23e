"""NCCL's own prediction, the efficiency of measured collectives, and the finding about slow ones."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.facts.figures.expected import GRAPH, HARDWARE, LOG, STATED, efficiency, predicted, predictions
from nccl_insight.tables.run import build_run
from tests.checks import check
from tests.cli import run_cli
from tests.predictions import REFERENCE, bench, needs_reference, simulated


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


def test_efficiency_by_the_hardware_table() -> None:
    row = efficiency(bench("NVIDIA A100-SXM4-40GB", 231)).row(0, named=True)
    assert row["expected_from"] == HARDWARE
    assert row["of_expected"] == pytest.approx(1, abs=0.05)
    assert row["expected_low_gbps"] < 231 < row["expected_high_gbps"]
    unknown = efficiency(bench("Mystery 9000", 231)).row(0, named=True)
    assert unknown["of_expected"] is None


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

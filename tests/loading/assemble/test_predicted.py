"""What the printed tuning table means, against what the same job's NCCL 2.31.2 answered itself (``timeUs``)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.loading.assemble.predicted import asked, choices, worked_out
from tests import by_hand

HEAD = "node00:12958:12958 [0] NCCL INFO "
COMM = "rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x90b2181433bed1f9"
_NONE = "    -1.0/  -1.0 |"
_ZERO = "     0.0/   0.0 |"
LINES = (
    f"[Rank 0] ncclCommInitRank comm 0x7ff4dbada010 {COMM} - Init START",
    "  Algorithm   |" + "".join(f"{name:^50}|" for name in ("Tree", "Ring", "CollNetDirect")),
    "  Protocol    |" + "             LL |          LL128 |         Simple |" * 3,
    "    Broadcast |" + _NONE * 3 + "     7.2/ 141.0 |    15.9/ 331.2 |    11.8/ 360.0 |" + _ZERO * 3,
    "    AllGather |" + _NONE * 3 + "    10.8/ 161.1 |    27.3/ 378.5 |    32.2/ 411.4 |" + _ZERO * 3,
    "    AllReduce |    15.2/  43.6 |    31.5/ 128.8 |    64.4/ 165.6 |"
    "    15.0/  80.6 |    40.6/ 189.3 |    56.0/ 205.7 |" + _ZERO * 3,
    "  Algorithm   |" + "".join(f"{name:^50}|" for name in ("CollNetChain", "NVLS", "NVLSTree")),
    "  Protocol    |" + "             LL |          LL128 |         Simple |" * 3,
    "    AllReduce |" + _ZERO * 5 + "    25.0/ 272.0 |" + _ZERO * 3,
    f"[Rank 0] ncclCommInitRank comm 0x7ff4dbada010 {COMM} - Init COMPLETE",
    "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0} cgaClusterSize 4",
    "AllReduce: 134217728 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15} cgaClusterSize 4",
    "AllGather: 16384 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3} cgaClusterSize 4",
)


@pytest.fixture
def rows(tmp_path: Path) -> pl.DataFrame:
    path = tmp_path / "run.log"
    path.write_text(f"{HEAD}NCCL version 2.31.2+cuda13.0\n" + "".join(f"{HEAD}{line}\n" for line in LINES))
    return nccl_insight.load([path]).table("predicted")


def test_the_table_means_what_nccl_answers(rows: pl.DataFrame) -> None:
    said = {("AllReduce", 4096): 15.050837, ("AllReduce", 134217728): 518.447510, ("AllGather", 131072): 11.613390}
    chosen = rows.filter("chosen").with_columns(pl.col("op").cast(pl.String))
    found = {(op, size): ns / 1e3 for op, size, ns in chosen.select("op", "size_bytes", "predicted_ns").iter_rows()}
    assert found == pytest.approx(said, rel=1e-4)
    assert set(rows["source"]) == {"table"}


def test_every_algorithm_and_protocol_of_the_table_has_a_row(rows: pl.DataFrame) -> None:
    small = rows.filter((pl.col("op").cast(pl.String) == "AllReduce") & (pl.col("size_bytes") == 4096))
    assert sorted(zip(small["algorithm"], small["protocol"], strict=True)) == [
        ("NVLS", "SIMPLE"), ("RING", "LL"), ("RING", "LL128"), ("RING", "SIMPLE"), ("TREE", "LL"), ("TREE", "LL128"),
        ("TREE", "SIMPLE"),
    ]  # fmt: skip
    assert small.filter("chosen").select("algorithm", "protocol").rows() == [("RING", "LL")]
    assert small.sort("predicted_ns").row(0, named=True)["algorithm"] == "RING"
    assert (small["line"] == 12).all()


@pytest.mark.parametrize("row", [" Max NThreads |            512 |", "    AllReduce | 8.4/   8.0 |    15.6/ 147.5 |"])
def test_a_table_without_its_headers_predicts_nothing(tmp_path: Path, row: str) -> None:
    comm = "ncclCommInitRank comm 0x55d0a1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x8a1f5f0c3d2e1b00"
    call = (
        "AllReduce: opCount 0 sendbuff 0x7f00 recvbuff 0x7f00 count 1024 datatype 7 op 0 root 0 comm 0x55d0a1 "
        "[nranks=2] stream 0x55"
    )
    said = (f"{comm} - Init START", row, f"{comm} - Init COMPLETE", call, "4096 Bytes -> Algo 1 proto 0 time 9.4")
    log = tmp_path / "run.log"
    log.write_text("".join(f"gpu01:4121:4190 [0] NCCL INFO {line}\n" for line in said), encoding="utf-8")
    assert nccl_insight.load([log]).table("predicted")["predicted_ns"].to_list() == [9400.0]


ASK = {
    "comm_id": "c",
    "op": "AllReduce",
    "size_bytes": 1024,
    "input_id": 0,
    "line": 9,
    "algorithm": "RING",
    "protocol": "LL",
}


def test_choices_that_tell_their_time_are_predictions() -> None:
    told = by_hand.rows("tuning_choice", {**ASK, "time_us": 12.5}, {**ASK, "time_us": 0.0}, ASK)
    assert choices(told).select("line", "algorithm", "predicted_ns", "chosen").rows() == [(9, "RING", 12_500.0, True)]
    assert choices(told.clear()).is_empty()


def test_each_communicator_asks_once_for_an_operation_and_size() -> None:
    told = by_hand.rows(
        "tuning_choice", ASK, {**ASK, "line": 10}, {**ASK, "size_bytes": 2048, "line": 11}, {**ASK, "comm_id": None}
    )
    assert asked(told)["line"].to_list() == [9, 11]


def test_the_printed_table_gives_a_time_for_each_way() -> None:
    model = by_hand.rows(        "tuning_model",
        {"comm_id": "c", "input_id": 0, "line": 1, "row": "algorithms", "labels": ["Ring"]},
        {"comm_id": "c", "input_id": 0, "line": 2, "row": "function", "table_function": "AllReduce",
         "latency_us": [10.0, 20.0, 30.0], "model_bw_gbps": [1.0, 2.0, 4.0]},
    )  # fmt: skip
    comms = by_hand.rows("communicators", {"comm_id": "c", "nranks": 2, "n_nodes": 1})
    found = worked_out(by_hand.rows("tuning_choice", ASK), model, comms)
    assert found.select("algorithm", "chosen").rows() == [("RING", True), ("RING", False), ("RING", False)]
    assert found["protocol"].to_list()[0] == "LL"
    assert all(ns > 10_000 for ns in found["predicted_ns"])
    assert worked_out(by_hand.rows("tuning_choice", ASK), model, comms.clear()).is_empty()

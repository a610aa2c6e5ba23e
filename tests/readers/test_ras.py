"""Reports of NCCL's RAS subsystem as JSON (2.28.7 and later)."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from nccl_insight.base.model import Hit
from nccl_insight.readers import ras
from tests.checks import check
from tests.readers.side_files import RAS_HEAD, SHARED, needs_shared, run_of, tables, write


def test_ras_outliers_with_their_own_counts(tmp_path: Path) -> None:
    report = RAS_HEAD + (
        "#0-0 (27a079b828ff1a75) MISMATCH\n"
        "  Communicator ranks have different AllReduce operation counts\n"
        "  30 ranks have launched up to operation 6650\n"
        "  Rank 3 has launched up to operation 6000 -- GPU 3 managed by process 483075 on node 10.1.1.1\n"
        "  Rank 9 has not launched any operations -- GPU 1 managed by process 1000 on node 10.1.1.2\n"
    )
    found = tables(ras.FORMAT, write(tmp_path, "r.txt", report))
    members = found["ras"].filter(pl.col("event") == "mismatch_member")
    assert members.select("rank", "op", "op_count", "host", "pid").rows() == [
        (3, "AllReduce", 6000, "10.1.1.1", 483075),
        (9, "AllReduce", 0, "10.1.1.2", 1000),
    ]
    (hit,) = [h for h in check("NI510", run_of(found)) if isinstance(h, Hit)]
    assert hit.ranks == (3, 9)
    assert hit.comm_id == "0x27a079b828ff1a75"


def test_ras_json_counts(tmp_path: Path) -> None:
    ranks = [
        {"rank": r, "host": "10.1.1.1", "pid": 10 + r, "cuda_dev": r, "status": {"init_state": 0},
         "collective_counts": {"AllReduce": 500 - (r == 1), "Broadcast": 0}}
        for r in range(4)
    ]  # fmt: skip
    document = {
        "nccl_version": "2.29.1",
        "communicators": [{"hash": "0xabc", "size": 4, "ranks": ranks, "missing_ranks": []}],
    }
    text = json.dumps(document)
    assert ras.FORMAT.sniff(text.encode(), "r") > 0.5
    run = run_of(tables(ras.FORMAT, write(tmp_path, "r.json", text)))
    (hit,) = [h for h in check("NI510", run) if isinstance(h, Hit)]
    assert hit.ranks == (1,)
    assert "499 to 500 AllReduce" in hit.title
    assert list(check("NI511", run)) == []


def test_impossible_ras_values_survive_and_are_called_so(tmp_path: Path) -> None:
    report = RAS_HEAD.replace("       32        32 ", "        2         1 ") + (
        "#0-0 (93d7000200000001) INCOMPLETE\n"
        "  Missing communicator data from 255 ranks\n"
        "  Rank 1057455228 -- [process information not found]\n"
    )
    found = tables(ras.FORMAT, write(tmp_path, "r.txt", report))
    assert 1057455228 in found["ras"]["rank"].to_list()
    assert 255 in found["ras"]["count"].to_list()
    assert found["notes"].height == 2
    (hit,) = [h for h in check("NI511", run_of(found)) if isinstance(h, Hit)]
    assert "impossible" in hit.title
    assert hit.ranks == ()


@needs_shared
def test_ras_report_of_the_documentation() -> None:
    facts = tables(ras.FORMAT, SHARED / "traces/doc_samples/ras_status_text.txt")["ras"]
    assert facts.filter(pl.col("event") == "group").height == 6
    dead = facts.filter(pl.col("event") == "dead_member").row(0, named=True)
    assert (dead["pid"], dead["host"], dead["gpu"]) == (3487984, "172.16.64.213", "5")
    assert facts.filter(pl.col("event") == "timeout")["count"].to_list() == [2]
    assert facts.filter(pl.col("event") == "peer")["status"].to_list() == ["PEER_DEAD"]

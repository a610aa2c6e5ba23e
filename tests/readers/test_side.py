"""Side files: every reader on samples of its format, on damage, and on what it must refuse."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers import discover
from nccl_insight.readers.side import (
    as_float,
    as_int,
    as_text,
    json_values,
    lines_frame,
    mapping,
    partial,
    read_content,
    sequence,
    whole_characters,
)
from nccl_insight.share import api
from tests.readers.side_files import NEW_TABLE, RAS_HEAD, SHARED, needs_shared, one, write

# --- which reader takes a file -------------------------------------------------------------------------------

EXPECTED_KIND = {
    "traces/doc_samples/inspector.prom": "inspector",
    "traces/doc_samples/inspector_v4.log": "inspector",
    "traces/doc_samples/nvidia_smi_nvlink.txt": None,
    "traces/doc_samples/nvidia_smi_topo.txt": None,
    "traces/doc_samples/profiler_plugin_example.txt": "inspector",
    "traces/doc_samples/ras_monitor.json.txt": "ras",
    "traces/doc_samples/ras_status.json": "ras",
    "traces/doc_samples/ras_status_text.txt": None,
    "traces/flight_recorder_16rank_gpu_error/_dump_0": "flight_recorder",
    "traces/gloo_own_4rank_healthy/fr_rank0.json": "flight_recorder",
    "traces/gloo_own_4rank_healthy/fr_rank0.pkl": "flight_recorder",
    "traces/gloo_own_4rank_healthy/rank0.json.gz": "torch_trace",
    "traces/dlrm_v100_8rank/worker0_step_12.1694128201545.pt.trace.json.gz": "torch_trace",
    "traces/nsys_own_2022_4/cap_own.sqlite": "nsys_sqlite",
    "traces/nccl_tests_logs/nccl_allreduce.log": "nccl_tests",
    "traces/nccl_tests_logs/nccl_alltoall.log": "nccl_tests",
    "simulated/2.14.3-2node-8gpu-ib.topo.xml": "topo_xml",
    "simulated/2.14.3-2node-8gpu-ib.graph.xml": "graph_xml",
    "simulated/2.14.3-2node-8gpu-ib.log": None,
}


@needs_shared
@pytest.mark.parametrize(("name", "kind"), EXPECTED_KIND.items())
def test_exactly_one_reader_wants_a_file(name: str, kind: str | None) -> None:
    source = one(SHARED / name)
    head = source.head()
    # The reader of unreadable files only guesses at binary content.
    wanting = [f.kind for f in discover() if f.sniff(head, source.display) >= 0.5 and f.kind != "unreadable"]
    if kind in ("torch_trace", "nsys_sqlite") and not wanting:
        pytest.skip(f"no reader for {kind} in this build")
    assert wanting == ([kind] if kind else [])


MATRIX = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\t0-51,104-155\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t52-103\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:
  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes
NIC Legend:
  NIC0: mlx5_4
"""
JOINED = """\
GPU0 GPU1 GPU2 NIC0 CPU Affinity NUMA Affinity
GPU0 X NV18NV18 PXBNODE 0-55 0
GPU1 NV18 X NV18 NODE 0-55 0
GPU2 NV18NV18 X SYS 56-111 1
NIC0 PXB NODESYS X
"""


def test_topology_matrix_with_tabs(tmp_path: Path) -> None:
    run = api.load([write(tmp_path, "topo.txt", MATRIX)])
    found = run.tables
    assert found["inputs"]["kind"].to_list() == ["smi_topo"]
    links = {
        (s, d): (k, p, c)
        for s, d, k, p, c in found["topology_links"].select("src", "dst", "link", "path", "count").rows()
    }
    assert links[("GPU0", "GPU1")] == ("NVL", "NV18", 18)
    assert links[("GPU0", "NIC0")] == ("PCI", "PIX", None)
    assert links[("NIC0", "GPU1")] == ("SYS", "SYS", None)
    assert found["topology_nodes"].select("node", "kind", "numa", "device").rows() == [
        ("GPU0", "GPU", 0, None),
        ("GPU1", "GPU", 1, None),
        ("NIC0", "NIC", None, "mlx5_4"),
    ]


def test_topology_matrix_with_joined_cells(tmp_path: Path) -> None:
    found = api.load([write(tmp_path, "topo.txt", JOINED.replace("PXBNODE", "PXB"))]).tables
    paths = {(s, d): p for s, d, p in found["topology_links"].select("src", "dst", "path").rows()}
    assert paths[("GPU0", "GPU2")] == "NV18"
    assert paths[("NIC0", "GPU1")] == "NODE"
    assert paths[("NIC0", "GPU2")] == "SYS"
    assert len(paths) == 12


def test_nvlinks(tmp_path: Path) -> None:
    text = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
        "\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000001)\n"
        "\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 2\n\t Link 0: CRC Errors: 0\n"
    )
    found = api.load([write(tmp_path, "nvlink.txt", text)]).tables
    assert found["inputs"]["kind"].to_list() == ["smi_nvlink"]
    rows = found["nvlinks"]
    assert rows.select("gpu", "link", "active", "speed_gbps", "recovery_errors").rows() == [
        (0, 0, True, 26.562, None),
        (0, 1, False, None, None),
        (1, 0, None, None, 2),
    ]
    assert rows["model"].unique().to_list() == ["NVIDIA H100 80GB HBM3"]


# --- between the lines of a log ------------------------------------------------------------------------------


def test_output_of_tools_between_the_lines_of_a_log(tmp_path: Path) -> None:
    line = "node-a:1:1 [0] NCCL INFO cudaDriverVersion 12040\n"
    nvlink = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n\t Link 0: 26.562 GB/s\n"
    missing = "#0-0 (4be1a7c20b5d9931) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 11\n"
    parts = [line * 5, MATRIX, line, nvlink, line, RAS_HEAD, missing, line, NEW_TABLE]
    run = api.load([write(tmp_path, "job.log", "".join(parts))])
    assert run.table("inputs")["kind"].to_list() == ["nccl_log"]
    assert run.table("topology_links").filter(pl.col("path") == "NV18").height == 2
    assert run.table("nvlinks").height == 1
    assert run.table("ras").filter(pl.col("event") == "incomplete_member")["rank"].to_list() == [11]
    assert run.table("benchmarks").height == 4
    first = "".join(parts[:1]).count("\n")
    assert run.table("topology_nodes")["line"].to_list() == [first + 2, first + 3, first + 4]


def test_values_of_foreign_files_are_taken_only_where_they_are_what_they_seem() -> None:
    assert [as_int(v) for v in (7, "7", 2.0, True, None, 1 << 63, "x")] == [7, 7, 2, None, None, None, None]
    assert [as_int(v, 0, 9) for v in (-1, 9, 10)] == [None, 9, None]
    assert [as_float(v) for v in (1, "2.5", True, math.inf, "nan", [])] == [1.0, 2.5, None, None, None, None]
    assert (as_text("abc", 2), as_text(7)) == ("ab", None)
    assert (mapping({"a": 1}), mapping({1: 1}), mapping([])) == ({"a": 1}, {}, {})
    assert (sequence((1,)), sequence("ab")) == ((1,), ())


def test_json_values_stand_one_after_the_other_up_to_the_damaged_one() -> None:
    assert list(json_values('{"a": 1}\n[2] 3 {"b"')) == [{"a": 1}, [2], 3]
    assert list(json_values("junk")) == []
    assert whole_characters('"\\ud800x"') == '"\\ufffdx"'
    assert whole_characters('"\\ud83d\\ude00"') == '"\\ud83d\\ude00"'


def test_a_file_is_read_up_to_its_limit_and_what_it_lacks_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"a\r\nb\xff")
    (file,) = find_inputs([str(path)])
    assert read_content(file).data == b"a\r\nb\xff"
    assert read_content(file, 3).data == b"a\r\n"
    assert "the rest was not read" in read_content(file, 3).problem
    assert lines_frame("a\r\nb").rows() == [(1, "a"), (2, "b")]
    found = partial(file, {"steps": pl.DataFrame({"step": [1]}), "none": pl.DataFrame({"x": []})}, "", "it is cut")
    assert list(found.tables) == ["steps", "notes"]
    assert found.tables["steps"].columns[0] == "input_id"
    assert found.tables["notes"]["detail"].to_list() == ["it is cut"]

"""Side files: every reader on samples of its format, on damage, and on what it must refuse."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.inputs.find import InputFile, find_inputs
from nccl_insight.readers import (
    Format,
    discover,
    flight_recorder,
    graph_xml,
    inspector,
    nccl_tests,
    profiler_plugin,
    ras,
    topo_xml,
)
from nccl_insight.readers.embedded.nccl_tests import op_of_name
from nccl_insight.share import api
from nccl_insight.tables.run import Run, build_run
from tests import runs
from tests.checks import check

SHARED = runs.SHARED
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="NCCL_INSIGHT_REFERENCE_DATA is not set")
SIDE = (flight_recorder, graph_xml, inspector, nccl_tests, profiler_plugin, ras, topo_xml)


def one(path: Path) -> InputFile:
    return find_inputs([str(path)])[0]


def tables(format_: Format, path: Path) -> dict[str, pl.DataFrame]:
    return dict(format_.read(one(path)).tables)


def write(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def run_of(*parts: dict[str, pl.DataFrame]) -> Run:
    merged: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for name, frame in part.items():
            merged.setdefault(name, []).append(frame)
    return build_run({n: pl.concat(f, how="diagonal_relaxed") for n, f in merged.items()})


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


def test_a_table_inside_a_log_is_left_to_the_log_reader() -> None:
    table = "# nThread 1 nGpus 1 minBytes 8\n#  size count type redop time algbw busbw error\n"
    line = "host:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
    assert nccl_tests.FORMAT.sniff(table.encode(), "x") > 0.5
    assert nccl_tests.FORMAT.sniff((line * 20 + table).encode(), "x") < 0.5


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400), prefix=st.sampled_from([
    b"", b"\x80\x02", b"{", b"[", b"<system>", b"<graphs>", b'{"collective_seq_id":', b"# nThread 1 nGpus 1\n",
    b"Group     Comms     Nodes\n=====\n", b"GPU 0: X\n Link 0: ", b" GPU0 GPU1\nGPU0 X NV12\n",
    b'{"coll_perf": "n_ranks',
]))  # fmt: skip
def test_no_reader_fails_on_any_bytes(tmp_path: Path, data: bytes, prefix: bytes) -> None:
    path = write(tmp_path, "any_7", prefix + data)
    for module in SIDE:
        module.FORMAT.sniff(prefix + data, "any_7")
        module.FORMAT.read(one(path))


@needs_shared
def test_every_shared_trace_file_can_be_read_by_its_reader() -> None:
    for path in sorted((SHARED / "traces").rglob("*")):
        if path.is_file() and path.suffix not in (".toml", ".csv", ".py", ".md"):
            source = one(path)
            head = source.head()
            for module in SIDE:
                if module.FORMAT.sniff(head, source.display) > 0:
                    module.FORMAT.read(source)


# --- nccl-tests ----------------------------------------------------------------------------------------------

NEW_TABLE = """\
# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907
# Collective test starting: reduce_scatter_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 134217728 step: 4(factor) warmup iters: 1 iters: 1 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid 100 on     node-a device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 101 on     node-b device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           128     float     sum      -1    12.34    0.08    0.04       0    11.20    0.09    0.05     N/A
[1,0]<stdout>:  134217728   16777216  float   sum   -1   1000.0  134.22   67.11    3  1.2e+03  111.85   55.92    0
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 30.78
"""


def test_a_new_table(tmp_path: Path) -> None:
    rows = tables(nccl_tests.FORMAT, write(tmp_path, "out.log", NEW_TABLE))["benchmarks"]
    assert rows["op"].unique().to_list() == ["ReduceScatter"]
    assert rows["nranks"].unique().to_list() == [2]
    assert rows["n_hosts"].unique().to_list() == [2]
    last = rows.filter((pl.col("size_bytes") == 134217728) & ~pl.col("in_place")).row(0, named=True)
    assert (last["count"], last["root"], last["time_us"], last["wrong"]) == (16777216, -1, 1000.0, 3)
    in_place = rows.filter((pl.col("size_bytes") == 134217728) & pl.col("in_place")).row(0, named=True)
    assert (in_place["time_us"], in_place["wrong"]) == (1200.0, 0)
    assert rows.filter(pl.col("in_place"))["wrong"].to_list() == [None, 0]


def test_per_iteration_columns_and_time_stamps(tmp_path: Path) -> None:
    table = (
        "# Collective test starting: all_reduce_perf\n"
        "#       size   count  type  redop  root  time algbw busbw #wrong i_min i_max i_p99 i_cv%"
        "  time algbw busbw #wrong i_min i_max i_p99 i_cv%  timestamp\n"
        "  4096  1024  float  sum  -1  10.0 0.41 0.72 0 9.1 12.0 11.9 3.5  20.0 0.20 0.36 1 19.0 25.0 24.0 4.5"
        "  2026-02-01 10:11:12\n"
    )
    rows = tables(nccl_tests.FORMAT, write(tmp_path, "t.log", table))["benchmarks"]
    assert rows.select("in_place", "time_us", "busbw_gbps", "wrong").rows() == [
        (False, 10.0, 0.72, 0),
        (True, 20.0, 0.36, 1),
    ]


def test_several_tables_in_one_file_keep_their_own_collective(tmp_path: Path) -> None:
    second = NEW_TABLE.replace("reduce_scatter_perf", "all_gather_perf").replace("sum", "none")
    rows = tables(nccl_tests.FORMAT, write(tmp_path, "t.log", NEW_TABLE + second))["benchmarks"]
    assert rows.group_by("run").agg(pl.col("op").unique()).sort("run")["op"].to_list() == [
        ["ReduceScatter"],
        ["AllGather"],
    ]
    assert rows.filter(pl.col("run") == 2)["red_op"].null_count() == 4


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("./build/all_reduce_perf", "AllReduce"), ("reduce_perf_mpi", "Reduce"), ("alltoallv_perf", "AllToAllv"),
        ("nccl_alltoall.log", "AllToAll"), ("sendrecv_perf", "SendRecv"), ("notes.txt", None),
    ],
)  # fmt: skip
def test_collective_from_a_program_name(name: str, op: str | None) -> None:
    assert op_of_name(name) == op


def test_json_results_without_environment(tmp_path: Path) -> None:
    document = {
        "version": 3, "start_time": "t", "args": ["/bin/all_gather_perf", "--token=SECRET"], "env": ["TOKEN=SECRET"],
        "nccl_version": 22907, "devices": [{"rank": r, "hostname": "a", "device_info": "NVIDIA A10G"} for r in (0, 1)],
        "results": [
            {"size": 64, "count": 8, "type": "float", "redop": "none", "root": "    -1",
             "out_of_place": {"time": 3.5, "alg_bw": "nan", "bus_bw": 0.1, "nwrong": 0.0},
             "in_place": {"cpu_time": 4.5, "alg_bw": 0.2, "bus_bw": 0.1, "nwrong": None}},
            {"size": 128, "count": 16, "type": "float", "redop": "none", "root": "-1", "out_of_place": None,
             "in_place": {"time": 5.0, "alg_bw": 0.3, "bus_bw": 0.2, "nwrong": "nan"}},
        ],
    }  # fmt: skip
    text = json.dumps(document)
    assert nccl_tests.FORMAT.sniff(text.encode(), "x.json") > 0.5
    result = tables(nccl_tests.FORMAT, write(tmp_path, "x.json", text))
    rows = result["benchmarks"]
    assert rows.select("op", "size_bytes", "in_place", "time_us", "algbw_gbps", "wrong", "nranks").rows() == [
        ("AllGather", 64, False, 3.5, None, 0, 2),
        ("AllGather", 64, True, 4.5, 0.2, None, 2),
        ("AllGather", 128, True, 5.0, 0.3, None, 2),
    ]
    assert "SECRET" not in str([f.to_dicts() for f in result.values()])
    cut = tables(nccl_tests.FORMAT, write(tmp_path, "y.json", text[: text.index('"size": 128') + 5]))
    assert cut["benchmarks"].height == 2
    assert cut["notes"]["kind"].to_list() == ["trace-truncated"]


@needs_shared
def test_figures_of_a_real_table() -> None:
    rows = tables(nccl_tests.FORMAT, SHARED / "traces/nccl_tests_logs/nccl_allreduce.log")["benchmarks"]
    assert rows.height == 68
    big = rows.filter((pl.col("size_bytes") == 8589934592) & ~pl.col("in_place")).row(0, named=True)
    assert (big["op"], big["time_us"], big["algbw_gbps"], big["busbw_gbps"]) == ("AllReduce", 63896.0, 134.44, 235.26)
    alltoall = tables(nccl_tests.FORMAT, SHARED / "traces/nccl_tests_logs/nccl_alltoall.log")["benchmarks"]
    assert set(alltoall["op"]) == {"AllToAll"}
    assert alltoall["root"].null_count() == alltoall.height
    broadcast = tables(nccl_tests.FORMAT, SHARED / "traces/nccl_tests_logs/nccl_broadcast.log")["benchmarks"]
    assert set(broadcast["root"]) == {0}


def test_a_benchmark_is_judged_only_where_the_link_is_known(tmp_path: Path) -> None:
    def judged(gpu: str, busbw: float, ranks: int = 8) -> list[Hit | CannotJudge]:
        devices = "".join(f"#  Rank {r} Group 0 Pid 1 on n device {r} [0x0{r}] {gpu}\n" for r in range(ranks))
        table = f"# Collective test starting: all_reduce_perf\n# nThread 1 nGpus {ranks} minBytes 8\n{devices}"
        row = f"  268435456 67108864 float sum -1 100.0 {busbw} {busbw} 0 100.0 {busbw} {busbw} 0\n"
        path = write(tmp_path, "t.log", table + "# size count type redop root time algbw busbw #wrong\n" + row)
        return list(check("NI640", run_of(tables(nccl_tests.FORMAT, path))))

    (hit,) = judged("NVIDIA H100 80GB HBM3", 41.0)
    assert isinstance(hit, Hit)
    assert "41.0 GB/s" in hit.observed
    assert judged("NVIDIA H100 80GB HBM3", 340.0) == []
    (unknown,) = judged("NVIDIA Z9000", 8.0)
    assert isinstance(unknown, CannotJudge)


# --- RAS -----------------------------------------------------------------------------------------------------

RAS_HEAD = """\
Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH,INCOMPLETE

"""


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


# --- Inspector and the profiler plugin -----------------------------------------------------------------------

RECORD = (
    '{"header":{"id":"0xe62dedaa97644a","comm_name":"a \\"coll_sn\\":9","rank":4,"n_ranks":8,"nnodes":1},'
    '"metadata":{"inspector_output_format_version":"v4.0","dump_timestamp_us":1752867229276385,"hostname":"h","pid":7},'
    '"coll_perf":{"coll":"ReduceScatter","coll_sn":1231,"coll_msg_size_bytes":2147483648,"coll_exec_time_us":41057,'
    '"coll_timing_source":"kernel_gpu","coll_algobw_gbs":418.439467,"coll_busbw_gbs":366.134533}}'
)


@pytest.mark.parametrize("pretty", [False, True])
def test_inspector_records(tmp_path: Path, pretty: bool) -> None:
    one_record = json.dumps(json.loads(RECORD), indent=2) if pretty else RECORD
    text = f"{one_record}\n{one_record}\n{one_record[:300]}"
    found = tables(inspector.FORMAT, write(tmp_path, "h-pid7.log", text))
    rows = found["collectives"]
    assert rows.height == 2
    row = rows.row(0, named=True)
    assert (row["rank"], row["seq"], row["op"], row["group_size"]) == (4, 1231, "ReduceScatter", 8)
    assert row["size_bytes"] == 8 * 2147483648
    assert row["duration_ns"] == 41_057_000
    assert row["busbw_gbps"] == pytest.approx(366.134533)
    assert found["notes"]["kind"].to_list() == ["trace-truncated"]


@needs_shared
def test_profiler_plugin_keeps_large_hashes() -> None:
    found = tables(profiler_plugin.FORMAT, SHARED / "traces/doc_samples/profiler_plugin_example.txt")
    row = found["collectives"].row(0, named=True)
    assert (row["process_group"], row["algorithm"], row["protocol"]) == ("1493613951195738943", "RING", "SIMPLE")
    assert row["size_bytes"] == 262144 * 4


# --- topology ------------------------------------------------------------------------------------------------

TOPO = """\
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" host_hash="0x12">
    <pci busid="0000:4b:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:4e:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="5" gdr="1">
          <nvlink target="0000:c4:00.0" count="9" tclass="0x068000"/>
          <nvlink target="0000:c5:00.0" count="9" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:4f:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""


def test_topology_xml(tmp_path: Path) -> None:
    assert topo_xml.FORMAT.sniff(TOPO.encode(), "t.xml") > 0.5
    assert graph_xml.FORMAT.sniff(TOPO.encode(), "t.xml") == 0
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", TOPO))
    nodes, links = found["topology_nodes"], found["topology_links"]
    gpu = nodes.filter(pl.col("kind") == "GPU").row(0, named=True)
    assert (gpu["node"], gpu["rank"], gpu["numa"], gpu["sm"]) == ("GPU/0-4e000", 5, 0, 90)
    assert nodes.filter(pl.col("kind") == "NET").select("device", "speed_gbit", "gdr").rows() == [("mlx5_0", 400, True)]
    nvlink = links.filter(pl.col("link") == "NVL").row(0, named=True)
    assert (nvlink["dst"], nvlink["count"]) == ("NVS/0", 18)
    assert nvlink["bw_gbps"] == pytest.approx(18 * 20.6)
    assert links.filter(pl.col("link") == "NET")["bw_gbps"].to_list() == [50.0]
    assert links.filter(pl.col("dst") == "PCI/0-4b000")["bw_gbps"].to_list() == [48.0]


@pytest.mark.parametrize(
    "attack",
    [
        '<!DOCTYPE system [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><system><cpu numaid="&b;"/></system>',
        '<!DOCTYPE system SYSTEM "file:///etc/passwd"><system version="1"><cpu numaid="0"/></system>',
        '<!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]><system><cpu numaid="0">&x;</cpu></system>',
    ],
)
def test_document_types_and_entities_are_refused(tmp_path: Path, attack: str) -> None:
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", attack))
    assert set(found) == {"notes"}
    assert "not read" in found["notes"]["detail"][0]
    assert "root:" not in found["notes"]["detail"][0]


def test_deep_xml_is_read_to_the_limit(tmp_path: Path) -> None:
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", "<system>" + "<pci>" * 100_000))
    assert found["notes"]["kind"].to_list() == ["trace-truncated"]
    assert "xml-depth" in found["notes"]["detail"][0]


def test_cut_xml_keeps_what_came_before(tmp_path: Path) -> None:
    found = tables(topo_xml.FORMAT, write(tmp_path, "t.xml", TOPO[: TOPO.index("<nic>")]))
    assert "GPU/0-4e000" in found["topology_nodes"]["node"].to_list()
    assert found["notes"]["kind"].to_list() == ["trace-truncated"]


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


# --- damaged compression -------------------------------------------------------------------------------------


def damaged() -> Iterator[tuple[str, bytes]]:
    whole = gzip.compress(("\n".join([RECORD] * 2000)).encode(), mtime=0)
    yield "cut", whole[: len(whole) // 2]
    yield "flipped", whole[:200] + bytes([whole[200] ^ 0xFF]) + whole[201:]


@pytest.mark.parametrize(("name", "data"), list(damaged()))
def test_damaged_gzip_gives_a_note(tmp_path: Path, name: str, data: bytes) -> None:
    found = tables(inspector.FORMAT, write(tmp_path, f"{name}.log.gz", data))
    assert "trace-truncated" in found["notes"]["kind"].to_list()


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


def _marker(rank: int, colls: int, proxies: int = 0, dropped: int = 0) -> str:
    return (
        f'{{"header":{{"id":"0xab","rank":{rank},"n_ranks":2,"nnodes":1}},"metadata":{{'
        '"inspector_output_format_version":"v4.3","dump_timestamp_us":1752867229276385,"hostname":"h","pid":7},'
        f'"dump_stats":{{"coll_records":{colls},"coll_dropped_total":{dropped},"p2p_records":0,'
        f'"proxy_records":{proxies},"proxy_ops_dropped_total":0}}}}'
    )


def _bare(op: str, number: int) -> str:
    return (
        f'{{"coll_perf":{{"coll":"{op}","coll_algo":"NVLS_TREE","coll_proto":"SIMPLE","coll_sn":{number},'
        '"coll_msg_size_bytes":1024,"coll_exec_time_us":50,"coll_timing_source":"kernel_gpu",'
        '"coll_algobw_gbs":1.5,"coll_busbw_gbs":1.5}}'
    )


STEP = (
    '{"proxy_trace":{"record_type":"proxy_step","record_sn":41,"parent_type":"coll","parent_sn":3,"proxy_op_sn":12,'
    '"channel_id":5,"peer":1,"direction":"send","proxy_step_sn":1,"step":4,"trans_size_bytes":1048576,'
    '"event_trace_ts":{"proxy_step_start_ts":100,"send_gpu_wait_ts":110,"send_peer_wait_ts":125,"send_wait_ts":145,'
    '"proxy_step_stop_ts":170}}}'
)


def test_inspector_headers_stand_once_a_dump(tmp_path: Path) -> None:
    lines = [
        _marker(1, 2, 1, dropped=9), _bare("AllReduce", 0), _bare("AllGather", 0), STEP, _marker(0, 1),
        _bare("AllReduce", 1), _bare("AllReduce", 2),
    ]  # fmt: skip
    found = tables(inspector.FORMAT, write(tmp_path, "h-pid7.log", "\n".join(lines) + "\n"))
    rows = found["collectives"]
    # the last record is one more than its dump announces, so whose it is is unknown
    assert rows["rank"].to_list() == [1, 1, 0, None]
    assert rows["process_group"].to_list() == ["0xab", "0xab", "0xab", None]
    assert rows.select("algorithm", "protocol").unique().rows() == [("NVLSTree", "Simple")]
    step = found["proxy_steps"].row(0, named=True)
    assert (step["comm_id"], step["rank"], step["peer"], step["channel"], step["step"]) == ("0xab", 1, 1, 5, 4)
    assert (step["start_ns"], step["end_ns"], step["bytes"]) == (100_000, 170_000, 1 << 20)
    assert (step["gpu_wait_ns"], step["peer_wait_ns"], step["wire_ns"]) == (15_000, 20_000, 25_000)
    notes = dict(found["notes"].select("kind", "detail").iter_rows())
    assert notes["telemetry-dropped"] == "rank 1 of communicator 0xab dropped 9 collectives"
    assert "no dump marker" in notes["trace-truncated"]

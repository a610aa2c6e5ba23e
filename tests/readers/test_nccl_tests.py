"""nccl-tests output."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from nccl_insight.base.model import CannotJudge, Hit
from nccl_insight.readers import nccl_tests
from tests.checks import check
from tests.readers.side_files import NEW_TABLE, SHARED, needs_shared, run_of, tables, write


def test_a_table_inside_a_log_is_left_to_the_log_reader() -> None:
    table = "# nThread 1 nGpus 1 minBytes 8\n#  size count type redop time algbw busbw error\n"
    line = "host:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n"
    assert nccl_tests.FORMAT.sniff(table.encode(), "x") > 0.5
    assert nccl_tests.FORMAT.sniff((line + table).encode(), "x") < 0.5


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

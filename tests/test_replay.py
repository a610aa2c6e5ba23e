"""replay: the mix computed from hand-made calls, and commands that nccl-tests understands."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.errors import NotJudgedError
from nccl_insight.replay import Options, commands, mix_of, render_json, render_param, render_script
from nccl_insight.tables.run import Run, build_run
from tests import runs

SHARED = runs.SHARED


def _call(
    comm: str, rank: int, nranks: int, op: str, count: int, dtype: str = "float32", **more: object
) -> dict[str, object]:
    return {
        "input_id": 0, "line": 1, "comm_id": comm, "host": f"h{rank // 4}", "pid": 100 + rank, "rank": rank, "op": op,
        "count": count, "dtype": dtype, "nranks": nranks, "red_op": "sum", **more,
    }  # fmt: skip


def _world(
    nranks: int, hosts: int, calls: list[dict[str, object]], env: list[dict[str, object]] | None = None
) -> Run:
    ranks = [
        {
            "input_id": 0, "line": 1, "comm_id": "0xa", "host": f"h{r * hosts // nranks}", "pid": 100 + r, "rank": r,
            "nranks": nranks, "cuda_dev": r % (nranks // hosts),
        }
        for r in range(nranks)
    ]  # fmt: skip
    comms = [{"comm_id": "0xa", "nranks": nranks, "hosts": [f"h{h}" for h in range(hosts)], "n_nodes": hosts}]
    tables = {
        "calls": pl.DataFrame(calls),
        "ranks": pl.DataFrame(ranks),
        "communicators": pl.DataFrame(comms),
    }
    if env:
        tables["env"] = pl.DataFrame(env)
    return build_run(tables)


def test_sizes_counts_and_shares() -> None:
    calls = [_call("0xa", r, 8, "AllReduce", 1 << 20) for r in range(8) for _ in range(3)]
    calls += [_call("0xa", r, 8, "AllGather", 1024, "bfloat16") for r in range(8)]
    mix = mix_of(_world(8, 2, calls))
    reduce, gather = mix.patterns
    # 3 all-reduces of 4 MiB and one all-gather whose output is 8 x 1024 x 2 bytes
    assert (reduce.op, reduce.size_bytes, reduce.calls, reduce.total_bytes) == (
        "AllReduce",
        4 << 20,
        3,
        12 << 20,
    )
    assert (gather.op, gather.size_bytes, gather.calls) == ("AllGather", 16384, 1)
    assert mix.calls == 4
    assert reduce.share_calls == pytest.approx(0.75)
    assert reduce.share_bytes == pytest.approx((12 << 20) / ((12 << 20) + 16384))
    assert (mix.nranks, mix.ranks_seen, reduce.shape.nodes) == (8, 8, 2)


def test_commands() -> None:
    calls = [_call("0xa", r, 8, "AllReduce", 1 << 20, "bfloat16") for r in range(8) for _ in range(10)]
    calls += [_call("0xa", r, 8, "ReduceScatter", 256, "float32", red_op="avg") for r in range(8)]
    env = [
        {
            "input_id": 0,
            "line": 1,
            "host": f"h{r // 4}",
            "pid": 100 + r,
            "name": name,
            "value": value,
            "origin": "environment",
        }
        for r in range(8)
        for name, value in (
            ("NCCL_IB_HCA", "=mlx5_0"),
            ("NCCL_DEBUG_FILE", "/tmp/x"),
            ("NCCL_NET", "a; rm -rf ~"),
        )
    ]
    run = _world(8, 2, calls, env)
    mix = mix_of(run)
    found = commands(mix, run, Options())
    assert [shlex.split(c.line) for c in found] == [
        ["mpirun", "-np", "8", "--map-by", "ppr:4:node", "-x", "NCCL_IB_HCA==mlx5_0", "./build/all_reduce_perf",
         "-b", "2097152", "-e", "2097152", "-d", "bfloat16", "-o", "sum", "-n", "200", "-w", "5", "-c", "0", "-g", "1"],
        ["mpirun", "-np", "8", "--map-by", "ppr:4:node", "-x", "NCCL_IB_HCA==mlx5_0", "./build/reduce_scatter_perf",
         "-b", "8192", "-e", "8192", "-d", "float", "-o", "avg", "-n", "20", "-w", "5", "-c", "0", "-g", "1"],
    ]  # fmt: skip
    srun = commands(mix, run, Options("srun"))[0].line
    assert srun.startswith(
        "env NCCL_IB_HCA==mlx5_0 srun --nodes=2 --ntasks=8 --ntasks-per-node=4 ./build/all_reduce_perf"
    )
    script = render_script(mix, found, Options())
    assert "rm -rf" not in script
    assert json.loads(render_json(mix, found))["patterns"][0]["share_calls"] == pytest.approx(
        10 / 11, abs=1e-6
    )


def test_sizes_of_one_bucket_are_one_command() -> None:
    calls = [
        _call("0xa", r, 4, "AllReduce", count) for r in range(4) for count in (1030, 1100, 1100, 1900, 4096)
    ]
    mix = mix_of(_world(4, 1, calls))
    assert [(p.size_bytes, p.low_bytes, p.high_bytes, p.calls) for p in mix.patterns] == [
        (
            1100 * 4,
            1030 * 4,
            1900 * 4,
            4,
        ),  # 20,520 bytes together; 1100 x 4 bytes twice is the most of one size
        (4096 * 4, 4096 * 4, 4096 * 4, 1),
    ]


def test_sends_to_everybody_are_an_all_to_all() -> None:
    calls = [
        _call("0xa", r, 4, op, 256, peer=p) for r in range(4) for p in range(4) for op in ("Send", "Recv")
    ]
    (pattern,) = mix_of(_world(4, 1, calls)).patterns
    assert (pattern.op, pattern.size_bytes, pattern.calls) == ("AllToAll", 256 * 4 * 4, 1)


def test_sends_to_a_neighbour_stay_sends() -> None:
    calls = [_call("0xa", r, 4, "Send", 256, peer=(r + 1) % 4) for r in range(4)]
    calls += [_call("0xa", r, 4, "Recv", 256, peer=(r - 1) % 4) for r in range(4)]
    (pattern,) = mix_of(_world(4, 1, calls)).patterns
    assert (pattern.op, pattern.size_bytes, pattern.calls) == ("SendRecv", 1024, 1)


def test_traces() -> None:
    rows = [
        {"input_id": 0, "rank": r, "process_group": "0", "op": "AllReduce", "size_bytes": 1 << 20, "dtype": "Float",
         "group_size": 2, "source": source}
        for r in range(2) for source in ("kernel", "kernel", "flight_recorder")
    ]  # fmt: skip
    mix = mix_of(build_run({"collectives": pl.DataFrame(rows)}))
    assert [(p.op, p.calls, p.size_bytes) for p in mix.patterns] == [("AllReduce", 2, 1 << 20)]
    assert "kernel" in mix.source


def test_nothing_to_replay() -> None:
    with pytest.raises(NotJudgedError, match="NCCL_DEBUG_SUBSYS=INIT,COLL"):
        mix_of(build_run({}))


@pytest.mark.skipif(
    not (SHARED / "simulated").is_dir(), reason="the simulated logs : set NCCL_INSIGHT_REFERENCE_DATA"
)
def test_groups_of_a_split_job() -> None:
    log = SHARED / "simulated" / "2.21.5-8gpu-split-tp4-dp2.log.gz"
    command = [
        sys.executable,
        "-c",
        "from nccl_insight.cli import main; main()",
        "replay",
        str(log),
        "--format",
        "json",
    ]
    document = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
    shapes = {(p["nranks"], p["groups"], p["split"]) for p in document["patterns"]}
    assert shapes == {(8, 1, None), (4, 2, "DIV 4"), (2, 4, "MOD 4")}


def several_communicators() -> str:
    """A world of 8 ranks, two groups of 4 and four of 2, made without a split; 10, 40 and 10 calls per group."""
    lines = []
    for rank in range(8):
        head = f"n:{1000 + rank}:{1000 + rank} [{rank}] NCCL INFO "
        comms = [("0x10", rank, 8, "0xaaaa", 10), ("0x20", rank % 4, 4, f"0xbb0{rank // 4}", 40),
                 ("0x30", rank // 4, 2, f"0xcc0{rank % 4}", 10)]  # fmt: skip
        for pointer, own, size, name, _ in comms:
            init = f"{head}ncclCommInitRank comm {pointer} rank {own} nranks {size} cudaDev {rank} nvmlDev {rank} busId {rank}0 commId {name} - Init "  # noqa: E501
            lines += [init + "START", init + "COMPLETE"]
        for pointer, _, size, _, calls in comms:
            lines += [
                f"{head}AllReduce: opCount {i:x} sendbuff 0x1 recvbuff 0x2 count 1048576 datatype 7 op 0 root 0 "
                f"comm {pointer} [nranks={size}] stream 0x9"
                for i in range(calls)
            ]
    return "\n".join(lines) + "\n"


def test_ranks_of_several_communicators_of_a_process(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(several_communicators())
    run = nccl_insight.load(path)
    calls = run.table("calls").filter((pl.col("pid") == 1005) & (pl.col("comm_id") == "0xbb01"))
    assert calls["rank"].unique().to_list() == [1]
    mix = mix_of(run)
    assert {(p.shape.nranks, p.calls) for p in mix.patterns} == {(4, 80), (2, 40), (8, 10)}
    script = render_script(mix, commands(mix, run, Options()), Options())
    assert re.findall(r" -n (\d+) ", script) == ["200", "50", "50"]
    trace = json.loads(render_param(mix))
    groups = {tuple(e["global_ranks"]) for e in trace if e["comms"] == "init"}
    assert groups == {
        tuple(range(8)), (0, 1, 2, 3), (4, 5, 6, 7), (0, 4), (1, 5), (2, 6), (3, 7),
    }  # fmt: skip
    assert sum(e["comms"] == "all_reduce" for e in trace) == 130
    first = next(e for e in trace if e["comms"] == "all_reduce")
    assert (first["in_msg_size"], first["out_msg_size"], first["dtype"]) == (1048576, 1048576, "Float")


def test_roots_and_sizes_that_nccl_tests_would_cut(tmp_path: Path) -> None:
    head = "n:{0}:{0} [{1}] NCCL INFO "
    lines = []
    for rank in range(2):
        start = head.format(100 + rank, rank)
        init = f"{start}ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}0 commId 0xa - Init "  # noqa: E501
        lines += [init + "START", init + "COMPLETE"]
        end = "comm 0x1 [nranks=2] stream 0x9"
        lines.append(
            f"{start}Broadcast: opCount 0 sendbuff 0x1 recvbuff 0x2 count 64 datatype 7 op 0 root 1 {end}"
        )
        lines.append(
            f"{start}AllGather: opCount 1 sendbuff 0x1 recvbuff 0x2 count 3 datatype 7 op 0 root 0 {end}"
        )
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    run = nccl_insight.load(path)
    mix = mix_of(run)
    script = render_script(mix, commands(mix, run, Options()), Options())
    assert "broadcast_perf -b 256 -e 256 -d float -r 1 " in script
    assert "all_gather_perf -b 32 -e 32 " in script
    assert "# 24 B in the job" in script

"""Which rank of the job a process is, where no communicator has all ranks."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.facts.said.errors import causes
from nccl_insight.loading import load
from nccl_insight.loading.assemble.places import Places, places

_INIT = (
    "{tag}{host}:{pid}:{pid} [{gpu}] NCCL INFO ncclCommInitRank comm 0x55{pid}0 rank {rank} nranks 2 cudaDev {gpu} "
    "nvmlDev {gpu} busId {gpu}000 commId 0x{comm} - Init COMPLETE"
)


def _log(path: Path, *members: tuple[str, int, int, int, str, str]) -> Path:
    """Lines of members of groups of two: host, process, GPU, rank in the group, group, tag of the launcher."""
    names = ("host", "pid", "gpu", "rank", "comm", "tag")
    lines = [_INIT.format(**dict(zip(names, member, strict=True))) for member in members]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_groups_side_by_side_name_no_rank_of_the_job(tmp_path: Path) -> None:
    members = [(f"node{n // 2}", 100 + n, n % 2, n % 2, f"a{n // 2}", "") for n in range(4)]
    known = places(load(str(_log(tmp_path / "run.log", *members))))
    assert (known.host_of_rank, known.rank_of_process, known.world) == ({}, {}, 0)


def test_launchers_name_the_ranks_of_groups_side_by_side(tmp_path: Path) -> None:
    members = [(f"node{n // 2}", 100 + n, n % 2, n % 2, f"a{n // 2}", f"[1,{n}]<stdout>:") for n in range(4)]
    known = places(load(str(_log(tmp_path / "run.log", *members))))
    assert known.host_of_rank == {0: "node0", 1: "node0", 2: "node1", 3: "node1"}
    assert known.rank_of_process[("node1", 103)] == 3
    assert known.world == 4


def test_attempts_on_the_same_gpus_are_not_side_by_side(tmp_path: Path) -> None:
    first = [("node0", 100 + n, n, n, "a1", "") for n in range(2)]
    second = [("node0", 200 + n, n, 1 - n, "a2", "") for n in range(2)]
    known = places(load(str(_log(tmp_path / "run.log", *first, *second))))
    assert known.rank_of_process == {("node0", 200): 1, ("node0", 201): 0}


def test_a_machine_named_after_its_address_is_the_host_that_has_it() -> None:
    known = Places(names={"trainer-1": "trainer-1"}, addresses={"10.8.4.12": "trainer-1"})
    assert known.host("ip-10-8-4-12") == known.host("ip-10-8-4-12.ec2.internal") == "trainer-1"
    assert known.host("ip-10-8-4-13") == "ip-10-8-4-13"
    own = Places(names={"ip-10-8-4-12": "ip-10-8-4-12"}, addresses={"10.8.4.12": "other"})
    assert own.host("ip-10-8-4-12.ec2.internal") == "ip-10-8-4-12"


def test_syslog_names_the_host_of_any_program_when_the_job_knows_it() -> None:
    known = Places(names={"gpu02": "gpu02"})
    assert known.host_in_tag("May  4 14:20:01 gpu02 kubelet[900]:") == "gpu02"
    assert known.host_in_tag("2026-05-04 14:18:01 gpu02.example.org termination-handler:") == "gpu02"
    assert known.host_in_tag("May  4 14:20:01 login1 kubelet[900]:") is None
    assert known.host_in_tag("14:20:01 INFO trainer:") is None


def test_nccl_tests_name_the_process_behind_the_failure(tmp_path: Path) -> None:
    members = [(f"t{n // 2}", 100 + n, n % 2, n, "a1", "") for n in range(4)]
    path = _log(tmp_path / "run.log", *members)
    path.write_text(
        path.read_text().replace("nranks 2", "nranks 4")
        + "t0: Test NCCL failure common.cu:408 'unhandled cuda error / '\n"
        + "t1: Test CUDA failure common.cu:413 'an illegal memory access was encountered'\n"
        + " .. t1 pid 103: Test failure common.cu:598\n"
    )
    rows = causes(load(str(path))).filter(pl.col("message").str.starts_with("tests_"))
    assert rows.select("message", "host", "rank").rows() == [
        ("tests_nccl_failure", "t0", None),
        ("tests_cuda_failure", "t1", 3),
        ("tests_failure", "t1", 3),
    ]


def test_who_names_the_dead_child_is_its_parent(tmp_path: Path) -> None:
    members = [(f"node{n // 2}", 100 + n, n % 2, n, "a1", "") for n in range(4)]
    path = _log(tmp_path / "run.log", *members)
    path.write_text(
        path.read_text().replace("nranks 2", "nranks 4")
        + "May  4 14:20:01 node1 kernel: Out of memory: Killed process 99887 (pt_data_worker) total-vm:1kB, "
        "anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n"
        + "[rank3]: Traceback (most recent call last):\n"
        + '[rank3]:   File "/job/train.py", line 9, in <module>\n'
        + "[rank3]: RuntimeError: DataLoader worker (pid(s) 99887) exited unexpectedly\n"
    )
    first = nccl_insight.analyze([path]).findings[0]
    assert (first.name, first.ranks, first.hosts) == ("process-killed", (3,), ("node1",))


@pytest.mark.parametrize(
    "tag", ["[1,3]<stderr>:", "3: ", "[default3]:", "[pod/node1/main] ", "node1: ", "node1  | ", "[rank3]: "]
)
def test_what_a_dying_process_prints_is_read_behind_every_tag(tag: str, tmp_path: Path) -> None:
    members = [(f"node{n // 2}", 100 + n, n % 2, n, "a1", "") for n in range(4)]
    path = _log(tmp_path / "run.log", *members)
    for text, name in (
        ("*** SIGSEGV (@0x18) received by PID 103 (TID 0x7f9d2a7fc700) from PID 24; stack trace: ***", "crashed"),
        ("/entry.sh: line 4:   103 Killed                  python3 train.py", "killed"),
    ):
        written = path.read_text().replace("nranks 2", "nranks 4") + tag + text + "\n"
        (tmp_path / name).write_text(written)
        first = nccl_insight.analyze([tmp_path / name]).findings[0]
        assert (first.name, first.ranks, first.hosts) == (f"process-{name}", (3,), ("node1",))


def test_rows_of_trouble_come_placed_and_say_by_what(tmp_path: Path) -> None:
    path = _log(tmp_path / "run.log", *((f"node{n // 2}", 100 + n, n % 2, n, "a1", "") for n in range(4)))
    late = (
        "[rank3]:[E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
        "ran for 600001 milliseconds before timing out."
    )
    warned = "node0:101:101 [1] init.cc:1 NCCL WARN Cuda failure 'out of memory'"
    path.write_text(path.read_text().replace("nranks 2", "nranks 4") + f"{warned}\n{late}\n")
    run = load(str(path))
    rows = run.table("errors", "rank", "host", "placed_by").rows()
    assert rows == [(1, "node0", "head"), (3, "node1", "tag")]
    known = run.table("places").filter(pl.col("known_by") == "process")
    assert known.select("host", "pid", "rank", "local_rank").rows() == [
        (f"node{n // 2}", 100 + n, n, n % 2) for n in range(4)
    ]


def test_rows_of_ras_reports_come_placed_and_say_by_what(tmp_path: Path) -> None:
    """A group of the upper two of four ranks, by process, by its own numbers, and without any line of a job."""
    alone = json.dumps({
        "nccl_version": "2.29.1",
        "communicators": [
            {"hash": hash_, "size": len(members), "missing_ranks": [], "ranks": [
                {"rank": r, "host": host, "pid": pid, "cuda_dev": pid % 2, "status": {"init_state": 0}}
                for r, (host, pid) in enumerate(members)
            ]}
            for hash_, members in (
                ("0xa1", [("10.0.0.1", 100), ("10.0.0.1", 101), ("10.0.0.2", 100), ("10.0.0.2", 101)]),
                ("0xb2", [("10.0.0.2", 100), ("10.0.0.2", 101)]),
            )
        ],
    })  # fmt: skip
    (tmp_path / "ras.json").write_text(alone)
    rows = load(str(tmp_path / "ras.json")).table("ras_ranks", "comm_hash", "rank", "global_rank", "placed_by").rows()
    assert [row[1:] for row in rows] == [(n, n, "report") for n in range(4)] + [(0, 2, "report"), (1, 3, "report")]
    job = _log(tmp_path / "run.log", *((f"node{n // 2}", 100 + n % 2, n % 2, n, "a1", "") for n in range(4)))
    numbered = job.read_text().replace("nranks 2", "nranks 4")
    job.write_text(numbered + "node0:100:100 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n")
    found = load([str(job), str(tmp_path / "ras.json")]).table("ras_ranks", "pid", "global_rank", "placed_by").rows()
    # Two hosts use the same process numbers: the address of node0 stands in the log, that of node1 does not.
    assert found[:2] == [(100, 0, "process"), (101, 1, "process")]
    assert found[2:4] == [(100, 2, "communicator"), (101, 3, "communicator")]
    assert found[4:] == [(100, None, "line"), (101, None, "line")]


_CLOSED = (
    "{host}:{pid}:{pid} [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer {peer}<4>"
)
_SWAPPED = "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 803: system has "
_SWAPPED += "unsupported display driver / cuda driver combination"


def test_a_file_named_as_those_of_the_other_hosts_is_a_hosts(tmp_path: Path) -> None:
    """The host without a line of NCCL; what a launcher's file is called is no host's name."""
    for n in (1, 2):
        text = _CLOSED.format(host=f"gpu{n}", pid=100 + n, peer="10.0.0.3")
        (tmp_path / f"gpu{n}.log").write_text(f"{text}\n[rank{n}]: RuntimeError: NCCL error\n")
    (tmp_path / "gpu3.log").write_text(f"{_SWAPPED}\n[rank3]: RuntimeError: No CUDA GPUs are available\n")
    (tmp_path / "launcher.log").write_text(f"{_SWAPPED}\n")
    rows = load(str(tmp_path)).table("errors", "message", "host").filter(pl.col("message") == "torch_cuda_warning")
    assert sorted(rows["host"], key=str) == [None, "gpu3"]


def test_a_pod_without_a_line_of_nccl_is_a_host_where_pods_are(tmp_path: Path) -> None:
    members = [(f"node{n // 2}", 100 + n, n % 2, n, "a1", f"[pod/node{n // 2}/main] ") for n in range(4)]
    path = _log(tmp_path / "run.log", *members)
    failed = "[pod/node1/main] RuntimeError: No CUDA GPUs are available"
    path.write_text(f"{path.read_text()}{failed}\n[pod/node2/main] {_SWAPPED}\n")
    rows = load(str(path)).table("errors", "message", "host").filter(pl.col("message") == "torch_cuda_warning")
    assert rows["host"].to_list() == ["node2"]


def test_a_rank_in_the_file_of_a_host_is_on_it(tmp_path: Path) -> None:
    closed = (
        "{host}:90:91 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer 10.0.0.9<4>\n"
    )
    for host, more in (
        ("gpu01", "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: x\n"),
        ("gpu02", ""),
    ):
        (tmp_path / f"{host}.log").write_text(closed.format(host=host) + more)
    raised = nccl_insight.load([tmp_path]).table("tracebacks")
    assert raised.select("rank", "host").rows() == [(3, "gpu01")]

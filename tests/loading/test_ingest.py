"""From log text to tables: facts of real logs, line accounting, and properties that must not change the result."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import polars as pl
import pytest
import zstandard

import nccl_insight
from nccl_insight.loading import load
from nccl_insight.tables.run import Run
from tests.runs import HEALTHY, RUNS, SHARED, TINY_SHM, comparable

TABLES = (
    "communicators",
    "ranks",
    "processes",
    "connections",
    "rings",
    "trees",
    "channel_counts",
    "env",
    "net_devices",
)


def accounted(run: Run) -> None:
    """Every physical line is counted exactly once."""
    inputs = run.table("inputs")
    for row in inputs.filter(pl.col("lines").is_not_null()).iter_rows(named=True):
        parts = row["parsed_lines"] + row["unknown_lines"] + row["foreign_lines"] + row["torn_lines"]
        assert parts == row["lines"], row
        assert row["nccl_lines"] == row["parsed_lines"] + row["unknown_lines"]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def same_tables(one: Run, other: Run, names: tuple[str, ...] = TABLES) -> None:
    for name in names:
        assert comparable(one.table(name)) == comparable(other.table(name)), name


def test_healthy_run_of_two_nodes() -> None:
    run = load([HEALTHY])
    accounted(run)
    (comm,) = run.table("communicators").to_dicts()
    assert comm["nranks"] == 16
    assert comm["ranks_seen"] == 16
    assert comm["missing_ranks"] == []
    assert comm["n_nodes"] == 2
    assert comm["hosts"] == ["node00", "node01"]
    assert comm["nccl_versions"] == ["2.27.7"]
    assert comm["init_complete"] is True
    assert comm["comm_id_made"] is False
    ranks = run.table("ranks").sort("rank")
    assert ranks["rank"].to_list() == list(range(16))
    assert ranks["cuda_dev"].to_list() == [*range(8), *range(8)]
    assert set(run.table("processes")["network"]) == {"IB"}
    connections = run.table("connections")
    assert connections.height == 512
    assert set(connections["transport"]) == {"NET"}
    assert connections["gdr"].all()
    assert set(connections["dev_kind"]) == {"nvml_dev"}


def test_rings_follow_the_printed_order() -> None:
    text = HEALTHY.read_text()
    printed = next(line for line in text.splitlines() if "Channel 00/16 :" in line)
    order = [int(word) for word in printed.split(" : ")[1].split()]
    ring = load([HEALTHY]).table("rings").filter(pl.col("channel") == 0).sort("position")
    assert ring["rank"].to_list() == order
    assert sorted(order) == list(range(16))
    assert not ring["truncated"].any()


def test_trees_know_parents_and_children() -> None:
    trees = load([HEALTHY]).table("trees").filter(pl.col("channel") == 0)
    parents = {row["rank"]: row["parent_rank"] for row in trees.to_dicts()}
    children = {row["rank"]: row["child_ranks"] for row in trees.to_dicts()}
    assert sum(parent is None for parent in parents.values()) == 1
    for rank, parent in parents.items():
        if parent is not None:
            assert rank in children[parent]


def test_run_before_communicator_ids() -> None:
    run = load([RUNS / "ib-2.14" / "run.log"])
    accounted(run)
    (comm,) = run.table("communicators").to_dicts()
    assert (comm["nranks"], comm["ranks_seen"], comm["comm_id_made"]) == (16, 16, True)
    connections = run.table("connections")
    assert Counter(connections["transport"]) == {"P2P": 480, "NET": 128}
    assert set(connections["dev_kind"]) == {"bus_id"}
    assert connections["comm_id"].null_count() == 0


def test_multi_node_nvlink_has_one_node_and_two_hosts() -> None:
    (comm,) = load([RUNS / "gb200-mnnvl" / "run.log"]).table("communicators").to_dicts()
    assert (comm["nranks"], comm["n_nodes"], len(comm["hosts"])) == (8, 1, 2)


@pytest.mark.parametrize("version", ["2.21", "2.27"])
def test_splits_are_communicators_of_their_own(version: str) -> None:
    run = load([RUNS / f"split-tp4-dp2-{version}" / "run.log.gz"])
    accounted(run)
    comms = run.table("communicators")
    assert sorted(comms["nranks"].to_list()) == [2, 2, 2, 2, 4, 4, 8]
    assert comms["ranks_seen"].to_list() == comms["nranks"].to_list()
    world = comms.filter(pl.col("nranks") == 8)["comm_id"].item()
    splits = comms.filter(pl.col("nranks") < 8)
    assert set(splits["parent_comm_id"]) == {world}
    ops = run.table("calls").group_by("op").len().sort("op").rows()
    assert {str(op): n for op, n in ops} == {"AllGather": 16, "AllReduce": 24}
    assert run.table("calls")["comm_id"].null_count() == 0


def test_directory_of_one_file_a_process() -> None:
    run = load([RUNS / "perrank-2.14"])
    accounted(run)
    assert run.table("inputs").height == 4
    (comm,) = run.table("communicators").to_dicts()
    assert (comm["nranks"], comm["ranks_seen"]) == (4, 4)
    assert comm["hosts"] == ["ip-10-0-1-17", "ip-10-0-1-18"]


def test_warnings_reach_the_errors_table() -> None:
    errors = load([TINY_SHM]).table("errors")
    warnings = errors.filter(pl.col("level") == "WARN")
    assert warnings.height > 0
    assert "shm-too-small" in set(warnings["family"])
    assert warnings.filter(pl.col("placed_by") == "head")["timestamp"].null_count() == 0


PREFIXES = {
    "torchrun": lambda line, rank: f"[rank{rank}]: {line}",
    "elastic": lambda line, rank: f"[default{rank}]:{line}",
    "mpirun": lambda line, rank: f"[1,{rank}]<stdout>:{line}",
    "srun": lambda line, rank: f"{rank:>2}: {line}",
    "pdsh": lambda line, rank: f"worker-{rank}: {line}",
    "ray": lambda line, rank: f"(RayWorkerWrapper pid={4000 + rank}, ip=10.0.0.{rank}) {line}",
    "vllm": lambda line, rank: f"(EngineCore_DP0 pid=77) (RayWorkerWrapper pid={4000 + rank}) {line}",
    "kubernetes": lambda line, rank: f"2025-05-16T16:39:51.208123456Z {line}",
    "iso": lambda line, rank: f"2025-05-16 16:39:51,208 {line}",
    "quote": lambda line, rank: f"> {line}",
    "ansi": lambda line, rank: f"\x1b[36m(Worker pid={rank})\x1b[0m {line}",
}


@pytest.mark.parametrize("launcher", sorted(PREFIXES))
def test_launcher_prefixes_change_nothing(launcher: str, tmp_path: Path) -> None:
    lines = HEALTHY.read_text().splitlines()
    prefix = PREFIXES[launcher]
    prefixed = "\n".join(prefix(line, n % 16) if line else line for n, line in enumerate(lines)) + "\n"
    run = load([write(tmp_path / "run.log", prefixed)])
    accounted(run)
    same_tables(load([HEALTHY]), run)


def test_containers_of_the_bytes_change_nothing(tmp_path: Path) -> None:
    plain = load([HEALTHY])
    data = HEALTHY.read_bytes()
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b.log.zst").write_bytes(zstandard.ZstdCompressor().compress(data))
    (tmp_path / "c.log").write_bytes(data.replace(b"\n", b"\r\n"))
    (tmp_path / "d.log").write_bytes(data.rstrip(b"\n"))
    for name in ("a.log.gz", "b.log.zst", "c.log", "d.log"):
        run = load([tmp_path / name])
        accounted(run)
        same_tables(plain, run)


def test_splitting_and_shuffling_processes_changes_nothing(tmp_path: Path) -> None:
    by_process: dict[str, list[str]] = defaultdict(list)
    for line in HEALTHY.read_text().splitlines():
        key = ":".join(line.split(":")[:2]) if " NCCL " in line and line.startswith("node") else "none"
        by_process[key].append(line)
    rng = random.Random(7)
    directory = tmp_path / "ranks"
    directory.mkdir()
    for index, lines in enumerate(by_process.values()):
        write(directory / f"{index}.log", "\n".join(lines) + "\n")
    queues = [list(lines) for lines in by_process.values()]
    shuffled: list[str] = []
    while queues:
        queue = rng.choice(queues)
        shuffled.append(queue.pop(0))
        queues = [q for q in queues if q]
    names = tuple(n for n in TABLES if n not in {"processes", "communicators"})
    plain = load([HEALTHY])
    same_tables(plain, load([directory]), names)
    same_tables(plain, load([write(tmp_path / "shuffled.log", "\n".join(shuffled))]), names)


def test_torn_lines_give_both_records_and_are_counted(tmp_path: Path) -> None:
    text = (
        "gpu1:100:200 [1] NCCL INFO Connected all trees\n"
        "gpu1:101:201 [0] NCCL INFO Connected all trgpu1:100:200 [1] NCCL INFO Connected all rings\n"
    )
    run = load([write(tmp_path / "torn.log", text)])
    accounted(run)
    row = run.table("inputs").row(0, named=True)
    assert (row["parsed_lines"], row["torn_lines"]) == (1, 1)
    assert run.table("connected")["milestone"].to_list() == ["trees", "rings"]


def test_columns_of_a_collector_are_one_record(tmp_path: Path) -> None:
    record = "ip-10-2-4-9:79:79 [0] NCCL INFO Using network Socket"
    text = f"  | 2025-05-16T16:39:51.208-07:00{record} | {record}\n"
    run = load([write(tmp_path / "cw.log", text)])
    (process,) = run.table("processes").to_dicts()
    assert (process["host"], process["pid"], process["network"]) == ("ip-10-2-4-9", 79, "Socket")


def test_a_wrapped_message_is_joined(tmp_path: Path) -> None:
    text = (
        "a:1:2 [0] NCCL INFO comm 0x7f00 rank 0 nranks 2 cudaDev 0 busId 1000 -\nInit COMPLETE\n"
        "a:1:2 [0] NCCL INFO Connected all rings\n"
    )
    run = load([write(tmp_path / "wrapped.log", text)])
    accounted(run)
    assert run.table("ranks")["init_complete"].to_list() == [True]
    assert run.table("inputs")["foreign_lines"].to_list() == [0]


def test_unknown_lines_are_kept_as_templates(tmp_path: Path) -> None:
    text = "".join(f"a:1:2 [0] NCCL INFO Frobnicated widget {n} of 0x{n:x}\n" for n in range(5))
    run = load([write(tmp_path / "new.log", text)])
    accounted(run)
    (row,) = run.table("unknown").to_dicts()
    assert row["count"] == 5
    assert row["template"] == "Frobnicated widget <N> of <N>"
    assert row["level"] == "INFO"


def test_an_unknown_warning_is_still_an_error_row(tmp_path: Path) -> None:
    text = "\n[2026-01-02 03:04:05] a:1:2 [3] new.cc:12 (newFunction) NCCL WARN The flux capacitor 7 is empty\n"
    (row,) = load([write(tmp_path / "w.log", text)]).table("errors").to_dicts()
    assert (row["level"], row["family"], row["message"]) == ("WARN", "other", None)
    assert (row["source"], row["function"]) == ("new.cc:12", "newFunction")
    assert row["text"] == "The flux capacitor 7 is empty"
    assert row["timestamp"] == "2026-01-02 03:04:05"


def test_a_flood_is_folded(tmp_path: Path) -> None:
    line = "a:1:2 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer b<4791>\n"
    run = load([write(tmp_path / "flood.log", line * 50_000)])
    accounted(run)
    (row,) = run.table("errors").to_dicts()
    assert row["repeats"] == 50_000
    assert row["line"] == 1


def test_ray_says_what_it_left_out(tmp_path: Path) -> None:
    text = "(W pid=7) a:1:2 [0] NCCL INFO Using network Socket [repeated 6x across cluster]\n"
    run = load([write(tmp_path / "ray.log", text)])
    assert run.table("processes")["network"].to_list() == ["Socket"]
    assert run.table("notes")["kind"].to_list() == ["log-truncated"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n\n",
        b"\x00\x00\x00",
        b"\xff\xfe NCCL INFO \x80\x81\n",
        b"a:1:2 [0] NCCL INFO\n",
        b" NCCL INFO \n",
        b"NCCL WARN",
        b"a:1:2 [99999999999999999999] NCCL INFO Using network IB\n",
        b"a:99999999999999999999999:2 [0] NCCL INFO Using network IB",
        b"a:1:2 [0] NCCL INFO " + b"x" * 1_000_000,
        b"\r\r\r a:1:2 [0] NCCL INFO Using network IB \r\n",
        b"(" * 20_000 + b" NCCL INFO x\n",
    ],
)
def test_odd_bytes_survive(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "odd.log"
    path.write_bytes(data)
    accounted(load([path]))


def test_bad_bytes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "bad.log"
    path.write_bytes(b"caf\xe9 \xff\na:1:2 [0] NCCL INFO Using network IB\n")
    assert load([path]).table("inputs")["bad_bytes"].to_list() == [2]


def test_a_damaged_archive_gives_what_could_be_read(tmp_path: Path) -> None:
    data = gzip.compress(HEALTHY.read_bytes() * 20)
    (tmp_path / "cut.log.gz").write_bytes(data[: len(data) // 2])
    run = load([tmp_path / "cut.log.gz"])
    accounted(run)
    assert run.table("notes").filter(pl.col("kind") == "log-truncated").height == 1


def test_evidence_lines_can_be_read_back() -> None:
    run = load([HEALTHY])
    wanted = [(0, 1), (0, 500), (0, 1176), (0, 99999), (3, 1)]
    found = run.reader.lines(wanted)
    lines = HEALTHY.read_text().splitlines()
    assert found == {(0, n): lines[n - 1] for n in (1, 500, 1176)}


def test_facts_of_the_simulated_runs() -> None:
    directory = SHARED / "simulated"
    if not directory.is_dir():
        pytest.skip("the collection of simulated runs : set NCCL_INSIGHT_REFERENCE_DATA")
    checked = 0
    for truth_file in sorted(directory.glob("2.2[17]*2node*.truth.json")):
        log = truth_file.with_name(truth_file.name.replace(".truth.json", ".log"))
        truth = json.loads(truth_file.read_text())
        observed = truth["observed"]
        if not log.exists() or not observed.get("init_complete") or observed.get("rank_files"):
            continue
        comms = load([log]).table("communicators")
        assert comms["nranks"].max() == truth["nranks"], log.name
        assert comms["n_nodes"].max() == max(truth["observed"]["nNodes"]), log.name
        checked += 1
    assert checked > 5


def test_debris_before_a_host_name_is_taken_off(tmp_path: Path) -> None:
    lines = [f"gpu1:{pid}:{pid + 9} [0] NCCL INFO Using network IB" for pid in (100, 101) for _ in range(40)]
    lines.insert(30, "gpu1:101:110 [0] NCCL INFO Connected all trgpu1:100:109 [0] NCCL INFO Connected all rings")
    run = load([write(tmp_path / "torn.log", "\n".join(lines))])
    assert sorted(set(run.table("processes")["host"])) == ["gpu1"]
    assert run.table("connected")["host"].to_list() == ["gpu1"]


def test_containers_that_share_a_pid_stay_apart(tmp_path: Path) -> None:
    text = "".join(f"{host}:7:7 [0] NCCL INFO Using network IB\n" * 9 for host in ("node1", "gpu-node1"))
    run = load([write(tmp_path / "pods.log", text)])
    assert sorted(run.table("processes")["host"]) == ["gpu-node1", "node1"]


def test_a_timestamp_before_a_text_without_head_is_no_host(tmp_path: Path) -> None:
    version = "NCCL version 2.21.5+cuda12.4"
    text = f"2025-05-16T16:39:51.208-07:00 | {version}\n2025-05-16 16:39 {version}\n"
    run = load([write(tmp_path / "a.log", text)])
    assert run.table("inputs")["parsed_lines"].to_list() == [2]
    assert run.table("processes")["host"].null_count() == run.table("processes").height


def test_a_warning_of_any_table_is_an_error_row(tmp_path: Path) -> None:
    text = "\na:1:2 [0] graph/xml.cc:99 NCCL WARN Could not open XML topology file /x.xml : No such file or directory\n"
    run = load([write(tmp_path / "a.log", text)])
    (row,) = run.table("errors").to_dicts()
    assert row["message"] == "topology_file_unopened"
    assert row["source"] == "graph/xml.cc:99"


def test_last_error_of_an_exception_is_a_warning(tmp_path: Path) -> None:
    """Wordings that need a head elsewhere are taken after ``Last error:``, and only there."""
    path = tmp_path / "run.log"
    path.write_text(
        "nvmlInit_v2() failed: Driver/library version mismatch\n"
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error\n"
        "[rank3]: Last error:\n"
        "[rank3]: nvmlInit_v2() failed: Driver/library version mismatch\n",
        encoding="utf-8",
    )
    errors = load([path]).table("errors")
    assert errors.filter(pl.col("message") == "err_nvml").select("line", "level").rows() == [(4, "WARN")]


def test_connections_of_the_collective_network_alone(tmp_path: Path) -> None:
    text = "a:1:2 [0] NCCL INFO CollNet 00/0 : 4 [send] via COLLNET/SHARP/0/GDRDMA\n"
    (row,) = load([write(tmp_path / "sharp.log", text)]).table("connections").to_dicts()
    assert (row["transport"], row["network"], row["net_dev"], row["gdr"]) == ("COLLNET", "SHARP", 0, True)
    assert (row["src_rank"], row["src_dev"], row["dev_kind"]) == (4, None, None)


def test_a_host_behind_debris_that_begins_no_name(tmp_path: Path) -> None:
    """A process whose only line is glued to another's: numbers and paths begin no host, letters might."""
    clean = "".join(f"gpu-dev-5:{90 + n}:{90 + n} [{n}] NCCL INFO Connected all rings\n" for n in range(5))
    init = "ncclCommInitRank comm 0x55e7 rank {r} nranks 8 cudaDev {r} nvmlDev {r} busId "
    glued = (
        f"gpu-dev-5:90:90 [0] NCCL INFO {init.format(r=0)}53gpu-dev-5:97:97 [7] NCCL INFO Connected all trees\n"
        "gpu-dev-5:91:91 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMgpu-dev-5:98:98 [6] NCCL INFO "
        "Connected all trees\n"
        "mygpu-dev-5:99:99 [5] NCCL INFO Connected all trees\n"
    )
    run = load([write(tmp_path / "run.log", clean + glued)])
    hosts = set(run.table("processes").select("host", "pid").rows())
    assert hosts == {("gpu-dev-5", p) for p in (*range(90, 95), 97, 98)} | {("mygpu-dev-5", 99)}


def test_a_number_that_a_directive_sets_stays_a_number_beside_captured_ones(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        "[gpu01:4711] *** Process received signal ***\n"
        "[gpu01:4711] Signal: Segmentation fault (11)\n"
        "[gpu02:4712] [ 3] /lib/libc.so.6(abort+0x12b)[0x7f0011223344]\n",
        encoding="utf-8",
    )
    run = nccl_insight.load([path])
    signals = run.table("errors").filter(pl.col("signal").is_not_null())["signal"]
    assert signals.dtype.is_integer()
    assert set(signals.to_list()) == {6, 11}
    assert any("segmentation fault" in f.title.lower() for f in nccl_insight.analyze(run).findings)

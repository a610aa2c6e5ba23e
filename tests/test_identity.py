"""Which rank of the job a process is, where no communicator has all ranks."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.facts.identity import identities
from nccl_insight.loading import load

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
    known = identities(load(str(_log(tmp_path / "run.log", *members))))
    assert (known.host_of_rank, known.rank_of_process, known.world) == ({}, {}, 0)


def test_launchers_name_the_ranks_of_groups_side_by_side(tmp_path: Path) -> None:
    members = [(f"node{n // 2}", 100 + n, n % 2, n % 2, f"a{n // 2}", f"[1,{n}]<stdout>:") for n in range(4)]
    known = identities(load(str(_log(tmp_path / "run.log", *members))))
    assert known.host_of_rank == {0: "node0", 1: "node0", 2: "node1", 3: "node1"}
    assert known.rank_of_process[("node1", 103)] == 3
    assert known.world == 4


def test_attempts_on_the_same_gpus_are_not_side_by_side(tmp_path: Path) -> None:
    first = [("node0", 100 + n, n, n, "a1", "") for n in range(2)]
    second = [("node0", 200 + n, n, 1 - n, "a2", "") for n in range(2)]
    known = identities(load(str(_log(tmp_path / "run.log", *first, *second))))
    assert known.rank_of_process == {("node0", 200): 1, ("node0", 201): 0}

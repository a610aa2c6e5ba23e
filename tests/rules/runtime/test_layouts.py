"""An exception without a rank of its own, in the layouts of fifteen launchers: whose it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import nccl_insight
from tests.kernel_lines import HOSTS, PIDS, host_of

Files = dict[str, list[str]]
RAISED = [
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 88, in <module>',
    "    main()",
    '  File "/app/train.py", line 70, in main',
    '    x = batch["labels"]',
    "KeyError: 'labels'",
]


def pod_of(rank: int) -> str:
    return f"worker-{rank // 4}"


def lines_of(rank: int, nccl: bool, host: Callable[[int], str] = host_of) -> list[str]:
    """What a rank prints; rank 5 raises, and 0, 3 and 6 lose it."""
    here, pid = host(rank), PIDS[rank]
    started = [
        f"{here}:{pid}:{pid} [{rank % 4}] NCCL INFO Bootstrap: Using eth0:10.1.0.{3 + rank // 4}<0>",
        *(
            f"{here}:{pid}:{pid} [{rank % 4}] NCCL INFO ncclCommInitRank comm 0x55d0a{rank} rank {rank} nranks 8 "
            f"cudaDev {rank % 4} nvmlDev {rank % 4} busId {rank % 4 + 1}b000 commId 0x7d1ab3c1 - Init {state}"
            for state in ("START", "COMPLETE")
        ),
    ]
    lost = (
        f"[2026-11-17 12:00:05] {here}:{pid}:{pid + 900} [{rank % 4}] misc/socket.cc:71 NCCL WARN socketProgress: "
        f"Connection closed by remote peer {host(5)}<40110>"
    )
    steps = [f"step {i} | loss 2.{i} | 412 ms" for i in range(1, 9)] if rank in (0, 2, 5) else ["ready"]
    return [
        *(started if nccl else []),
        *steps,
        *(RAISED if rank == 5 else [lost] if nccl and rank in (0, 3, 6) else []),
    ]


def mixed(nccl: bool, tag: Callable[[int], str]) -> list[str]:
    """The lines of all ranks, one of each at a time."""
    of_rank = [lines_of(r, nccl) for r in range(8)]
    return [tag(r) + of_rank[r][i] for i in range(max(map(len, of_rank))) for r in range(8) if i < len(of_rank[r])]


def in_turn(
    nccl: bool, tag: Callable[[int], str], ranks: Iterable[int] = range(8), host: Callable[[int], str] = host_of
) -> list[str]:
    """The lines of the ranks one after the other, the one that raises last."""
    ordered = sorted(ranks, key=lambda r: (r == 5, r))
    return [tag(r) + line for r in ordered for line in lines_of(r, nccl, host)]


def layouts(nccl: bool) -> Iterator[tuple[str, Files, tuple[int, ...], tuple[str, ...]]]:
    """Name, files, and the ranks and hosts that can be known."""
    at = ("gpu02",)
    rank = (5,)
    known = (5,) if nccl else ()
    host = at if nccl else ()
    tee = "[default{}]:".format
    halves = [range(4), range(4, 8)]
    yield "srun --label", {"job.log": mixed(nccl, lambda r: f"{r}: ")}, rank, host
    yield (
        "tee, a file of each host",
        {f"{h}.log": in_turn(nccl, lambda r: tee(r % 4), half) for h, half in zip(HOSTS, halves, strict=True)},
        known,
        at,
    )
    yield "srun, a file of each task", {f"slurm-7_{r}.out": lines_of(r, nccl) for r in range(8)}, known, host
    yield (
        "torchrun --log-dir",
        {f"{host_of(r)}/attempt_0/{r % 4}/stderr.log": lines_of(r, nccl) for r in range(8)},
        known,
        at,
    )
    yield "a file of each rank", {f"rank{r}.log": lines_of(r, nccl) for r in range(8)}, rank, host
    yield (
        "a file of each pod",
        {f"worker-{i}.log": in_turn(nccl, lambda r: tee(r % 4), halves[i], pod_of) for i in (0, 1)},
        known,
        ("worker-1",),
    )
    yield (
        "kubectl --prefix",
        {"job.log": in_turn(nccl, lambda r: f"[pod/{pod_of(r)}/pytorch] {tee(r % 4)}", host=pod_of)},
        known,
        ("worker-1",),
    )
    yield "pdsh", {"job.log": in_turn(nccl, lambda r: f"{host_of(r)}: {tee(r % 4)}")}, known, at
    yield (
        "journal",
        {"journal.txt": mixed(nccl, lambda r: f"Nov 17 12:00:05 {host_of(r)} train[{PIDS[r]}]: ")},
        known,
        at,
    )
    yield (
        "Ray",
        {"job.log": mixed(nccl, lambda r: f"(TrainWorker pid={PIDS[r]}, ip=10.1.0.{3 + r // 4}) ")},
        known,
        at if nccl else ("10.1.0.4",),
    )
    yield "mpirun --tag-output", {"job.log": mixed(nccl, lambda r: f"[1,{r}]<stderr>:")}, rank, host
    yield "prterun", {"job.log": mixed(nccl, lambda r: f"[prterun-gpu01-4400@1,{r}]<stderr>: ")}, rank, host
    yield "Hydra", {"job.log": mixed(nccl, lambda r: f"[{r}] ")}, rank, host
    apart = {f"out/rank_{r}.log": [line for line in lines_of(r, nccl) if "NCCL" not in line] for r in range(8)}
    debug = {
        f"nccl.{host_of(r)}.{PIDS[r]}.log": [line for line in lines_of(r, nccl) if "NCCL" in line] for r in range(8)
    }
    yield "NCCL_DEBUG_FILE", {**(debug if nccl else {}), **apart}, rank, host
    yield (
        "Docker Compose",
        {"job.log": in_turn(nccl, lambda r: f"{pod_of(r)}  | {tee(r % 4)}", host=pod_of)},
        known,
        ("worker-1",),
    )


CASES = [
    pytest.param(files, ranks, hosts, id=f"{name}, {'with' if nccl else 'without'} NCCL's lines")
    for nccl in (True, False)
    for name, files, ranks, hosts in layouts(nccl)
]


@pytest.mark.part(2)
@pytest.mark.parametrize(("files", "ranks", "hosts"), CASES)
def test_whose_exception_it_is(tmp_path: Path, files: Files, ranks: tuple[int, ...], hosts: tuple[str, ...]) -> None:
    for name, lines in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))
    first = nccl_insight.analyze([tmp_path]).findings[0]
    assert (first.name, first.ranks, first.hosts) == ("application-exception", ranks, hosts), first.title


def test_names_of_files_are_hosts_only_where_they_can_be(tmp_path: Path) -> None:
    for n in (1, 2):
        (tmp_path / f"run{n}.log").write_text("\n".join(RAISED if n == 2 else ["ready"]) + "\n")
    assert nccl_insight.analyze([tmp_path]).findings[0].hosts == ()


def test_numbers_of_files_are_ranks_only_on_proof(tmp_path: Path) -> None:
    """Task numbers that are not the ranks of the tasks that say theirs say nothing of the others."""
    for r in range(4):
        lines = lines_of(r, nccl=True) if r < 3 else RAISED
        (tmp_path / f"slurm-7_{(r + 1) % 4}.out").write_text("".join(f"{line}\n" for line in lines))
    assert nccl_insight.analyze([tmp_path]).findings[0].ranks == ()

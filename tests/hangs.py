"""Jobs in which ranks do not come, as each source tells it: init lines, timeouts of torch, RAS, dumps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nccl_insight
from nccl_insight.base.model import Analysis, Finding
from tests.dumps import dump

HASH = "8a1f5f0c3d2e1b00"
HANGS = (
    "rank-desync",
    "collective-not-reached",
    "collective-stalled",
    "hang-after-init",
    "ras-incomplete",
    "ras-mismatch",
)


def host(rank: int) -> str:
    return f"gpu0{rank // 2 + 1}"


def init(comm: str, rank: int, nranks: int, device: int, comm_id: str, state: str) -> str:
    """What NCCL prints when a rank begins (``START``) or ends (``COMPLETE``) its init."""
    return (
        f"ncclCommInitRank comm {comm} rank {rank} nranks {nranks} cudaDev {device} nvmlDev {device} busId "
        f"{device + 1}b000 commId {comm_id} - Init {state}"
    )


def caught(seq: int, op: str = "ALLREDUCE", elements: int = 16384, ran_ms: int = 600065) -> str:
    """What torch's watchdog says of an operation that takes too long."""
    return (
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={elements}, "
        f"NumelOut={elements}, Timeout(ms)=600000) ran for {ran_ms} milliseconds before timing out."
    )


def reached(seq: int, enqueued: int, completed: int) -> str:
    """How far a rank came in its group, by torch 2.7."""
    return (
        f" failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, last "
        f"completed work: {completed}"
    )


def reached_in_2_3(seq: int, enqueued: int, completed: int) -> str:
    """The same by torch 2.3."""
    return f"Timeout at NCCL work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."


def inits(ranks: int = 4) -> list[str]:
    """The init of a job with two ranks a host; process numbers are 4000 + rank."""
    return [
        f"{host(r)}:{4000 + r}:{4100 + r} [{r % 2}] NCCL INFO "
        + init(f"0x55d0a{r}", r, ranks, r % 2, f"0x{HASH}", state)
        for state in ("START", "COMPLETE")
        for r in range(ranks)
    ]


def timeout(
    rank: int, seq: int, enqueued: int, completed: int, group: str = "0", guid: str = "0(default_pg)"
) -> list[str]:
    """What torch's watchdog prints when an operation of a rank takes too long."""
    head = f"[rank{rank}]:[E619 05:06:30.9{rank}9096625 ProcessGroupNCCL.cpp"
    return [
        f"{head}:632] [Rank {rank}] {caught(seq)}",
        f"{head}:2268] [PG ID {group} PG GUID {guid} Rank {rank}] {reached(seq, enqueued, completed)}",
    ]


def log(path: Path, *lines: str) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def dumps(directory: Path, by_rank: dict[int, list[dict[str, Any]]], ranks: int = 4) -> str:
    directory.mkdir(exist_ok=True)
    for rank, entries in by_rank.items():
        (directory / f"trace_rank_{rank}.json").write_text(json.dumps(dump(entries, ranks)))
    return str(directory)


def ras(path: Path, counts: dict[int, int], dead: tuple[int, ...] = (), second: int = 40) -> str:
    """A RAS report in JSON: AllReduce operations launched by rank, and ranks whose process does not answer."""
    place = {
        r: {"rank": r, "host": f"10.0.0.{r // 2 + 1}", "pid": 4000 + r, "cuda_dev": r % 2} for r in (*counts, *dead)
    }
    path.write_text(json.dumps({
        "nccl_version": "2.28.9", "cuda_runtime_version": 12090, "cuda_driver_version": 12090,
        "timestamp": f"2026-06-19 05:06:{second}", "communicators_count": 1,
        "communicators": [{
            "hash": f"0x{HASH}", "size": len(place), "ranks_count": len(counts), "missing_ranks_count": len(dead),
            "ranks": [{**place[r], "collective_counts": {"AllReduce": n}} for r, n in counts.items()],
            "missing_ranks": [{**place[r], "status": {"unresponsive": True, "considered_dead": True}} for r in dead],
        }],
    }))  # fmt: skip
    return str(path)


def judged(*paths: str) -> tuple[Analysis, list[Finding]]:
    analysis = nccl_insight.analyze(list(paths))
    found = [f for f in analysis.findings if f.name in HANGS and f.severity.value != "info"]
    return analysis, found


def call(rank: int, number: int) -> str:
    return (
        f"{host(rank)}:{4000 + rank}:{4100 + rank} [{rank % 2}] NCCL INFO AllReduce: opCount {number:x} sendbuff "
        f"0x7f9e32a00000 recvbuff 0x7f9d32800000 count 1024 datatype 7 op 0 root 0 comm 0x55d0a{rank} [nranks=4] "
        "stream 0x564134211800"
    )


def old_timeout(rank: int, group: int, number: int, seq: int, op: str = "ALLREDUCE") -> str:
    """A time-out of torch 2.3, where all groups of a kind have one number."""
    head = f"[rank{rank}]:[E619 05:06:30.9{rank:02d}096625 ProcessGroupNCCL.cpp"
    return (
        f"{head}:616] [Rank {number}] {caught(seq, op)}\n"
        f"{head}:1785] [PG {group} Rank {number}] {reached_in_2_3(seq, seq, seq - 1)}"
    )

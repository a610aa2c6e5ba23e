"""Logs of jobs by their lines, and the verdict on them."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from nccl_insight.base.model import Analysis

INIT = (
    "ncclCommInitRank comm 0x{pid:x} rank {rank} nranks {n} cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0xabc"
)


def log(ranks: int = 2, of: int = 2, *, version: str = "2.27.7", done: int | None = None, closed: int = 0) -> list[str]:
    """A log of ``ranks`` of ``of`` ranks; ``done`` of them finish init, ``closed`` are destroyed."""
    lines = [f"node1:100:100 [0] NCCL INFO NCCL version {version}+cuda12.8"]
    heads = {r: f"node1:{100 + r}:{100 + r} [{r}] NCCL INFO " for r in range(ranks)}
    texts = {r: INIT.format(pid=100 + r, rank=r, n=of) for r in range(ranks)}
    lines += [f"{heads[r]}{texts[r]} - Init START" for r in range(ranks)]
    lines += [f"{heads[r]}{texts[r]} - Init COMPLETE" for r in range(ranks if done is None else done)]
    lines += [
        f"{heads[r]}comm 0x{100 + r:x} rank {r} nranks {of} cudaDev {r} busId {r}b000 - Destroy COMPLETE"
        for r in range(closed)
    ]
    return lines


def judge(tmp_path: Path, lines: list[str], name: str = "run.log") -> Analysis:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return nccl_insight.analyze([path])

"""Communicators to which NCCL printed no id: whose ranks belong together."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nccl_insight.loading import load


def _line(host: str, rank: int, nranks: int, comm: int) -> str:
    return (
        f"{host}:{500 + rank}:{700 + rank} [{rank}] NCCL INFO comm 0x7f{comm:04x} rank {rank} nranks {nranks} cudaDev "
        f"{rank} busId {rank + 1}00000 - Init COMPLETE"
    )


def _hosts(tmp_path: Path, lines: list[str]) -> list[list[str]]:
    (tmp_path / "job.log").write_text("".join(f"{line}\n" for line in lines))
    ranks = load([tmp_path]).table("ranks")
    return ranks.group_by("comm_id", maintain_order=True).agg(pl.col("host").cast(pl.String))["host"].to_list()


def test_communicators_of_one_host_each_are_not_mixed(tmp_path: Path) -> None:
    order = [("gpu01", 0), ("gpu02", 0), ("gpu02", 1), ("gpu01", 1)]
    lines = [_line(host, rank, 2, 16 * life + rank) for life in range(2) for host, rank in order]
    assert _hosts(tmp_path, lines) == [["gpu01", "gpu01"], ["gpu02", "gpu02"], ["gpu01", "gpu01"], ["gpu02", "gpu02"]]


def test_a_communicator_of_two_hosts_stays_one(tmp_path: Path) -> None:
    lines = [_line(host, rank, 4, rank) for rank, host in enumerate(["gpu01", "gpu01", "gpu02", "gpu02"])]
    assert _hosts(tmp_path, lines) == [["gpu01", "gpu01", "gpu02", "gpu02"]]

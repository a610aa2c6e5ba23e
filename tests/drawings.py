"""Runs whose figures are known by hand, and what is drawn of them."""

from __future__ import annotations

from xml.etree import ElementTree

import polars as pl

from nccl_insight.base.model import Analysis
from nccl_insight.report.figures.base import Figure
from nccl_insight.tables.run import Run, build_run
from tests import render_samples as samples
from tests.pages import build

MS = 1_000_000


def figures(run: Run, analysis: Analysis | None = None) -> dict[str, Figure]:
    return {f.id: f for f in build(analysis or samples.healthy()[0], run)}


def drawn(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(figure.svg)


def words(figure: Figure) -> list[str]:
    return [t.text or "" for t in drawn(figure).iter("text")]


def _collectives(clock: bool = True) -> Run:
    """Three collectives of three ranks; rank 2 comes last in two of them, rank 0 in one. Each transfer takes 1 ms."""
    rows = []
    late = ((0, 4, 10), (1, 0, 6), (8, 0, 0))
    for match, delays in enumerate(late):
        last = max(delays)
        for rank, delay in enumerate(delays):
            rows.append(
                {
                    "rank": rank, "op": "AllReduce", "match_id": match, "source": "kernel", "kernel": "k",
                    "start_ns": (match * 100 + delay) * MS, "duration_ns": (last - delay + 1) * MS,
                    "wait_ns": (last - delay) * MS, "skew_ns": delay * MS if clock else None,
                }
            )  # fmt: skip
    return build_run({"collectives": pl.DataFrame(rows)})


def ring_run(known: int, ranks: int = 16) -> Run:
    """Two nodes of eight ranks; the order of channel 0 is cut after ``known`` ranks."""
    hosts = pl.DataFrame(
        {
            "comm_id": "0x1",
            "rank": range(ranks),
            "nranks": ranks,
            "host": [f"node{r // 8}" for r in range(ranks)],
            "pid": range(ranks),
            "cuda_dev": [r % 8 for r in range(ranks)],
        }
    )
    order = pl.DataFrame(
        {"comm_id": "0x1", "channel": 0, "position": range(known), "rank": range(known), "truncated": known < ranks}
    )
    comms = pl.DataFrame({"comm_id": ["0x1"], "nranks": [ranks], "ranks_seen": [ranks], "n_nodes": [2]})
    return build_run({"ranks": hosts, "rings": order, "communicators": comms})

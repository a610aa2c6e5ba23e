"""Sends and receives of NCCL Inspector: numbered per rank whoever the peer is, matched by their order in a pair."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.tables.run import Run

RANKS = 8
MOST = 30


def ring(folder: Path, slow: Iterable[tuple[int, int]] = (), lost: int | None = None, apart: int = 1) -> Run:
    """A ring exchange of 4 MiB in 110 us; eight times as long in slow pairs. ``lost``: a record of rank 0. ``apart``:
    how far the ranks are that each sends to."""
    for rank in range(RANKS):
        lines: list[str] = []
        for number in range(MOST):
            for kind, away in itertools.product(("Send", "Recv"), range(1, apart + 1)):
                peer = (rank + (away if kind == "Send" else -away)) % RANKS
                pair = (rank, peer) if kind == "Send" else (peer, rank)
                took = 880 if pair in slow else 110
                perf = {
                    "p2p": kind, "p2p_sn": len(lines) + 1, "p2p_peer": peer, "p2p_msg_size_bytes": 4 << 20,
                    "p2p_exec_time_us": took + number % 3, "p2p_timing_source": "kernel_gpu",
                    "p2p_algobw_gbs": (4 << 20) / took / 1000, "p2p_busbw_gbs": (4 << 20) / took / 1000,
                }  # fmt: skip
                header = {"id": "0xbeef", "rank": rank, "n_ranks": RANKS, "nnodes": 1}
                about = {"inspector_output_format_version": "v4.1", "hostname": "h0", "pid": 700 + rank}
                lines.append(json.dumps({"header": header, "metadata": about, "p2p_perf": perf}))
        kept = [line for at, line in enumerate(lines) if rank or at != lost]
        (folder / f"h0-pid{700 + rank}.log").write_text("\n".join(kept) + "\n")
    return nccl_insight.load([str(p) for p in sorted(folder.iterdir())])


def test_all_transfers_find_their_other_side(tmp_path: Path) -> None:
    table = ring(tmp_path).table("collectives")
    assert table.height == 2 * MOST * RANKS
    assert table["match_id"].null_count() == 0
    assert table["match_id"].n_unique() == MOST * RANKS
    assert table["matched_ranks"].unique().to_list() == [2]


@pytest.mark.parametrize(("slow", "expected"), [([(3, 4)], [(3, 4)]), ([], [])])
def test_a_slow_pair(tmp_path: Path, slow: list[tuple[int, int]], expected: list[tuple[int, ...]]) -> None:
    analysis = nccl_insight.analyze(ring(tmp_path, slow))
    assert [f.ranks for f in analysis.findings if f.severity.value != "info"] == expected


def test_many_slow_pairs_are_one_finding_with_the_rank_that_all_have(tmp_path: Path) -> None:
    slow = {pair for pair in itertools.permutations(range(RANKS), 2) if 3 in pair}
    analysis = nccl_insight.analyze(ring(tmp_path, slow, apart=RANKS - 1))
    (loud,) = [f for f in analysis.findings if f.severity.value != "info"]
    assert (loud.name, loud.ranks) == ("busbw-outlier", (3,))


def test_a_lost_record_leaves_its_pair_unmatched(tmp_path: Path) -> None:
    """Which one of thirty is missing cannot be told, so none is matched with another one's other side."""
    table = ring(tmp_path, lost=10).table("collectives")
    alone = table.filter(table["match_id"].is_null())
    assert {tuple(sorted(pair)) for pair in alone.select("rank", "peer").iter_rows()} == {(0, 1)}
    assert alone.height == 2 * MOST - 1

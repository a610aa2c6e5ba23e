"""Figures of what a capture measured beside collectives: host copies by rank, and the matrix of GPU pairs."""

from __future__ import annotations

from nccl_insight.report.figures.copies import host, peers
from nccl_insight.views.copies import HostCopies, HostCopy, PeerCopies, PeerCopy
from tests import render_samples as samples

ANALYSIS, _ = samples.healthy()


def test_host_copies_are_told_by_their_span_and_the_ranks_far_below() -> None:
    rows = (HostCopy("a", 0, "h2d", 25.0, 24.5, odd=False), HostCopy(None, 3, "d2h", 5.0, None, odd=True))
    figure = host(ANALYSIS, HostCopies(rows, (5.0, 25.0), 1))
    assert figure.summary.endswith("between pinned host memory and GPUs; 1 rank far below the others of the node.")
    assert figure.table.rows == (("a", "0", "h2d", "25", "24.5", "no"), ("unknown", "3", "d2h", "5", "unknown", "yes"))
    assert figure.plot is not None
    assert [(bar["name"], bar["x"], bar["y"]) for bar in figure.plot["data"]] == [
        ("host to GPU", ["rank 0"], [25.0]), ("GPU to host", ["rank 3"], [5.0]),
    ]  # fmt: skip
    assert "far below" not in host(ANALYSIS, HostCopies(rows[:1], (25.0, 25.0), 0)).summary


def test_pairs_of_gpus_are_drawn_from_row_to_column() -> None:
    slow = PeerCopy("b", 0, 1, 39.0, 41.0, odd=False)
    view = PeerCopies(4, 2, 0, (39.0, 42.0), (slow,), "b", (0, 1), {(0, 1): 39.0, (1, 0): 42.0})
    figure = peers(ANALYSIS, view)
    assert "4 pairs of 2 nodes" in figure.summary
    assert "drawn is b, which has the slowest pair." in figure.summary
    assert figure.plot is not None
    assert figure.plot["data"][0]["z"] == [[None, 39.0], [42.0, None]]

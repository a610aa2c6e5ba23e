"""One rank of a capture."""

from __future__ import annotations

import pytest

from nccl_insight.live.capture.child import by_node


@pytest.mark.parametrize(
    ("places", "nodes"),
    [
        ([("a", 0), ("a", 1), ("b", 0), ("b", 1)], [[0, 1], [2, 3]]),
        ([("a", 0), ("b", 0), ("a", 1), ("b", 1)], [[0, 2], [1, 3]]),
        ([("pod", 0), ("pod", 1), ("pod", 0), ("pod", 1)], [[0, 1], [2, 3]]),
        ([("a", 1), ("b", 0), ("a", 0)], [[0, 2], [1]]),
    ],
)
def test_ranks_belong_to_hosts_in_any_placement(places: list[tuple[str, int]], nodes: list[list[int]]) -> None:
    assert by_node(places) == nodes

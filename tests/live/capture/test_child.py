"""One rank of a capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nccl_insight.live.capture.child import Recorder, by_node


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


def test_lines_of_a_result_are_there_as_soon_as_they_are_known(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r.jsonl")
    recorder.add("enter", op="AllReduce", size_bytes=8)
    recorder.add("end")
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"kind": "enter", "op": "AllReduce", "size_bytes": 8},
        {"kind": "end"},
    ]


def test_without_ranks_there_is_no_node() -> None:
    assert by_node([]) == []

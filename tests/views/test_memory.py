"""NCCL's memory by rank and purpose, on the GPU (``device``) and in the host's memory (``host``)."""

from __future__ import annotations

from nccl_insight.views.memory import memory
from tests.by_hand import run

MIB = 1 << 20


def test_memory_by_place_purpose_and_process() -> None:
    row = {"host": "a", "comm_id": "c", "count": 1}
    found = memory(
        run(
            nccl_memory=[
                {**row, "place": "device", "pid": 1, "rank": 0, "purpose": "buffers", "bytes": 3 * MIB},
                {**row, "place": "device", "pid": 1, "rank": None, "bytes": MIB},
                {**row, "place": "device", "pid": 2, "rank": 1, "purpose": "buffers", "bytes": 2 * MIB},
                {**row, "place": "host", "pid": 2, "rank": 1, "purpose": "proxy", "bytes": 5, "count": 2},
                {**row, "place": "host", "pid": 3, "rank": 2, "purpose": "proxy", "bytes": 0},
            ]
        )
    )
    assert found is not None
    assert [(p.place, p.processes, p.most_bytes, p.rank, p.alike) for p in found.places] == [
        ("device", 2, 4 * MIB, 0, False), ("host", 1, 5, 1, False),
    ]  # fmt: skip
    assert found.purposes == (("buffers", 5 * MIB), ("other", MIB), ("proxy", 5))
    assert [(p.place, p.ranks, p.bytes) for p in found.processes] == [
        ("device", (0,), {"buffers": 3 * MIB, "other": MIB}), ("device", (1,), {"buffers": 2 * MIB}),
        ("host", (1,), {"proxy": 5}),
    ]  # fmt: skip
    assert (found.n_amounts, found.amounts[0].bytes) == (4, 3 * MIB)


def test_processes_with_the_same_amounts_are_one_row() -> None:
    rows = [{"host": "a", "pid": n, "rank": n, "place": "device", "purpose": "x", "bytes": MIB} for n in range(3)]
    found = memory(run(nccl_memory=rows))
    assert found is not None
    assert [(p.processes, p.ranks) for p in found.processes] == [(3, (0, 1, 2))]
    assert found.places[0].alike


def test_below_one_mebibyte_nothing_is_told() -> None:
    assert memory(run(nccl_memory=[{"host": "a", "pid": 1, "place": "device", "bytes": MIB - 1}])) is None
    assert memory(run(nccl_memory=[{"host": "a", "pid": 1, "place": "device", "bytes": MIB}])) is not None
    assert memory(run()) is None

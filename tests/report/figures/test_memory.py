"""Where NCCL's memory goes: bytes by rank and purpose, on the GPU and in the host's memory."""

from __future__ import annotations

from xml.etree import ElementTree

from nccl_insight.report.figures.memory import memory
from nccl_insight.views.memory import Amount, Memory, Place, Processes
from tests import render_samples as samples
from tests.report.figures.svg import words

ANALYSIS, _ = samples.healthy()
MIB = 1 << 20


def view_of(*places: Place) -> Memory:
    rows = (
        Processes("device", 2, (0, 1), {"buffers": 3 * MIB, "other": MIB}),
        Processes("host", 3, (), {"proxy": MIB}),
    )
    amount = Amount(None, None, "device", None, None, 3 * MIB, 1_200, None)
    return Memory(places, (("buffers", 3 * MIB), ("other", MIB)), rows, (amount,), 1)


def test_the_most_of_each_place_and_what_it_is_for_is_told() -> None:
    figure = memory(
        ANALYSIS, view_of(Place("device", 2, 4 * MIB, 0, alike=True), Place("host", 3, MIB, 7, alike=False))
    )
    assert figure.summary == (
        "GPU memory: 4.0 MiB on each of 2 processes; host memory: 1.0 MiB at most, on rank 7; "
        "75% of it is for buffers. From the log's allocation lines."
    )
    unknown = memory(ANALYSIS, view_of(Place("host", 3, MIB, None, alike=False)))
    assert "at most, on one process" in unknown.summary


def test_rows_are_named_by_their_ranks_or_their_number() -> None:
    figure = memory(ANALYSIS, view_of(Place("device", 2, 4 * MIB, 0, alike=True)))
    said = words(ElementTree.fromstring(figure.svg))
    assert "ranks 0-1, GPU" in said
    assert "3 processes, host" in said
    assert figure.table.rows == (("unknown", "unknown", "device", "unknown", "other", "3.0 MiB", "1,200", "3.0 MiB"),)

"""Charts as static drawings: where marks stand, by hand; what the page shows before and without plotly."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from nccl_insight.report.figures.base import axis, layout
from nccl_insight.report.figures.chart import chart
from tests.report.figures.svg import words


def _drawn(*data: dict[str, Any], **settings: Any) -> ElementTree.Element:
    return ElementTree.fromstring(chart({"data": list(data), "layout": layout(**settings)}, "Some chart"))


def _boxes(drawing: ElementTree.Element, color: str) -> list[tuple[float, ...]]:
    """Left, top, width and height of the bars of a color."""
    paths = [p.attrib["d"] for p in drawing.iter("path") if p.attrib["fill"] == color]
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)", "".join(paths))
    return [tuple(map(float, box)) for box in found if box[2] != "13"]


def _bar(color: str, **values: Any) -> dict[str, Any]:
    return {"type": "bar", "name": color, "marker": {"color": color}, **values}


def test_stacked_bars_begin_where_those_before_end_and_are_as_long_as_their_values() -> None:
    names = ["rank 0", "rank 1"]
    first = _bar("#111111", orientation="h", y=names, x=[1.0, 2.0])
    second = _bar("#222222", orientation="h", y=names, x=[3.0, 2.0])
    drawing = _drawn(first, second, barmode="stack", yaxis={"type": "category", "autorange": "reversed"})
    one, other = _boxes(drawing, "#111111"), _boxes(drawing, "#222222")
    assert other[0][0] == pytest.approx(one[0][0] + one[0][2], abs=0.1)
    assert one[1][2] == pytest.approx(2 * one[0][2], rel=0.01)
    assert other[0][2] == pytest.approx(3 * one[0][2], rel=0.01)
    assert one[0][1] < one[1][1]  # reversed: the first name stands on top
    assert "rank 0" in words(drawing)


def test_a_log_axis_has_equal_steps_for_equal_factors() -> None:
    points = {"type": "scatter", "mode": "lines", "x": [1, 10, 100], "y": [5.0, 5.0, 5.0], "line": {"color": "#333333"}}
    drawing = _drawn(points, xaxis=axis("bytes", type="log"))
    (path,) = (p.attrib["d"] for p in drawing.iter("path") if p.attrib.get("stroke") == "#333333")
    xs = [float(x) for x in re.findall(r"[ML]([\d.]+) ", path)]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert {"1", "10", "100"} <= set(words(drawing))


def test_a_timeline_bar_starts_at_its_base() -> None:
    row = _bar("#444444", orientation="h", y=["rank 0", "rank 0"], base=[0.0, 6.0], x=[2.0, 4.0])
    one, other = _boxes(_drawn(row, barmode="overlay"), "#444444")
    assert other[0] - one[0] == pytest.approx(3 * one[2], rel=0.01)
    assert other[1] == one[1]


def test_what_is_not_visible_or_unknown_is_not_drawn() -> None:
    hidden = {"type": "scatter", "mode": "markers", "name": "hidden", "x": [1], "y": [1], "visible": False}
    gap = {"type": "scatter", "mode": "markers", "name": "shown", "x": [1, 2], "y": [None, 3.0]}
    drawing = _drawn(hidden, gap)
    dots = [p for p in drawing.iter("path") if p.attrib.get("stroke-linecap")]
    assert [p.attrib["d"].count("M") for p in dots] == [1]
    assert "hidden" not in words(drawing)


def test_values_that_are_all_alike_or_zero_are_drawn() -> None:
    for values in ([0.0, 0.0], [7.0, 7.0]):
        assert words(_drawn({"type": "scatter", "mode": "markers", "x": [0, 1], "y": values}))

"""The rows of some lines of a run, as tables of their own."""

from __future__ import annotations

from nccl_insight.facts.who.parts.rows import END, PartTables, Span
from tests.by_hand import run


def test_a_part_has_the_rows_of_its_lines() -> None:
    whole = run(
        errors=[{"input_id": i, "line": n, "text": f"{i}:{n}"} for i, n in ((0, 4), (0, 5), (0, 9), (0, 10), (1, 5))]
        + [{"input_id": 0, "text": "no line"}]
    )
    part = PartTables(whole, [Span(0, 5, 10)])
    assert part["errors"]["text"].to_list() == ["0:5", "0:9", "no line"]
    assert part.height("errors") == 3
    assert part.has("errors")
    assert not part.has("ranks")
    assert set(part) == set(whole.tables)
    both = PartTables(whole, [Span(0, 9), Span(1, 0, END)])
    assert both["errors"]["text"].to_list() == ["0:9", "0:10", "1:5", "no line"]


def test_large_tables_are_cut_piece_by_piece() -> None:
    whole = run(calls=[{"input_id": 0, "line": n, "rank": n} for n in (1, 2, 3)])
    part = PartTables(whole, [Span(0, 2, 3)])
    assert [frame.rows() for frame in part.frames("calls", "rank")] == [[(2,)]]
    assert not PartTables(whole, [Span(1)]).has("calls")

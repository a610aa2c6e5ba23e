"""What a figure is, and the colors and symbols that all figures share."""

from __future__ import annotations

import pytest

from nccl_insight.report.figures import base


def test_columns_of_numbers_are_marked_in_their_heading() -> None:
    table = base.listing("Rank#|Host|Wait#", [("0", "a", "5")], "Waits", 7)
    assert (table.columns, table.numeric, table.total, table.caption) == (("Rank", "Host", "Wait"), (0, 2), 7, "Waits")
    assert base.listing("Rank#", [("0",)], "").total == 1
    many = base.listing("Rank#", [(str(n),) for n in range(base.MAX_ROWS + 5)], "")
    assert (len(many.rows), many.total) == (base.MAX_ROWS, base.MAX_ROWS + 5)


def test_text_of_a_plot_is_inert() -> None:
    assert base.label("<b>%{x}</b>") == "&lt;b&gt;% {x}&lt;/b&gt;"
    assert base.label("x" * 500) == "x" * 60 + " ... (440 more characters)"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "unknown"),
        (0.12345, "0.123"),
        (12345.6, "12,346"),
        (7, "7"),
        (True, "yes"),
        (False, "no"),
        ("a\nb", "a b"),
    ],
)
def test_cells_are_text(value: object, shown: str) -> None:
    assert base.cells([[value]]) == ((shown,),)


def test_numbers_have_few_digits_and_settings_are_added_to_the_common_ones() -> None:
    assert base.rounded([1.234567, None, 123456.0]) == [1.235, None, 123500.0]
    made = base.layout(xaxis={"title": "t"}, barmode="stack")
    assert made["xaxis"] == {"automargin": True, "title": "t"}
    assert made["barmode"] == "stack"
    assert base.bars(["a"], [2_500_000.0], base.BLUE)["x"] == [2.5]

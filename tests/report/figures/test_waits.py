"""Who waits for whom: waiting and transfer apart, the rank that comes last marked, in every matched collective."""

from __future__ import annotations

from xml.etree import ElementTree

from nccl_insight.report.figures.waits import who_waits
from nccl_insight.views.waits import Member, Waits
from tests import render_samples as samples
from tests.report.figures.svg import words

ANALYSIS, _ = samples.healthy()


def view_of(clocks: bool) -> Waits:
    members = (
        Member(0, 0, "AllReduce", 1_000, 9_000, 5_000, last=False),
        Member(1, 0, "AllReduce", 6_000, 4_000, 0, last=True),
    )  # fmt: skip
    return Waits(
        5_000, 1, 0, {0: 5_000, 1: 0}, {1: 5_000}, {1: 1}, 4, cut=False, shown=1, clocks=clocks, members=members
    )


def test_who_came_last_is_named_with_what_the_others_waited() -> None:
    figure = who_waits(ANALYSIS, view_of(clocks=True))
    assert "All ranks together wait 5" in figure.summary
    assert "in 1 matched collective, most of it for rank 1, which came last" in figure.summary
    assert "Shown: step 4." in figure.summary
    assert [row[0] for row in figure.table.rows] == ["1", "0"]
    assert [(row[2], row[4]) for row in figure.table.rows] == [("1", "100%"), ("0", "0%")]


def test_without_a_common_clock_collectives_are_columns() -> None:
    figure = who_waits(ANALYSIS, view_of(clocks=False))
    assert "the ranks have no common clock" in figure.summary
    assert "collectives in their order" in words(ElementTree.fromstring(figure.svg))
    assert "collectives in their order" not in words(ElementTree.fromstring(who_waits(ANALYSIS, view_of(True)).svg))

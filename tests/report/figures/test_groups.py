"""How far each rank got in each process group."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from nccl_insight.report.figures.base import Figure
from nccl_insight.report.figures.groups import groups
from nccl_insight.views.groups import Group, Groups
from tests.report.figures.svg import words


def test_the_guilty_stands_first_and_level_ranks_share_a_column() -> None:
    members = dict.fromkeys(range(64), 8) | {41: 7}
    figure: Figure = groups(Groups((Group("dp", members),), by_watchdog=False, late=frozenset({41})))
    drawing = ElementTree.fromstring(figure.svg)
    assert [w for w in words(drawing) if re.match(r"r\d", w)] == ["r41", "r0-40,42-63"]
    assert float(drawing.attrib["width"]) < 600


def test_ranks_that_are_level_behind_and_silent_are_told_in_words() -> None:
    level = groups(Groups((Group("3 (dp)", {0: 5, 1: 5}),), by_watchdog=False))
    assert "1 process group; every rank has issued the same collective." in level.summary
    assert level.table is not None
    assert level.table.rows == (("dp 3 (2 ranks)", "2", "5", "none", "none"),)
    odd = groups(Groups((Group("tp", {0: 9, 1: 7, 2: None}), Group("pp", {0: 1, 1: 1})), by_watchdog=True))
    said = "with a rank that is behind or silent; behind: rank 1; silent: rank 2; the others wait."
    assert odd.summary.startswith(f"2 process groups, 1 of them {said}")
    assert odd.table is not None
    assert odd.table.rows[0] == ("process group tp (3 ranks)", "3", "9", "rank 1 by 2", "2")

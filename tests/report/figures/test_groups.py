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

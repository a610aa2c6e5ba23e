"""Figures on the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from nccl_insight.report.html.figures import drawn
from nccl_insight.report.html.markup import fill
from tests import pages
from tests import render_samples as samples


@pytest.mark.parametrize("name", sorted(samples.ALL))
def test_every_figure_has_a_drawing_that_is_sound(name: str) -> None:
    for figure in pages.build(*samples.ALL[name]()):
        panel = fill("figures.html", figures=drawn([figure], interactive=False))
        (drawing,) = re.findall(r"<svg.*?</svg>", panel, re.S)
        root = ElementTree.fromstring(drawing)
        assert "nan" not in drawing.lower().replace("nanosecond", "")
        assert float(root.attrib["width"]) > 100
        assert 'class="plot' not in panel

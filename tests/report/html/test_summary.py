"""First screen of the report."""

from __future__ import annotations

import dataclasses
import re

from nccl_insight.base.model import Analysis, Coverage, Severity
from nccl_insight.report import junit, markdown, text
from tests import pages
from tests import render_samples as samples


def test_a_note_is_called_so_in_every_output() -> None:
    note = dataclasses.replace(samples.finding(), severity=Severity.INFO)
    healthy, run = samples.healthy()
    analysis = Analysis("ok", (note,), healthy.job, Coverage(), (), samples.TOOL)
    assert "note[NI223]" in text.render(analysis, verbosity=1)
    assert "### NOTE NI223" in markdown.render(analysis)
    assert "NOTE NI223" in junit.render(analysis)
    assert ">Note</span>" in re.sub(r"<svg.*?</svg>", "", pages.render(analysis, run))

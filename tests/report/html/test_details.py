"""The rest of the report."""

from __future__ import annotations

from dataclasses import replace

from nccl_insight.base.model import Analysis, ToolOutput
from nccl_insight.report import html
from nccl_insight.views.environment import Environment, Notes, Setting, Version
from nccl_insight.views.page import page
from tests import render_samples as samples


def _page(analysis: Analysis, view: Environment | None = None, notes: Notes | None = None, command: str = "") -> str:
    """The report of an analysis of the healthy job without scripts, from its versions on."""
    whole = page(samples.healthy()[1], analysis)
    changed = replace(whole, environment=view, notes=notes or Notes((), 0))
    return html.render(analysis, changed, js="none", command=command or None).partition("<main")[2]


def test_versions_and_settings_that_differ_are_said_to() -> None:
    analysis, _ = samples.healthy()
    bare = _page(analysis, Environment((), 0, (), 0))
    assert "No version was reported." in bare
    assert "No setting was reported." in bare
    old = Version("2.10.3", None, None, None, None, (3,), ("gpu2",), odd=True)
    setting = Setting("NCCL_NO_SUCH_NAME", "<1>", None, ("gpu2",), 1, 2)
    said = _page(analysis, Environment((old,), 1, (setting,), 1))
    assert "2.10.3 (differs)" in said
    assert "Versions by rank, the odd ones first" in said
    assert "2 different values, not a name that NCCL knows" in said
    assert "<code>&lt;1&gt;</code>" in said
    assert "1 process on gpu2" in said


def test_host_tools_stand_there_only_where_there_are_some() -> None:
    analysis, _ = samples.healthy()
    assert 'id="host-tools"' not in _page(replace(analysis, outputs=()))
    said = ToolOutput("job-4711/all.log", 12, "gpu1", "nvidia-smi", "a table of GPUs", "GPU 3 is lost", ())
    shown = _page(replace(analysis, outputs=(said,))).partition('id="host-tools"')[2]
    assert "all.log:12" in shown
    assert "GPU 3 is lost" in shown


def test_where_everything_comes_from() -> None:
    analysis, _ = samples.healthy()
    open_ = _page(replace(analysis, redacted=False), command="nccl-insight analyze --password=abc run.log")
    assert "none: NOT redacted" in open_
    assert "--password=***" in open_
    assert "--password=abc" not in open_
    closed = _page(replace(analysis, redacted=True, inputs=()))
    assert "NOT redacted" not in closed
    assert "No inputs." in closed
    assert "<dt>Command" not in closed


def test_what_readers_noted_and_what_was_left_out_is_told() -> None:
    analysis, _ = samples.healthy()
    coverage = replace(analysis.coverage, foreign=1, torn=0, unknown_templates=())
    notes = Notes((("cut", "the file ends early", 9),), 1)
    said = _page(replace(analysis, coverage=coverage, not_judged=()), notes=notes)
    assert "1 line of other programs was read and not judged." in said
    assert "Every check could run." in said
    assert "the file ends early" in said
    both = replace(coverage, foreign=2, torn=1)
    assert "2 lines of other programs and 1 torn line were read and not judged." in _page(
        replace(analysis, coverage=both)
    )

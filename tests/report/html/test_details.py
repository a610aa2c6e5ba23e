"""The rest of the report."""

from __future__ import annotations

from dataclasses import replace

from nccl_insight.base.model import ToolOutput
from nccl_insight.report.html.details import environment, gaps, outputs, provenance
from nccl_insight.views.environment import Environment, Notes, Setting, Version
from tests import render_samples as samples


def test_versions_and_settings_that_differ_are_said_to() -> None:
    bare = environment(Environment((), 0, (), 0))
    assert "No version was reported." in bare
    assert "No setting was reported." in bare
    old = Version("2.10.3", None, None, None, None, (3,), ("gpu2",), odd=True)
    setting = Setting("NCCL_NO_SUCH_NAME", "<1>", None, ("gpu2",), 1, 2)
    page = environment(Environment((old,), 1, (setting,), 1))
    assert "2.10.3 (differs)" in page
    assert "Versions by rank, the odd ones first" in page
    assert "2 different values, not a name that NCCL knows" in page
    assert "<code>&lt;1&gt;</code>" in page
    assert "1 process on gpu2" in page


def test_host_tools_stand_there_only_where_there_are_some() -> None:
    analysis, _ = samples.healthy()
    assert outputs(replace(analysis, outputs=())) is None
    said = ToolOutput("job-4711/all.log", 12, "gpu1", "nvidia-smi", "a table of GPUs", "GPU 3 is lost", ())
    page = outputs(replace(analysis, outputs=(said,)))
    assert page is not None
    assert "all.log:12" in page
    assert "GPU 3 is lost" in page


def test_where_everything_comes_from() -> None:
    analysis, _ = samples.healthy()
    open_ = provenance(replace(analysis, redacted=False), "nccl-insight analyze --password=abc run.log")
    assert "none: NOT redacted" in open_
    assert "--password=***" in open_
    assert "abc" not in open_
    closed = provenance(replace(analysis, redacted=True, inputs=()), None)
    assert "NOT redacted" not in closed
    assert "No inputs." in closed
    assert "Command" not in closed


def test_what_readers_noted_and_what_was_left_out_is_told() -> None:
    analysis, _ = samples.healthy()
    coverage = replace(analysis.coverage, foreign=1, torn=0, unknown_templates=())
    page = gaps(replace(analysis, coverage=coverage, not_judged=()), Notes((("cut", "the file ends early", 9),), 1))
    assert "1 line of other programs was read and not judged." in page
    assert "Every check could run." in page
    assert "the file ends early" in page
    both = replace(coverage, foreign=2, torn=1)
    page = gaps(replace(analysis, coverage=both), Notes((), 0))
    assert "2 lines of other programs and 1 torn line were read and not judged." in page

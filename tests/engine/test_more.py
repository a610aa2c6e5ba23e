"""What the reader can add to see more, grouped by what to add and what that enables, best first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Coverage, InputInfo, NotJudged
from nccl_insight.engine.more import more_of, unread
from tests import render_samples as samples
from tests.bare_logs import log
from tests.by_hand import run as run_of


def test_subsystems_named_in_a_sentence_make_a_setting_without_its_punctuation(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join(log(closed=2)) + "\n")
    skipped = NotJudged("a-check", "no calls", "record with NCCL_DEBUG_SUBSYS=INIT,COLL, or add a trace")
    (more,) = more_of(nccl_insight.load([path]), [skipped], Coverage(lines=9, nccl_lines=9), "ok", "")
    assert more.add == "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,COLL"


LINES = Coverage(lines=9, nccl_lines=9)


def test_checks_that_want_the_same_are_named_together_and_most_come_first() -> None:
    one = [NotJudged(name, "no dump", "add the dumps of all ranks") for name in ("b", "a", "c", "d", "a")]
    two = [NotJudged("e", "no topology", "add a topology file")]
    found = more_of(run_of(), [*two, *one], LINES, "ok", "")
    assert [(m.add, m.enables) for m in found] == [
        ("add the dumps of all ranks", "4 more checks: b, a, c, ..."), ("add a topology file", "1 more check: e"),
    ]  # fmt: skip


def test_checks_of_other_kinds_of_input_are_left_out() -> None:
    trace = NotJudged("slow-step", "no trace", "add a trace", ("collectives",))
    assert more_of(run_of(), [trace], LINES, "ok", "") == ()
    with_trace = run_of(collectives=[{"rank": 0}])
    assert [m.add for m in more_of(with_trace, [trace], LINES, "ok", "")] == ["add a trace"]
    assert more_of(run_of(), [trace], Coverage(), "ok", "") == ()


@pytest.mark.parametrize(("kind", "taken", "said"), [
    ("unreadable", "core dump", ("bin.dat: core dump",)), ("unknown", "", ()), ("nccl_log", "core dump", ()),
])  # fmt: skip
def test_inputs_that_gave_nothing_are_named(kind: str, taken: str, said: tuple[str, ...]) -> None:
    analysis, _ = samples.healthy()
    info = InputInfo("bin.dat", kind, 9, "", 0, taken)
    assert unread(replace(analysis, inputs=(info,))) == said

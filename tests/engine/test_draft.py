"""What the engine works on between a rule's hit and the finished finding."""

from __future__ import annotations

from nccl_insight.base.model import Action, Confidence, Hit, Severity, Step
from nccl_insight.engine.draft import Draft
from tests.checks import rule


def test_a_hit_says_more_than_its_rule_where_it_says_something() -> None:
    one = rule("NI605")
    plain = Draft(one, Hit("it is slow"), Severity.WARNING)
    assert (plain.name, plain.confidence, plain.action) == (one.name, one.confidence, one.action)
    told = Draft(one, Hit("it is slow", confidence=Confidence.LOW, action=Action.ISOLATE), Severity.WARNING)
    assert (told.confidence, told.action) == (Confidence.LOW, Action.ISOLATE)
    causes = Draft(one, Hit("it is slow", caused_by=("connection-refused",)), Severity.WARNING).causes
    assert causes[0] == "connection-refused"
    assert set(one.caused_by) <= set(causes)


def test_steps_are_the_lines_own_else_the_hits() -> None:
    steps = (Step("check", "ls"),)
    hit = Hit("it is slow", steps=steps)
    assert Draft(rule("NI605"), hit, Severity.WARNING).steps == steps
    own = (Step("do", "talk"),)
    assert Draft(rule("NI605"), hit, Severity.WARNING, own_steps=own).steps == own

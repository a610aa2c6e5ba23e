"""Texts that stand apart from the code: each is asked for, with all values that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nccl_insight.rules
from nccl_insight.base.model import Severity
from nccl_insight.engine.steps import steps_of
from nccl_insight.rules.says import said

RULES = Path(nccl_insight.rules.__file__).parent


def test_a_severity_may_hang_on_a_value() -> None:
    loud = said("ib-port-error.ports", {"texts": ["mlx5_0"], "up": 0, "of_job": True, "some": False})
    quiet = said("ib-port-error.ports", {"texts": ["mlx5_0"], "up": 0, "of_job": False, "some": False})
    assert (loud["severity"], quiet["severity"]) == (Severity.ERROR, Severity.INFO)


_CHOICE = re.compile(r"\[\[(.*?)\]\]")  # as in nccl_insight/base/texts.py: not one within another


def _wordings(text: str) -> list[str]:
    """A text with each of its alternatives (``[[case?one||other]]``), commands in place of values."""
    choice = _CHOICE.search(text)
    if choice is None:
        return [re.sub(r"\{[^{}]*\}", "ls", text)]
    ways = [re.sub(r"^[\w.]+(?:=\w+)?\?", "", way) for way in (*choice[1].split("||"), "")]
    return [one for way in ways for one in _wordings(text[: choice.start()] + way + text[choice.end() :])]


@pytest.mark.parametrize("path", sorted(RULES.rglob("NI*.md")), ids=lambda path: path.stem)
def test_no_step_is_hidden_behind_the_comment_of_another(path: Path) -> None:
    """Behind ``# where`` a semicolon begins a step: a command, or words after ``then``, ``fix:`` or ``check:``."""
    for text in re.findall(r"(?m)^\s+next_step: (.*)", path.read_text(encoding="utf-8")):
        for wording in _wordings(text):
            assert not re.search(r"\[\[|\]\]", wording), wording
            for step in steps_of(wording):
                assert ";" not in re.sub(r"\([^()]*\)", "", step.where), (step.text, step.where)
                assert "  # " not in step.text, step.text

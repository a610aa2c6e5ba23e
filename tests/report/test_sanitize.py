"""Log text made safe to show."""

from __future__ import annotations

import pytest

from nccl_insight.report import text
from nccl_insight.report.sanitize import one_line, sanitize, scrub
from tests import render_samples as samples


def test_colour_only_when_asked_and_never_instead_of_the_word() -> None:
    analysis, _ = samples.failing()
    plain, coloured = text.render(analysis), text.render(analysis, color=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31mFAIL\x1b[0m" in coloured
    assert sanitize(coloured) == plain


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("a\x00b", "a\\x00b"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("Grüße 日本語 ✓", "Grüße 日本語 ✓"),
        ("tab\there", "tab here"),
    ],
)
def test_one_line(given: str, shown: str) -> None:
    assert one_line(given) == shown


def test_long_text_is_cut_and_says_by_how_much() -> None:
    assert sanitize("x" * 1_000_000, 10) == "xxxxxxxxxx ... (999,990 more characters)"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a --api-key abc b", "a --api-key *** b"),
        ("WANDB_API_KEY=abc x", "WANDB_API_KEY=*** x"),
        ("https://u:p@host/x", "https://***@host/x"),
        ("--password=a", "--password=***"),
        ("analyze run.log", "analyze run.log"),
    ],
)
def test_secrets_of_the_command_line_are_masked(given: str, shown: str) -> None:
    assert scrub(given) == shown

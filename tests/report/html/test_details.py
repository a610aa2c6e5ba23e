"""The rest of the report."""

from __future__ import annotations

import pytest

from nccl_insight.report.html.details import scrub


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

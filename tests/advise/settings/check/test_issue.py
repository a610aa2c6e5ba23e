"""What a check reports, and how NCCL reads a number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccl_insight.advise.settings.check.issue import as_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        (" 42", 42),
        ("-2", -2),
        ("0x10", 16),
        ("010", 8),
        ("4M", 4),
        ("true", 0),
        ("", 0),
        ("08", 0),
        ("1.", 1),
    ],
)
def test_numbers_as_strtoll_reads_them(text: str, number: int) -> None:
    assert as_number(text) == number


@settings(deadline=None)
@given(st.integers(min_value=-(2**40), max_value=2**40))
def test_plain_integers_stay_what_they_are(value: int) -> None:
    assert as_number(str(value)) == value

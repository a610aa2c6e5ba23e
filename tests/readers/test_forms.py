"""What a text is by its form, where no reader knows it."""

from __future__ import annotations

from nccl_insight.readers.forms import form_of

DEEP = '{"zq": ' + "[" * 20_000


def test_the_form_of_what_is_nested_without_end_is_told() -> None:
    assert form_of(DEEP.encode()) == "JSON with the keys zq, cut short"

"""Order of versions."""

from __future__ import annotations

import pytest

from nccl_insight.base.versions import at_least, between, version_key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("2.21.5+cuda12.4", (2, 21, 5)),
        ("2.9", (2, 9)),
        ("2.27.7-1", (2, 27, 7)),
        ("unknown", None),
        ("", None),
        (None, None),
        ("2.x", (2,)),
    ],
)
def test_a_version_is_its_numbers(text: str | None, key: tuple[int, ...] | None) -> None:
    assert version_key(text) == key


def test_versions_are_ordered_by_number_not_by_text() -> None:
    assert at_least("2.10.3", "2.9") is True
    assert at_least("2.9.8", "2.10") is False
    assert at_least("nonsense", "2.9") is None


@pytest.mark.parametrize(
    ("version", "inside"), [("2.24.2", False), ("2.24.3", True), ("2.26.1", True), ("2.26.2", False), (None, False)]
)
def test_a_range_holds_its_first_and_not_its_fixed_version(version: str | None, inside: bool) -> None:
    assert between(version, "2.24.3", "2.26.2") is inside

"""JSON that is nested without end, or is something else than was asked for, costs what it concerns and no run."""

from __future__ import annotations

import pytest

from nccl_insight.base.objects import object_of

DEEP = '{"zq": ' + "[" * 20_000


@pytest.mark.parametrize("text", [DEEP, "[" * 20_000, '{"a":' * 20_000, "[1]", '"a"', "{", "", '{"a": 1' + "0" * 5000])
def test_what_is_no_object_is_an_empty_one(text: str) -> None:
    assert object_of(text) == {}

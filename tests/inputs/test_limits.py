"""Bounds of what is read: their names, and which values they take."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.inputs.limits import DEFAULT, Limits, changed, parsed


def test_limits_are_set_by_either_form_of_their_name() -> None:
    limits = changed({"line-kib": 4, "xml_depth": 7})
    assert (limits.line_kib, limits.xml_depth, limits.files) == (4, 7, DEFAULT.files)
    assert changed({"files": 2}, limits).line_kib == 4


@pytest.mark.parametrize("values", [{"lines": 1}, {"files": 0}, {"files": "3"}, {"files": 1.5}, {"files": True}])
def test_what_is_no_limit_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(values))):
        changed(values)


def test_texts_of_the_command_line() -> None:
    assert parsed(["line-kib=4_096", "files = 3"]) == {"line-kib": 4096, "files": 3}
    for item in ("files", "files=", "files=-1", "files=1e3", "files=" + "9" * 19):
        with pytest.raises(UsageError, match="NAME=NUMBER"):
            parsed([item])


def test_a_small_stream_may_grow_freely_and_a_large_one_by_its_ratio() -> None:
    limits = Limits(expansion_ratio=10, expansion_free_mib=1)
    assert limits.expanded_bytes(100) == 1 << 20
    assert limits.expanded_bytes(1 << 20) == 10 << 20

"""Files to start a diagnosis from: codes that follow, and names that are refused."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.rules.skeleton import FAMILIES, next_code, skeleton


def test_a_code_follows_the_last_one_and_none_is_used_again() -> None:
    hundred = FAMILIES["network"]
    used = {f"NI{hundred}01", f"NI{hundred}40", f"NI{hundred + 1}50"}
    assert next_code("network", used) == f"NI{hundred}41"
    assert next_code("network", set()) == f"NI{hundred}01"
    full = {f"NI{hundred}{n:02d}" for n in range(1, 90)}
    assert next_code("network", full - {f"NI{hundred}07"}) == f"NI{hundred}07"
    with pytest.raises(UsageError, match="no code is left"):
        next_code("network", full)


@pytest.mark.parametrize(
    ("name", "family", "message"),
    [
        ("Bad_Name", "network", "no name"),
        ("nic-lost", "network", "there already"),
        ("arena-full", "weather", "no family"),
        ("../escape", "network", "no name"),
    ],
)
def test_what_cannot_begin_is_refused(name: str, family: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        skeleton(name, family, {"NI201": "nic-lost"}, logic=False)


def test_a_page_and_with_logic_a_module() -> None:
    hundred = FAMILIES["memory"]
    code = f"NI{hundred}02"
    page = f"nccl_insight/rules/memory/{code}-arena-full.md"
    used = {f"NI{hundred}01": "other"}
    assert list(skeleton("arena-full", "memory", used, logic=False)) == [page]
    files = skeleton("arena-full", "memory", used, logic=True)
    assert list(files) == [page, f"nccl_insight/rules/memory/{code.lower()}_arena_full.py"]
    assert "arena-full" in files[page]
    assert not [text for text in files.values() if "{name}" in text or "{head}" in text]

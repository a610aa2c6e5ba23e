"""What a diagnosis is to other failures, as its page says it (``nature:``), for code that treats several alike."""

from __future__ import annotations

import ast
from typing import Final

import nccl_insight
import nccl_insight.rules
from nccl_insight.base.natures import GROUPS, NATURES
from nccl_insight.base.pages import pages
from tests import source

PAGES: Final = {page.name: page for page in pages(nccl_insight.rules.__path__)}


def test_code_asks_for_natures_and_facts_that_pages_have() -> None:
    shown = {word for page in PAGES.values() for word in page.words("shows")}
    known = {"names": {*NATURES, *GROUPS, *PAGES, *(f"-{name}" for name in PAGES)}, "shown_by": shown, "Beside": shown}
    used: dict[str, set[str]] = {}
    for path in source.modules():
        text = source.text(path)
        for call in ast.walk(source.tree(path)) if "base.natures" in text or "Beside(" in text else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in known:
                words = call.args[:1] if call.func.id == "Beside" else call.args
                given = {word.value for word in words if isinstance(word, ast.Constant)}
                used.setdefault(call.func.id, set()).update(given)
    assert len(used["names"]) > 10
    for asks, words in used.items():
        assert words <= known[asks], asks
    assert {word for page in PAGES.values() for word in page.words("nature")} == NATURES

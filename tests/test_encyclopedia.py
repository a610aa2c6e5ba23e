"""The generated pages about messages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from nccl_insight.language.load import default_grammar

HOOKS = Path(__file__).parents[1] / "docs" / "hooks.py"


@pytest.fixture(name="hooks")
def hooks_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # The messages need nothing of the site generator, which is no dependency of the tests.
    for name in ("mkdocs", "mkdocs.structure", "mkdocs.structure.files"):
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name) or ModuleType(name))
    files = sys.modules["mkdocs.structure.files"]
    for name in ("File", "Files"):
        monkeypatch.setattr(files, name, getattr(files, name, object), raising=False)
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "site_hooks", module)
    spec.loader.exec_module(module)
    return module


def test_every_message_is_in_the_page_of_its_file(hooks: ModuleType) -> None:
    pages = hooks.messages()
    rows = {name: text.count("\n| ") - 1 for name, text in pages.items() if name != "index"}
    assert sum(rows.values()) == len(default_grammar().messages)
    assert "Cuda failure" in pages["errors_cuda"]
    assert "[cuda-oom-init](../checks/NI405.md)" in pages["errors_cuda"]
    assert "* [errors_ib](errors_ib.md)" in pages["index"]

"""What every start needs of the grammar's files, kept so that they need not be taken apart again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nccl_insight.language import index


def test_an_index_is_used_with_its_own_key_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outlines = {"one": index.Outline(("Chains ",), " of ", 11, False)}
    definition = ("one", '"Chains " rank " of " nranks', {"table": "rings"}, "a.lark:1")
    made = index.Index([definition], outlines, {"a.lark": [{"define": "t"}]})
    path = tmp_path / "new" / "index.json"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    index.keep(path, "key", made)
    assert not path.exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    index.keep(path, "key", made)
    assert [p.name for p in path.parent.iterdir()] == ["index.json"]
    found = index.kept(path, "key")
    assert found is not None
    assert (found.outlines, found.blocks) == (outlines, made.blocks)
    assert [tuple(row) for row in found.definitions] == made.definitions
    assert index.kept(path, "another") is None
    path.write_bytes(path.read_bytes()[:-20])
    assert index.kept(path, "key") is None
    (tmp_path / "file").write_text("x")
    index.keep(tmp_path / "file" / "index.json", "key", made)
    assert index.key_of("a") != index.key_of("b")

"""What a checkout of NCCL, RCCL or aws-ofi-nccl can print and reads as settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.base.errors import InsightError
from nccl_insight.language.sources import read_tree
from tests.source_trees import tree_at


def test_calls_and_settings_of_a_tree(tmp_path: Path) -> None:
    tree = read_tree(tree_at(tmp_path))
    assert (tree.library, tree.version) == ("nccl", "2.40.1")
    assert [(c.level, c.format) for c in tree.calls] == [
        ("WARN", 'Checked %d see "here"'),
        ("INFO", "Channel %02d/%02d : %d[%d] -> %d[%d] via P2P/%s%s"),
        ("INFO", "Fresh value 0x%lx of %s, share %g%%"),
        ("WARN", "Fresh trouble at %s:%d (%s)"),
        ("INFO", "Either fresh"),
        ("INFO", "Or fresh too %d"),
    ]
    assert tree.calls[3].arguments == ("__FILE__", "__LINE__", 'f(a, "b,c")')
    assert (tree.calls[3].line, tree.calls[3].function) == (14, "ncclNewFunction")
    assert [(s.name, s.default) for s in tree.settings] == [
        ("NCCL_BRAND_NEW_THING", "3"),
        ("NCCL_IB_TIMEOUT", "20"),
        ("NCCL_NEW_FROM_ENV", ""),
    ]
    assert tree.computed == 1


def test_a_folder_without_calls_is_no_source_tree(tmp_path: Path) -> None:
    with pytest.raises(InsightError, match="no logging calls"):
        read_tree(tmp_path)
    with pytest.raises(InsightError, match="no such folder"):
        read_tree(tmp_path / "missing")

"""Entries of the catalog for variables that a source tree reads and the catalog does not list."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.update import entries, unknown_settings
from nccl_insight.language.sources import read_tree
from tests.source_trees import tree_at


def test_settings_that_the_catalog_lacks(tmp_path: Path) -> None:
    tree = read_tree(tree_at(tmp_path))
    new = unknown_settings(catalog(), ((s.name, s.default, s.file) for s in tree.settings))
    assert [s.name for s in new] == ["NCCL_BRAND_NEW_THING", "NCCL_NEW_FROM_ENV"]
    text = entries(new, tree.library, tree.version)
    assert '[variables.NCCL_BRAND_NEW_THING]\nlibrary = "nccl"\n' in text
    assert 'type = "int"\ndefault = "3"\nsince = "2.40.1"\n' in text

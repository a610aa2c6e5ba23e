"""Of tests with very many cases, another part for every commit where the whole suite runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.slices import SEED, parts


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drops cases of tests that are marked ``part(n)``, unless somebody asks for a file or for a word of a name."""
    here = Path(__file__).parent
    if config.option.keyword or any(Path(given).resolve() not in (here, here.parent) for given in config.args):
        return
    seen: Counter[str] = Counter()
    dropped = []
    for item in items:
        mark = item.get_closest_marker("part")
        if mark is None:
            continue
        test = item.nodeid.partition("[")[0]
        if (seen[test] - SEED) % parts(mark.args[0]):
            dropped.append(item)
        seen[test] += 1
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        gone = set(dropped)
        items[:] = [item for item in items if item not in gone]

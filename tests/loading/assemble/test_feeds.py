"""The rows of all logs, given out table by table, whole or in pieces."""

from __future__ import annotations

import pytest

from nccl_insight.loading.assemble import feeds
from nccl_insight.share.api import load
from tests.cut_logs import LOGS, RUNS, same, tables


@pytest.mark.parametrize("name", LOGS)
def test_tables_made_when_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = tables(load([str(RUNS / name)]))
    monkeypatch.setattr(feeds, "_PIECE_ROWS", 10)
    same(at_once, tables(load([str(RUNS / name)], lazy=True)))
    same(at_once, tables(load([str(RUNS / name)])))

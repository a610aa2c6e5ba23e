"""The rows of all logs, given out table by table, whole or in pieces."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.load import default_grammar
from nccl_insight.loading.assemble import feeds
from nccl_insight.loading.assemble.feeds import Feeds, details
from nccl_insight.loading.assemble.tables import LogTable
from nccl_insight.readers.nccl_log.shares import Share, take
from nccl_insight.share.api import load
from tests.cut_logs import LOGS, RUNS, same, tables


@pytest.mark.parametrize("name", LOGS)
def test_tables_made_when_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = tables(load([str(RUNS / name)]))
    monkeypatch.setattr(feeds, "_PIECE_ROWS", 10)
    same(at_once, tables(load([str(RUNS / name)], lazy=True)))
    same(at_once, tables(load([str(RUNS / name)])))


SET = "gpu1:7:7 [0] NCCL INFO NCCL_{} set by environment to {}."


def feeds_of(path: Path) -> Feeds:
    path.write_text("\n".join([SET.format("NTHREADS", 256), "loss 2.5", SET.format("BUFFSIZE", 4096)]) + "\n")
    return Feeds([take(Share(tuple(find_inputs([str(path)]))), details=True).log], default_grammar())


def test_rows_of_a_table_come_in_reading_order_with_their_process(tmp_path: Path) -> None:
    found = feeds_of(tmp_path / "run.log")
    assert found.tables() == ["env"]
    assert (found.height("env"), found.height("calls")) == (2, 0)
    assert found.has("env", "name")
    assert not found.has("env", "nranks")
    whole = found.whole("env")
    assert whole is not None
    assert whole.select("name", "_host", "_pid").rows() == [("NCCL_NTHREADS", "gpu1", 7), ("NCCL_BUFFSIZE", "gpu1", 7)]
    assert found.whole("calls") is None
    assert found.sample("env").height == 0
    assert set(found.sample("env").columns) == set(whole.columns)


def test_the_last_look_at_a_table_lets_go_of_it(tmp_path: Path) -> None:
    found = feeds_of(tmp_path / "run.log")
    later = LogTable(partial(details, found, "env"), found.height("env"))
    assert later.height == 2
    assert [frame["line"].to_list() for frame in later.frames()] == [[1, 3]]
    assert [piece.height for piece in found.pieces("env", last=True)] == [2]
    assert found.height("env") == 0

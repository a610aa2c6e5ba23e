"""The MCP server."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.share.agents.server import ANSWER_CAP, answer, serve
from nccl_insight.share.agents.tools import Desk
from tests.runs import RUNS

DESK = Desk(RUNS)
RUN = "tiny-shm/run.log"


def test_an_error_of_sql_is_one_clean_line() -> None:
    with pytest.raises(RuntimeError) as told:
        answer(lambda: DESK.query("select \x1b[31m\nx from ranks", [RUN]), RuntimeError)
    assert str(told.value).startswith("query:")
    assert str(told.value).isprintable()


def test_an_answer_is_bounded() -> None:
    with pytest.raises(RuntimeError, match="ask for less"):
        answer(lambda: {"text": "x" * ANSWER_CAP}, RuntimeError)


def test_a_root_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        serve(tmp_path / "nowhere")

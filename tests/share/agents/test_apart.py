"""SQL of an agent in a process of its own, with limits of memory and time."""

from __future__ import annotations

import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.share.agents.apart import select_apart
from nccl_insight.share.agents.tools import Desk
from tests.runs import RUNS

DESK = Desk(RUNS)
RUN = "tiny-shm/run.log"


def test_sql_that_takes_too_much_ends_alone() -> None:
    run = DESK._run([RUN])
    sources = ", ".join(f"env e{i}" for i in range(12))
    with pytest.raises(UsageError, match=r"takes longer|needs more"):
        select_apart(run, f"select count(*) from {sources}", 10, seconds=3)
    assert select_apart(run, "select rank from ranks", 1)[1] == 4

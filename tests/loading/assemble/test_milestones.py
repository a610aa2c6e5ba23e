"""How far each rank of each communicator got: one row per rank, with the line of every step that its log shows."""

from __future__ import annotations

import polars as pl

from nccl_insight.loading.assemble.milestones import Milestones, extent, milestone_rows
from tests.by_hand import rows

RANK = {"comm_id": "c", "nranks": 2, "host": "a", "input_id": 0}
RANKS = rows(
    "ranks",
    {
        **RANK,
        "rank": 0,
        "pid": 7,
        "line": 3,
        "init_started": True,
        "init_started_line": 3,
        "init_complete": True,
        "init_completed_line": 9,
    },
    {**RANK, "rank": 1, "pid": 8, "line": 4, "init_started": True},
)


def frames(**tables: pl.DataFrame) -> object:
    return lambda name: [tables[name]] if name in tables else []


def test_each_step_has_the_first_line_that_shows_it() -> None:
    calls = rows("calls", *({**RANK, "rank": 0, "pid": 7, "line": n} for n in (20, 22)))
    found = milestone_rows(
        RANKS,
        frames(
            processes=rows("processes", {"host": "a", "pid": 8, "line": 2, "input_id": 0}),
            connections=rows(
                "connections",
                {
                    **{k: v for k, v in RANK.items() if k != "nranks"},
                    "pid": 7,
                    "line": 11,
                    "src_rank": 0,
                    "dst_rank": 1,
                    "direction": "send",
                },
            ),
            calls=calls,
        ),  # type: ignore[arg-type]
    )
    columns = (
        "rank",
        "launched",
        "init_started",
        "init_completed",
        "bootstrapped",
        "connected",
        "first_call",
        "last_call",
        "end",
    )
    assert found.select(columns).rows() == [
        (0, None, 3, 9, 9, 11, 20, 22, "running"), (1, 2, 4, None, None, None, None, None, "silent"),
    ]  # fmt: skip


def test_how_the_log_of_a_rank_ends() -> None:
    def ends(*destroyed: str | None) -> list[str]:
        given = [{**RANK, "rank": r, "pid": r, "line": r, "destroyed": way} for r, way in enumerate(destroyed)]
        return milestone_rows(rows("ranks", *given), frames())["end"].to_list()  # type: ignore[arg-type]

    assert ends("destroyed", "aborted") == ["destroyed", "aborted"]
    assert ends("destroyed", None) == ["destroyed", "silent"]
    assert ends(None, "no") == ["running", "running"]


def test_calls_are_counted_by_rank_and_process() -> None:
    calls = rows("calls", *({**RANK, "rank": r, "pid": 7, "line": n} for r, n in ((0, 5), (1, 6), (0, 9))))
    assert extent(calls).select("rank", "first", "last", "rows").rows() == [(0, 5, 9, 2), (1, 6, 6, 1)]


def test_a_table_that_is_asked_for_before_it_knows_of_others_is_empty() -> None:
    table = Milestones(RANKS)
    assert table.height == 2
    assert next(table.frames()).is_empty()
    table.read_from(frames(), lambda: None)  # type: ignore[arg-type]
    assert [frame.height for frame in table.last()] == [2]
    assert next(table.frames()).is_empty()

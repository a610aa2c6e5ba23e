"""Jobs that traces belong to, and ranks and peers as numbers of the job."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.tables.match.jobs import jobs_of, jobs_text, peers_of_job, ranks_of_job, without_device_numbers
from tests.by_hand import rows

HOUR = 3600 * 10**9


def infos(*given: tuple[int | None, int]) -> pl.DataFrame:
    """One trace each of (number of ranks, hour at which it began), an hour long."""
    return rows(
        "trace_info",
        *(
            {"input_id": n, "world_size": size, "start_ns": hour * HOUR, "end_ns": (hour + 1) * HOUR, "clock": "epoch"}
            for n, (size, hour) in enumerate(given)
        ),
    )


@pytest.mark.parametrize(
    ("given", "jobs"),
    [
        (((8, 0), (8, 0)), []), (((8, 0), (4, 0)), [2, 1]), (((8, 0), (8, 8)), [1, 2]), (((8, 0), (8, 7)), []),
        (((8, 0), (None, 0), (8, 9)), [1, 1, 2]),
    ],
)  # fmt: skip
def test_traces_of_other_numbers_of_ranks_or_hours_later_are_of_another_job(
    given: tuple[tuple[int | None, int], ...], jobs: list[int]
) -> None:
    assert jobs_of({"trace_info": infos(*given)}).sort("input_id")["job"].to_list() == jobs
    assert jobs_of({}).is_empty()


def test_a_note_counts_the_traces_of_each_job() -> None:
    info = pl.DataFrame({"job": [1, 1, 2], "world_size": [8, 8, None]})
    assert jobs_text(info) == (
        "the traces are of 2 jobs, each compared by itself: 2 of 8 ranks; 1 of an unknown number of ranks"
    )


def test_numbers_of_gpus_are_no_ranks_where_several_files_number_theirs() -> None:
    steps = pl.DataFrame({"input_id": [0, 1, 2], "rank": [0, 0, 5]})
    info = pl.DataFrame({"input_id": [0, 1, 2], "rank_origin": ["device", "device", "trace"]})
    assert without_device_numbers({"steps": steps, "trace_info": info})["steps"]["rank"].to_list() == [None, None, 5]
    assert without_device_numbers({"steps": steps, "trace_info": info[1:]}) == {}


def test_a_process_is_the_rank_that_it_has_in_the_largest_communicator() -> None:
    row = {"source": "inspector", "host": "a", "op": "AllReduce"}
    given = [
        {**row, "pid": pid, "process_group": group, "group_size": size, "rank": rank}
        for pid, group, size, rank in (
            (1, "w", 4, 0),
            (2, "w", 4, 1),
            (3, "w", 4, 2),
            (4, "w", 4, 3),
            (3, "s", 2, 0),
            (4, "s", 2, 1),
        )
    ]
    found = ranks_of_job(rows("collectives", *given))
    assert found["rank"].to_list() == [0, 1, 2, 3, 2, 3]
    assert found["group_ranks"].to_list()[-1] == [2, 3]
    same = rows(
        "collectives", *({**row, "pid": pid, "process_group": "w", "group_size": 4, "rank": 0} for pid in (1, 2))
    )
    assert ranks_of_job(same)["rank"].to_list() == [0, 0]


def test_a_peer_is_counted_within_the_group_where_it_cannot_be_a_name() -> None:
    pair = {"process_group": "s", "group_ranks": [4, 6], "op": "Send"}
    torch = rows("collectives", {**pair, "rank": 4, "peer": 1}, {**pair, "rank": 6, "peer": 0}, {**pair, "rank": 4})
    assert peers_of_job(torch)["peer"].to_list() == [6, 4, None]
    named = rows("collectives", {**pair, "rank": 4, "peer": 6}, {**pair, "rank": 6, "peer": 4})
    assert peers_of_job(named)["peer"].to_list() == [6, 4]

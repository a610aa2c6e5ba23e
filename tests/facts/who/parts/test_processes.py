"""Processes of the inputs, from their first to their last line that any small table knows."""

from __future__ import annotations

import random

from nccl_insight.facts.who.parts.processes import lives_of, processes_of
from tests.by_hand import run


def test_lives_of_a_process_begin_between_lines_of_one_rank() -> None:
    draw = random.Random(2)
    for _ in range(2000):
        rows = [(draw.randrange(3), 2, draw.randrange(30)) for _ in range(draw.randrange(6))]
        lines = sorted(draw.randrange(30) for _ in range(draw.randrange(6)))
        wanted = set()
        for line in lines:
            before = {rank for rank, _, at in rows if at < line}
            if any(rank in before for rank, _, at in rows if at >= line):
                wanted.add(line)
        assert lives_of(rows, lines) == sorted(wanted)


def test_processes_reach_from_their_first_to_their_last_line() -> None:
    place = {"input_id": 0, "host": "a", "nranks": 2}
    found = processes_of(
        run(
            ranks=[
                {
                    **place,
                    "pid": 8,
                    "rank": 1,
                    "line": 30,
                    "comm_id": "c",
                    "bus_id": "2b",
                    "init_complete": True,
                    "destroyed": "destroyed",
                },
                {
                    **place,
                    "pid": 7,
                    "rank": 0,
                    "line": 20,
                    "comm_id": "c",
                    "init_complete": False,
                    "init_started_line": 19,
                },
            ],
            errors=[{"input_id": 0, "host": "a", "pid": 7, "line": 50}, {"input_id": 0, "host": "a", "line": 99}],
            versions=[{"input_id": 0, "host": "a", "pid": 7, "line": 10, "nccl_version": "2.21.5"}],
        )
    )
    assert list(found) == [0]
    first, second = found[0]
    assert (first.key, first.first, first.last, first.version, first.open, first.closed) == (
        ("a", 7, 0),
        10,
        50,
        True,
        True,
        False,
    )
    assert (second.key, second.first, second.last, second.version, second.open, second.closed) == (
        ("a", 8, 0), 30, 30, False, False, True,
    )  # fmt: skip
    assert (second.ranks, second.comms, second.gpus) == ({(1, 2)}, {"c"}, {("a", "2b")})
    assert first.gpus == set()


def test_a_number_that_was_used_again_stands_for_two_processes() -> None:
    place = {"input_id": 0, "host": "a", "pid": 7, "rank": 0, "nranks": 2}
    versions = [{"input_id": 0, "host": "a", "pid": 7, "line": n, "nccl_version": "2.21.5"} for n in (1, 10)]
    found = processes_of(run(ranks=[{**place, "line": 2}, {**place, "line": 11}], versions=versions))
    assert [(p.key[2], p.first, p.last) for p in found[0]] == [(0, 1, 2), (1, 10, 11)]
    assert processes_of(run()) == {}


def test_a_line_parts_the_lives_of_a_rank_only_where_it_comes_on_both_sides() -> None:
    rows = [(0, 2, line) for line in (2, 11)]
    assert lives_of(rows, [10]) == [10]
    assert lives_of(rows, [1, 11, 12]) == [11]
    assert lives_of(rows[:1], [10]) == []

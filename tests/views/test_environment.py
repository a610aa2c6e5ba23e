"""Versions and settings of the processes, and what the readers note."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.run import build_run
from nccl_insight.tables.schema import conform
from nccl_insight.views.environment import environment, notes
from tests.by_hand import run


def test_a_version_that_is_not_printed_is_not_another() -> None:
    """NCCL prints its version on rank 0 only."""
    for versions, odd in (([None, None, "2.10.3"], []), (["2.21.5", "2.21.5", "2.10.3"], ["2.10.3"])):
        processes = pl.DataFrame({"host": ["a", "b", "c"], "pid": [1, 2, 3], "nccl_version": versions})
        shown = environment(build_run({"processes": conform("processes", processes)}))
        assert shown is not None
        assert [v.nccl for v in shown.versions if v.odd] == odd


def test_settings_that_differ_stand_first() -> None:
    setting = {"origin": "environment", "host": "a", "pid": 1}
    found = environment(
        run(
            env=[
                {**setting, "name": "NCCL_ALGO", "value": "Ring"},
                {**setting, "name": "NCCL_PROTO", "value": "LL"},
                {**setting, "name": "NCCL_PROTO", "value": "Simple", "host": "b"},
                {**setting, "name": "NCCL_PROTO", "value": "Simple", "host": "b", "pid": 2},
                {**setting, "value": "nameless"},
            ]
        )
    )
    assert found is not None
    assert [(s.name, s.value, s.hosts, s.processes, s.values) for s in found.settings] == [
        ("NCCL_PROTO", "LL", ("a",), 1, 2), ("NCCL_PROTO", "Simple", ("b",), 2, 2), ("NCCL_ALGO", "Ring", ("a",), 1, 1),
    ]  # fmt: skip
    assert (found.n_settings, found.n_versions) == (3, 0)


def test_ranks_are_those_of_the_largest_communicator() -> None:
    place = {"host": "a", "pid": 1}
    ranks = [{**place, "rank": 5, "nranks": 8}, {**place, "rank": 0, "nranks": 2}]
    found = environment(run(processes=[{**place, "nccl_version": "2.21.5"}], ranks=ranks))
    assert found is not None
    assert [(v.ranks, v.hosts, v.odd) for v in found.versions] == [((5,), ("a",), False)]


def test_without_a_log_nothing_is_told() -> None:
    assert environment(run()) is None
    assert notes(run()).total == 0
    told = notes(run(notes=[{"kind": "cut", "detail": f"note {n}", "line": n} for n in range(25)]))
    assert (told.total, len(told.notes), told.notes[1]) == (25, 20, ("cut", "note 1", 1))

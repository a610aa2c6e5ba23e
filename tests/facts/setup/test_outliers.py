"""A fact of every rank against the majority of its communicator."""

from __future__ import annotations

from nccl_insight.facts.setup import outliers
from tests.facts.tables_by_hand import _facts


def test_outliers_name_whole_hosts() -> None:
    frame = _facts(("c", 0, "a", "x"), ("c", 1, "a", "x"), ("c", 2, "b", "x"), ("c", 3, "b", "y"), ("c", 4, "z", "y"))
    (odd,) = outliers.outliers(frame, "fact")
    assert (odd.value, odd.majority, odd.ranks, odd.hosts, odd.whole_hosts) == ("y", "x", (3, 4), ("b", "z"), ("z",))
    assert [(r.input_id, r.line) for r in odd.lines] == [(0, 4), (0, 5)]
    assert odd.majority_ranks == 3


def test_outliers_compare_within_a_communicator_and_skip_unknown() -> None:
    frame = _facts(("c", 0, "a", "x"), ("c", 1, "a", None), ("d", 0, "b", "y"), (None, 0, "q", "z"))
    assert outliers.outliers(frame, "fact") == ()


def test_a_tie_goes_to_the_lowest_rank() -> None:
    (odd,) = outliers.outliers(_facts(("c", 1, "b", "y"), ("c", 0, "a", "x")), "fact")
    assert (odd.value, odd.ranks) == ("y", (1,))

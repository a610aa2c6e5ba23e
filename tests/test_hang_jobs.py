"""A few of the jobs that ``python -m tests.hang_jobs`` makes by the hundred: who is late is named, or nobody is."""

import pytest

from tests.hang_jobs import judge


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "seed", [1, 2, 6, 14, 19, 31, 4000416, 4000444, 4000475, 9000179, 9000221, 10000482, 13000018, 13000132, 14000268]
)
def test_the_late_rank_is_named(seed: int) -> None:
    outcome = judge(seed)
    assert outcome is not None
    assert outcome.job.can_tell
    assert (outcome.answer, outcome.lucky) == ("right", False), outcome.said


@pytest.mark.part(2)
@pytest.mark.parametrize(
    "seed",
    [13, 24, 33, 35, 40, 49, 4000284, 5000095, 5000277, 8000138, 9000013, 11000108, 14000154, 18000299, 21000081],
)
def test_nobody_else_is_named_where_what_is_left_does_not_tell(seed: int) -> None:
    outcome = judge(seed)
    assert outcome is not None
    assert not outcome.job.can_tell
    assert outcome.answer != "wrong", outcome.said
    assert not outcome.lucky, outcome.said


@pytest.mark.parametrize("seed", [3000013, 3000036, 3000216, 7000162, 23000477])
def test_nobody_is_named_surely_where_others_may_be_late_as_well(seed: int) -> None:
    """Two that say nothing, of which groups tell one; a log of calls that ends while the job runs; a dump not here."""
    outcome = judge(seed)
    assert outcome is not None
    assert outcome.answer != "wrong", outcome.said

"""Who waits for whom."""

from __future__ import annotations

from nccl_insight.views.waits import waits
from tests.drawings import MS, _collectives


def test_waiting_is_counted_for_the_rank_that_comes_last() -> None:
    found = waits(_collectives())
    assert found is not None
    assert found.total_ns == (10 + 6 + 5 + 6 + 8 + 8) * MS
    assert found.for_rank == {0: 16 * MS, 2: 27 * MS}
    assert found.of_rank == {0: 15 * MS, 1: 20 * MS, 2: 8 * MS}

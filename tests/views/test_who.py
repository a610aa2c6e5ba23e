"""What the inputs hold of one rank, host or process group."""

from __future__ import annotations

from nccl_insight.views.who import names, who
from tests.by_hand import run

RANKS = [
    {"comm_id": "c", "nranks": 4, "rank": r, "host": h, "pid": 10 + r, "input_id": 0, "line": r + 1}
    for r, h in enumerate("abb")
]


def test_a_rank_and_a_host_can_be_asked_for_with_and_without_their_word() -> None:
    known = run(ranks=RANKS)
    for subject in ("rank 1", "1", "Rank 1"):
        found = who(known, subject)
        assert found is not None, subject
        assert (found.kind, found.name, found.ranks, found.hosts, found.pids) == ("rank", "rank 1", (1,), ("b",), (11,))
    for subject in ("b", "host b", "node b"):
        found = who(known, subject)
        assert found is not None, subject
        assert (found.kind, found.ranks, found.pids) == ("host", (1, 2), (11, 12))


def test_a_rank_of_the_job_that_printed_nothing_is_one() -> None:
    silent = who(run(ranks=RANKS), "rank 3")
    assert silent is not None
    assert (silent.ranks, silent.hosts) == ((3,), ())
    assert who(run(ranks=RANKS), "rank 4") is None
    assert who(run(ranks=RANKS), "host z") is None
    assert who(run(), "rank 0") is None


def test_who_can_be_asked_for() -> None:
    assert names(run(ranks=RANKS))[:2] == (3, ("a", "b"))
    assert names(run())[0] == 0

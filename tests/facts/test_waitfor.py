"""Who waits for whom."""

from __future__ import annotations

from pathlib import Path

from nccl_insight.base.model import Hit
from nccl_insight.facts.claims import DUMPS
from nccl_insight.facts.waitfor import verdict
from tests.checks import check
from tests.dumps import claims, done, dumps, entry


def test_a_rank_whose_gpu_has_not_come_to_it_is_ahead_and_does_not_wait(tmp_path: Path) -> None:
    """Dumps of a running job, with starts: rank 1 has issued one collective more than the others."""
    times = {"time_discovered_started_ns": 5, "time_discovered_completed_ns": 6}
    until = [done(seq, **times) for seq in (1, 2, 3)]
    ahead = {r: until + ([entry(4)] if r == 1 else []) for r in range(4)}
    assert claims(dumps(tmp_path, ahead)) == ()
    started = entry(4, state="started", time_discovered_started_ns=7)
    (tmp_path / "waits").mkdir()
    assert [c.ranks for c in claims(dumps(tmp_path / "waits", ahead | {1: [*until, started]}))] == [(0, 2, 3)]


def test_a_rank_that_never_issued_a_collective_is_named(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [done(1), entry(2)] if r != 2 else [done(1)] for r in range(4)})
    assert [(c.ranks, c.waiting) for c in claims(run)] == [((2,), (0, 1, 3))]
    hits = [h for h in check("NI503", run) if isinstance(h, Hit)]
    assert [h.ranks for h in hits] == [(2,)]
    assert "never issued collective 2 (all_reduce 1024x2 Float)" in hits[0].title


def test_a_rank_that_waits_for_the_missing_one_is_not_blamed(tmp_path: Path) -> None:
    pair = {"process_group": ["7", "pair"], "pg_id": 1}
    run = dumps(
        tmp_path, {0: [entry(5)], 1: [entry(5)], 2: [done(4), {**entry(9), **pair}], 3: [done(4), {**done(8), **pair}]}
    )
    assert {c.ranks for c in claims(run)} == {(3,)}
    assert {c.waiting for c in claims(run)} == {(0, 1), (2,)}


def test_a_rank_that_never_finishes_what_others_finished_is_named(tmp_path: Path) -> None:
    ahead = [done(1), done(2), entry(3)]
    run = dumps(tmp_path, {0: ahead, 1: ahead, 2: [done(1), entry(2), entry(3)], 3: ahead})
    assert [(c.proof, c.ranks, c.waiting) for c in claims(run)] == [("lagging", (2,), (0, 1, 3))]


def test_retired_counts_as_done_for_gloo(tmp_path: Path) -> None:
    run = dumps(tmp_path, {r: [entry(1, retired=True), entry(2, retired=True)] for r in range(4)})
    assert claims(run) == ()
    assert verdict(run, DUMPS).waiting == frozenset()

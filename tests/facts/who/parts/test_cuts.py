"""Where attempts of a job begin: the one pass over processes gives what the definition gives."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from nccl_insight.facts.who.parts.cuts import cuts_of
from nccl_insight.facts.who.parts.processes import Process


def cuts_by_definition(
    own: Sequence[Process], failures: Iterable[int], restarts: Sequence[int], bare: Iterable[int]
) -> list[int]:
    """Lines at which another attempt or job begins in an input."""
    cuts: list[int] = []
    begin = 0
    reach = own[0].last
    for n in range(1, len(own)):
        if own[n].first > reach:
            left, right = own[begin:n], own[n:]
            said = [line for line in restarts if left[0].first <= line < right[0].first]
            failed = any(left[0].first <= line < right[0].first for line in failures)
            if said or anew_by_definition(left, right, failed):
                versions = [line for line in bare if reach < line < right[0].first]
                cuts.append(max(said) + 1 if said else min([*versions, right[0].first]))
                begin = n
        reach = max(reach, own[n].last)
    return cuts


def anew_by_definition(left: Sequence[Process], right: Sequence[Process], failed: bool) -> bool:
    """Whether the processes on the right are the ranks of the left once more, not more ranks of the same job."""
    if {c for p in left for c in p.comms} & {c for p in right for c in p.comms}:
        return False
    mine, theirs = {r for p in left for r in p.ranks}, {r for p in right for r in p.ranks}
    failed = failed or any(p.open for p in left)
    if not mine:
        hosts = {p.key[0] for p in left}
        return failed and any(p.version for p in left) and any(p.version and p.key[0] in hosts for p in right)
    if max(n for _, n in mine) == 1 or max((n for _, n in theirs), default=1) == 1:
        return False  # processes that should have found each other: separate-jobs, or replicas
    if all(p.closed for p in left if p.ranks) and theirs:
        return True
    reused = bool({p.key[:2] for p in left} & {p.key[:2] for p in right})
    if not reused and {g for p in left for g in p.gpus} & {g for p in right for g in p.gpus}:
        return True
    sizes = {max(n for _, n in mine), max((n for _, n in theirs), default=0)}
    return failed and any(n in sizes for _, n in mine & theirs)


def _drawn(draw: random.Random) -> list[Process]:
    own, at = [], 0
    for _ in range(draw.randrange(1, 9)):
        at += draw.randrange(6)
        size = draw.choice([1, 2, 2, 4])
        own.append(
            Process(
                (draw.choice("hg"), draw.randrange(5), 0),
                at,
                at + draw.choice([0, 1, 3, 10]),
                version=draw.random() < 0.4,
                ranks={(draw.randrange(3), draw.choice([size, size, 4])) for _ in range(draw.choice([0, 1, 1, 2]))},
                comms={draw.choice("abcdefghij")} if draw.random() < 0.5 else set(),
                gpus={("h", str(draw.randrange(4)))} if draw.random() < 0.5 else set(),
                open=draw.random() < 0.3,
                closed=draw.random() < 0.4,
            )
        )
    return sorted(own, key=lambda p: p.first)


def test_one_pass_gives_the_cuts_of_the_definition() -> None:
    draw = random.Random(1)
    cuts = 0
    for _ in range(3000):
        own = _drawn(draw)
        counts = ([0, 0, 1, 2], [0, 0, 0, 1], [0, 1, 3])
        failures, restarts, bare = (sorted(draw.randrange(30) for _ in range(draw.choice(some))) for some in counts)
        wanted = cuts_by_definition(own, failures, restarts, bare)
        assert cuts_of(own, failures, restarts, bare) == wanted, (own, failures, restarts, bare)
        cuts += len(wanted)
    assert cuts > 500


def test_where_ranks_come_again_another_attempt_begins() -> None:
    def process(pid: int, first: int, last: int, rank: int, **more: bool) -> Process:
        own = {"ranks": {(rank, 2)}, "comms": {f"c{pid}"}, "gpus": {("a", str(rank))}}
        return Process(("a", pid, 0), first, last, **own, **more)

    first, again = process(1, 1, 10, 0), process(2, 20, 30, 0)
    assert cuts_of([first, again], [], [], []) == [20]  # another process on the same GPU
    assert cuts_of([first, again], [], [15], []) == [16]  # a line that says so
    assert cuts_of([first, again], [], [], [12, 40]) == [12]  # a version line in front of it
    assert cuts_of([first, process(2, 20, 30, 1)], [], [], []) == []  # the other rank of the same job
    assert cuts_of([first, process(2, 9, 30, 0)], [], [], []) == []  # they live at the same time
    assert cuts_of([process(1, 1, 10, 0, closed=True), process(2, 20, 30, 1)], [], [], []) == [20]

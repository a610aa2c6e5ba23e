"""Who did not come, by what runs of the last calls of a log."""

from pathlib import Path

import pytest

from nccl_insight import load
from nccl_insight.facts.progress import drained

_INIT = "busId 1b000 commId 0x8a1f5f0c3d2e1b0{} - Init COMPLETE"


_GROUPS = (range(8), range(4), range(4, 8), range(6, 8))


def _late(
    tmp_path: Path, calls: list[tuple[int, ...]], groups: tuple[range, ...] = _GROUPS, more: str = ""
) -> frozenset[int] | None:
    """Of a job of eight ranks with the groups 0-7, 0-3, 4-7 and 6-7, and these calls in order: a group and a rank, and
    for an exchange the partner in that group."""
    lines = [
        f"n0:{40 + r}:{40 + r} [{r}] NCCL INFO ncclCommInitRank comm 0x55d{n}{r} rank {who.index(r)} nranks {len(who)} "
        f"cudaDev {r} nvmlDev {r} {_INIT.format(n)}"
        for n, who in enumerate(groups)
        for r in who
    ]
    lines += [
        f"n0:{40 + r}:{40 + r} [{r}] NCCL INFO {op}: opCount 0 sendbuff 0x7f00 recvbuff 0x7f00 count 16 "
        f"datatype 7 op 0 root {peer[0] if peer else 0} comm 0x55d{n}{r} [nranks={len(groups[n])}] stream 0x7f00"
        for n, r, *peer in calls
        for op in (("Send", "Recv") if peer else ("AllReduce",))
    ]
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n" + more)
    return drained.late(load(str(tmp_path / "run.log")))


_WORLD = [(0, r) for r in range(8)]


@pytest.mark.parametrize(
    ("calls", "truth"),
    [
        # Rank 2 stops; ranks 4 to 7 wait for it through the others, whom they do not outrun.
        ([*_WORLD, *((1, r) for r in (0, 1, 3)), *((2, r) for r in range(4, 8)), *((0, r) for r in range(4, 8))], {2}),
        # The log ends while the ranks of a group call one after another.
        ([*_WORLD, *((0, r) for r in range(5))], set()),
        # The log ends after two calls of four in a group.
        ([*_WORLD, (1, 0), (1, 1), *((2, r) for r in range(4, 8))], set()),
        # Ranks 6 and 7 exchange and may stand in it; 4 and 5 wait for them, and so do 0 to 3.
        (
            [*_WORLD, (3, 6, 1), (3, 7, 0), (2, 4), (2, 5), *((0, r) for r in range(4)), *((0, r) for r in range(4))],
            set(),
        ),
        # All ranks of a group came, and others went on: nobody waits.
        ([*_WORLD, *((1, r) for r in range(4))], None),
    ],
)
def test_who_waits_for_nobody_and_did_not_come(
    calls: list[tuple[int, ...]], truth: set[int] | None, tmp_path: Path
) -> None:
    assert _late(tmp_path, calls) == truth


@pytest.mark.parametrize(("silent", "truth"), [((8, 9, 10, 11), set()), ((8,), {8})])
def test_pairs_that_all_came_to_may_stand_in_them(silent: tuple[int, ...], truth: set[int], tmp_path: Path) -> None:
    """Ranks 8 and 9, and 10 and 11, are in an operation of their pair each when the others go on."""
    pairs = [(3, 8), (3, 9), (4, 10), (4, 11)]
    again = [(1 + r % 2, r) for r in (*range(0, 16, 2), *range(1, 16, 2)) if r not in silent]
    groups = (range(16), range(0, 16, 2), range(1, 16, 2), range(8, 10), range(10, 12))
    again += [(2, r) for r in range(1, 16, 2) if r not in silent]
    others = [(0, r) for r in range(16)]
    assert _late(tmp_path, [*others, *pairs, *again], groups, "step 30\nstep 31\n") == truth

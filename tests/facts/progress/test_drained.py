"""Who did not come, by what runs of the last calls of a log."""

from pathlib import Path

import pytest

from nccl_insight import load
from nccl_insight.facts.progress import drained

_INIT = "busId 1b000 commId 0x8a1f5f0c3d2e1b0{} - Init COMPLETE"


def _late(tmp_path: Path, calls: list[tuple[int, ...]]) -> frozenset[int] | None:
    """Of a job of eight ranks with the groups 0-7, 0-3, 4-7 and 6-7, and these calls in order: a group and a rank, and
    for an exchange the partner in that group."""
    groups = (range(8), range(4), range(4, 8), range(6, 8))
    lines = [
        f"n0:{40 + r}:{40 + r} [{r}] NCCL INFO ncclCommInitRank comm 0x55d{n}{r} rank {r - who[0]} nranks {len(who)} "
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
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
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

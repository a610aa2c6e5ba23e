"""How far each rank got in each process group."""

from __future__ import annotations

import json
from pathlib import Path

import nccl_insight
from nccl_insight.views.groups import groups
from tests.hangs import judged, log, old_timeout


def counts_of(groups: dict[str, dict[int, int]], second: int) -> str:
    """A RAS report of several communicators: operations launched by rank of the job."""
    comms = [
        {
            "hash": f"0x{name}", "size": len(counts), "ranks_count": len(counts), "missing_ranks_count": 0,
            "ranks": [
                {"rank": own, "host": f"10.0.0.{r // 2 + 1}", "pid": 4000 + r, "cuda_dev": r % 2,
                 "collective_counts": {"AllReduce": n}}
                for own, (r, n) in enumerate(counts.items())
            ],
            "missing_ranks": [],
        }
        for name, counts in groups.items()
    ]  # fmt: skip
    return json.dumps({"nccl_version": "2.28.9", "timestamp": f"2026-06-19 05:06:{second}", "communicators": comms})


def test_counts_of_ras_are_followed_through_its_communicators(tmp_path: Path) -> None:
    """Ranks 2 and 3 are behind in the job's communicator; rank 2 waits in a smaller one for rank 3."""
    groups = {"a" * 16: {0: 9, 1: 9, 2: 8, 3: 8}, "b" * 16: {2: 5, 3: 4}}
    paths = [tmp_path / f"ras{n}.json" for n in (1, 2)]
    for n, path in enumerate(paths):
        path.write_text(counts_of(groups, 40 + n))
    _, found = judged(*map(str, paths))
    assert [(f.name, f.ranks) for f in found] == [("rank-desync", (3,))]
    assert "rank 1 " not in found[0].title


def test_the_rank_that_calls_another_operation_is_first_in_the_picture(tmp_path: Path) -> None:
    """Rank 6 is the odd one of ranks 4-7; the group of ranks 0-3 stands first in the log."""
    second = [old_timeout(r, 1, r % 4, 50, "BROADCAST" if r == 6 else "ALLREDUCE") for r in (4, 5, 6, 7)]
    first = [old_timeout(r, 1, r, 50) for r in range(4)]
    view = groups(nccl_insight.load([log(tmp_path / "run.log", *first, *second)]))
    assert view is not None
    assert view.late == {6}
    assert set(view.groups[0].issued) == {4, 5, 6, 7}

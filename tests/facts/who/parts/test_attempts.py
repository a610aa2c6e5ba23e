# ruff: noqa: E501 (lines of logs)
"""Each attempt of a job is judged like the last one, and the causes are compared."""

from __future__ import annotations

from pathlib import Path

import nccl_insight
from tests.kernel_lines import PIDS, host_of

RESTART = (
    "W1117 12:01:00.000000 7001 torch/distributed/elastic/agent/server/api.py:730] [default] Worker group FAILED. "
    "2/3 attempts left; will restart worker group"
)
CLOSED = [
    f"comm 0x55d0a{r} rank {r} nranks 8 cudaDev {r % 4} busId {r % 4 + 1}b000 - Destroy COMPLETE" for r in range(8)
]


def attempt(number: int, raised: str = "", rank: int = 5) -> list[str]:
    """Eight ranks in processes of their own; the exception of one, and a peer that lost it; or an orderly end."""
    pids = [pid + 1000 * number for pid in PIDS]
    lines = [
        f"{host_of(r)}:{pids[r]}:{pids[r]} [{r % 4}] NCCL INFO ncclCommInitRank comm 0x55d0a{r} rank {r} nranks 8 cudaDev "
        f"{r % 4} nvmlDev {r % 4} busId {r % 4 + 1}b000 commId 0x7d1ab3c{number} - Init {state}"
        for state in ("START", "COMPLETE")
        for r in range(8)
    ]
    if not raised:
        return lines + [f"{host_of(r)}:{pids[r]}:{pids[r]} [{r % 4}] NCCL INFO {CLOSED[r]}" for r in range(8)]
    return [
        *lines,
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/app/train.py", line 88, in <module>',
        f"[rank{rank}]: {raised}",
        f"gpu01:{pids[0]}:{pids[0] + 9} [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer gpu02<40110>",
        RESTART,
    ]


def several(tmp_path: Path, *attempts: list[str]) -> nccl_insight.Finding:
    log = tmp_path / "run.log"
    log.write_text("".join(f"{line}\n" for lines in attempts for line in lines))
    (found,) = [f for f in nccl_insight.analyze([log]).findings if f.name == "several-attempts"]
    return found


def test_the_same_cause_in_all_of_them(tmp_path: Path) -> None:
    found = several(tmp_path, *(attempt(n, "KeyError: 'labels'") for n in (1, 2, 3)))
    assert "the same cause in 3 of 3 attempts" in found.title
    assert "Attempt 1: Rank 5 on gpu02 raised KeyError" in found.explanation


def test_the_last_one_did_not_fail(tmp_path: Path) -> None:
    found = several(tmp_path, attempt(1, "KeyError: 'labels'"), attempt(2, "KeyError: 'labels'"), attempt(3))
    assert "2 failed of the same cause (application-exception), the last one did not" in found.title


def test_causes_on_other_hosts_are_not_the_same(tmp_path: Path) -> None:
    found = several(tmp_path, attempt(1, "KeyError: 'labels'"), attempt(2, "KeyError: 'labels'", rank=1))
    assert "each for another cause" in found.title


def test_an_attempt_of_which_nothing_is_said_is_not_judged_in_place_of_the_one_that_failed(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    failed = ["Traceback (most recent call last):", '  File "main.py", line 29, in main', "KeyError: 'labels'", RESTART]
    log.write_text("\n".join([*failed, "[default] Stopping worker group", ""]))
    analysis = nccl_insight.analyze([log])
    assert [f.name for f in analysis.findings if f.severity == "error"] == ["application-exception"]
    log.write_text("\n".join([*failed, *(f"step {n} loss 2.1" for n in range(40)), ""]))
    assert [f.name for f in nccl_insight.analyze([log]).findings if f.severity == "error"] == []


def test_a_host_whose_next_attempt_says_nothing_is_restarted_with_the_others(tmp_path: Path) -> None:
    """Without lines of init: what the second host reports belongs to the attempt that ended, not to the last one."""
    raised = (
        "[rank1]: Traceback (most recent call last):\n[rank1]: RuntimeError: CUDA error: unspecified launch failure"
    )
    closed = "gpu02:7:9 [0] misc/socket.cc:71 NCCL WARN socketProgress: Connection closed by remote peer 10.0.0.1<401>"
    trained = "\n".join(f"step {n} | loss 2.1" for n in range(40))
    (tmp_path / "gpu01.log").write_text(f"{raised}\n{RESTART}\n{trained}\ntraining finished\n")
    (tmp_path / "gpu02.log").write_text(f"{closed}\n{RESTART}\n")
    analysis = nccl_insight.analyze([tmp_path])
    assert [f.name for f in analysis.findings if f.severity.value in {"warning", "error"}] == []

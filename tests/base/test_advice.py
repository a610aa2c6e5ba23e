"""What helps, by the reason that a line gives: exceptions of programs, and ends from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from nccl_insight.base.advice import advised, offered
from nccl_insight.share.api import analyze

BEFORE = (
    "gpu01:4000:4500 [0] NCCL INFO ncclCommInitRankConfig comm 0x50 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 10000 "
    "commId 0xabc1 - Init COMPLETE\n"
    "gpu02:4001:4501 [0] NCCL INFO ncclCommInitRankConfig comm 0x51 rank 1 nranks 2 cudaDev 0 nvmlDev 0 busId 10000 "
    "commId 0xabc1 - Init COMPLETE\n"
)
TRACE = '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/w/train.py", line 90, in <module>\n'


@pytest.mark.parametrize(
    ("lines", "title", "step"),
    [
        (f"{TRACE}[rank0]: OSError: [Errno 28] No space left on device: '/ckpt/a.pt'\n", "No space left", "df -h"),
        (
            f"{TRACE}[rank0]: RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 704 vs 598\n"
            f"{TRACE}[rank0]: OSError: [Errno 122] Disk quota exceeded\n",
            "Disk quota",
            "df -h",
        ),
        (f"{TRACE}[rank0]: OSError: [Errno 116] Stale file handle\n", "Stale file", "mount the file system"),
        (f"{TRACE}[rank0]: ModuleNotFoundError: No module named 'flash_attn'\n", "flash_attn", "same image"),
        (f"{TRACE}[rank0]: ValueError: Loss is nan, stopping training\n", "Loss is nan", "learning rate"),
        (f"{TRACE}[rank0]: KeyError: 'doc_7'\n", "doc_7", "/w/train.py:90"),
        (
            "slurmstepd: error: *** JOB 771 ON gpu01 CANCELLED AT 2026-11-20T12:00:00 DUE TO TIME LIMIT ***\n",
            "TIME LIMIT",
            "more time",
        ),
        ("srun: error: Node failure on gpu02\n", "lost node gpu02", "scontrol show node gpu02"),
        (
            "  Warning  Evicted  2m  kubelet  The node was low on resource: ephemeral-storage. Threshold quantity: "
            "10Gi, available: 2Gi.\n",
            "ephemeral-storage",
            "volume that is mounted",
        ),
    ],
)
def test_the_step_fits_the_reason(lines: str, title: str, step: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(BEFORE + lines)
    first = analyze(log).findings[0]
    assert title in first.title
    assert any(step in s.text for s in first.steps)


RAY = (
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "\tclass_name: Trainer\n\tpid: 882\n\tip: 10.9.0.5\n"
)


def test_what_ended_an_actor_stands_for_its_death(tmp_path: Path) -> None:
    log = tmp_path / "ray.log"
    log.write_text(BEFORE + RAY)
    assert "died" in analyze(log).findings[0].title
    log.write_text(BEFORE + RAY + "The actor died because its node has died. Node Id: 8aa1\n")
    assert analyze(log).findings[0].name == "job-ended-by-scheduler"


def test_the_absent_rank_is_named_where_the_others_gave_up(tmp_path: Path) -> None:
    for rank in (0, 1, 3):
        start = f"n{rank}:70:71 [0] NCCL INFO ncclCommInitRankConfig comm 0x7{rank} rank {rank} nranks 4 cudaDev 0 "
        (tmp_path / f"rank{rank}.log").write_text(
            f"{start}nvmlDev 0 busId 10000 commId 0x77aa - Init START\n"
            f"[rank{rank}]:[E1120 10:40:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran "
            "for 600003 milliseconds before timing out.\n"
        )
    first = analyze(tmp_path).findings[0]
    assert (first.name, first.ranks) == ("rank-missing-in-init", (2,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Timed out. Please check the cables. You may need to raise it.",
            "Please check the cables. You may need to raise it.",
        ),
        ("No GPU found. Make sure that each node has one.", "Make sure that each node has one."),
        ("It failed. Please report this bug.", ""),  # where to turn, not what to do
        ("It failed. Please check the logs of the worker.", ""),
        ("Check failed: n == 3", ""),  # cut off, or an assertion
        ("The worker failed to set up.", ""),
    ],
)
def test_sentences_that_tell_what_to_do(text: str, said: str) -> None:
    assert advised(text) == said


def test_a_setting_to_launch_with_is_offered() -> None:
    step = offered("No multicast here. Launch app with UB_SKIPMC=1 to try CUDA IPC instead.")
    assert step is not None
    assert step.text == "export UB_SKIPMC=1"
    assert offered("It was built and run with USE_NCCL=1 on this host") is None
    assert offered("Couldn't set FI_OPT_EFA_EMULATED_WRITE. RC: -92") is None

"""``nccl-insight why``: what is known of a rank, a host, a group; whether it is the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import run_cli

_ID = "0x77d1"
_HOSTS = ("gpu01", "gpu02")


def _log(folder: Path, silent: int = 2) -> Path:
    """Four ranks on two hosts; one does not come to operation 35, in which the others time out."""
    lines = []
    for r in range(4):
        host = _HOSTS[r // 2]
        head = f"{host}:{4000 + r}:{4000 + r} [{r % 2}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks 4 "
        lines += [
            f"{head}cudaDev {r % 2} nvmlDev {r % 2} busId {r}b000 commId {_ID} - Init {w}"
            for w in ("START", "COMPLETE")
        ]
    lines += [
        f"[rank{r}]:[E601 10:10:01.123456789 ProcessGroupNCCL.cpp:629] [Rank {r}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=35, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
        "milliseconds before timing out."
        for r in range(4)
        if r != silent
    ]
    lines += [
        f"[rank{r}]:[E601 10:10:01.223456789 ProcessGroupNCCL.cpp:1537] [PG 0 Rank {r}] Timeout at NCCL work: 35, last "
        "enqueued NCCL work: 35, last completed NCCL work: 34."
        for r in range(4)
        if r != silent
    ]
    path = folder / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _log(tmp_path_factory.mktemp("why"))


def _why(subject: str, log: Path) -> str:
    done = run_cli("why", subject, log)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.part(2)
@pytest.mark.parametrize("subject", ["rank 2", "2", "Rank 2"])
def test_the_rank_that_did_not_come_is_the_cause(log: Path, subject: str) -> None:
    said = _why(subject, log)
    assert said.startswith("Rank 2 on gpu02 (pid 4002)\n")
    assert "\nThe cause: Rank 2 on gpu02 did not come" in said
    assert "  check: " in said


def test_a_rank_that_waits_is_not_the_cause(log: Path) -> None:
    said = _why("rank 1", log)
    assert "The cause: Rank 1" not in said
    assert "Rank 2 on gpu02 did not come" in said
    assert "How far it is:" in said
    assert "level with the furthest" in said


def test_a_host_answers_for_its_ranks(log: Path) -> None:
    said = _why("host gpu01", log)
    assert said.startswith("Host gpu01 (ranks 0-1)\n")
    assert "  ranks 0-1: " in said
    assert _why("gpu02", log).startswith("Host gpu02 (ranks 2-3)\n")


@pytest.mark.part(2)
@pytest.mark.parametrize("subject", ["rank 4", "host gpu09", "group 7", "", "*"])
def test_what_is_not_there_is_said_with_what_is(log: Path, subject: str) -> None:
    done = run_cli("why", subject, log)
    assert done.returncode == 3
    assert "4 ranks; hosts gpu01, gpu02" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_of_its_own_shows_its_end(tmp_path: Path) -> None:
    whole = _log(tmp_path).read_text().splitlines()
    (tmp_path / "run.log").unlink()
    for r in range(4):
        own = [line for line in whole if f" rank {r} " in line or f"[rank{r}]" in line]
        (tmp_path / f"rank{r}.log").write_text("\n".join([*own, f"bye from {r}"]) + "\n")
    said = _why("rank 3", tmp_path)
    assert "Its last lines:" in said
    assert "bye from 3" in said
    assert "bye from 1" not in said

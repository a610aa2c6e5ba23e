"""The story of a job: order, time, place and cause of its moments; what no line tells is not told."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Analysis, Job, Moment
from nccl_insight.engine.story import story as story_of
from nccl_insight.report import json_, markdown, story, ticket
from nccl_insight.report import text as plain
from tests.by_hand import run
from tests.cli import run_cli
from tests.runs import HEALTHY, TINY_SHM

_ID = "0x77d1"


def _init(ranks: int, host: str = "gpu01") -> list[str]:
    lines = []
    for r in range(ranks):
        head = f"{host}:{4000 + r}:{4000 + r} [{r}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks {ranks}"
        lines += [
            f"{head} cudaDev {r} nvmlDev {r} busId {r}b000 commId {_ID} - Init {w}" for w in ("START", "COMPLETE")
        ]
    return lines


def _waits(rank: int, clock: str = "10:10:01") -> str:
    return (
        f"[rank{rank}]:[E601 {clock}.123456789 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=35, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) "
        "ran for 600012 milliseconds before timing out."
    )


def _of(tmp_path: Path, lines: list[str]) -> Analysis:
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n")
    return nccl_insight.analyze(path)


def _kinds(moments: tuple[Moment, ...]) -> list[str]:
    return [m.kind for m in moments]


@pytest.fixture(scope="module")
def hang(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    steps = [f"2000-06-01 09:{50 + n}:00 INFO step {n} of 900 loss 2.{n}" for n in range(3)]
    return _of(tmp_path_factory.mktemp("hang"), [*_init(4), *steps, *(_waits(r) for r in (0, 1, 3))])


def test_a_hang_began_when_the_operation_was_issued_not_when_the_time_was_up(hang: Analysis) -> None:
    assert _kinds(hang.story) == ["start", "init", "last step", "cause", "gave up", "end"]
    start, init, step, cause, gave_up, end = hang.story
    assert (start.text, start.time) == ("4 ranks on 1 node", "before 06-01 09:50:00")
    assert init.text == "init completed on all 4 ranks"
    assert step.text == "step 2 of 900; no other step for 8 min"
    assert step.time == "06-01 09:52:00"
    assert (cause.ranks, cause.time, cause.about) == ((2,), "06-01 10:00:01", True)
    assert gave_up.text == "Ranks 0-1,3 time out in ALLREDUCE 35 after 600 s (watchdog)"
    assert gave_up.time == "06-01 10:10:01"
    assert end.text == "how it ended is not in the log"
    assert cause.anchor == hang.findings[0].anchor
    places = [m.evidence.line for m in hang.story if m.evidence]
    assert places == [1, 8, 11, 12, 12, 14]


def test_a_cause_without_a_clock_is_told_before_what_follows(tmp_path: Path) -> None:
    failed = (
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
        "NumCudaDevices() that might have already set an error? Error 803: system has unsupported display driver / "
        "cuda driver combination"
    )
    ended = "slurmstepd: error: *** STEP 71.0 ON gpu01 CANCELLED AT 2026-01-12T10:10:06 ***"
    (tmp_path / "slurm-71_0.out").write_text("\n".join([*_init(4)[0:4:2], ended]) + "\n")
    (tmp_path / "slurm-71_3.out").write_text(f"[rank3]: {failed}\n")
    kinds = _kinds(nccl_insight.analyze(tmp_path).story)
    assert kinds.index("cause") < kinds.index("effect")


def test_who_gave_up_on_an_error_did_not_time_out(tmp_path: Path) -> None:
    gave_up = (
        "[rank0]:[E601 09:55:01.123456789 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure "
        "detected by watchdog at work sequence id: 35 PG status: last enqueued work: 35, last completed work: 34"
    )
    story = _of(tmp_path, [*_init(4), gave_up, *(_waits(r) for r in (2, 3))]).story
    assert [m.text for m in story if m.kind == "gave up"] == [
        "Rank 0 gives up in operation 35 (watchdog)",
        "Ranks 2-3 time out in ALLREDUCE 35 after 600 s (watchdog)",
    ]


def test_every_output_tells_the_same_story(hang: Analysis) -> None:
    told = "step 2 of 900; no other step for 8 min"
    assert told in plain.render(hang)
    assert told in ticket.chat(hang)
    assert told in story.whole(hang)
    assert f"last step: {told} (`run.log:11`)" in markdown.render(hang)
    assert "about 10:00:01   cause      Rank 2" in plain.render(hang)
    assert json_.to_dict(hang)["story"][3]["kind"] == "cause"
    assert "09.52.00 : last step - step 2 of 900" in story.mermaid(hang.story)


def test_markdown_draws_who_waits_for_whom(hang: Analysis, tmp_path: Path) -> None:
    graph = story.waits(hang)
    assert 'waiting["ranks 0-1,3"] -- wait for --> late["rank 2 on gpu01"]' in graph
    assert f"```mermaid\n{graph}\n```" in markdown.render(hang)
    killed = [*_init(2), "/usr/bin/bash: line 1:  4001 Killed                  python train.py", _waits(0)]
    assert story.waits(_of(tmp_path, killed)) == ""


def test_a_moment_without_a_clock_says_between_which_lines_it_stands(tmp_path: Path) -> None:
    lines = [
        *_init(2),
        "2025-03-02 10:00:00 INFO step 7 loss 1.0",
        "/usr/bin/bash: line 1:  4001 Killed                  python train.py",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.",
        "slurmstepd: error: *** STEP 77.0 ON gpu01 CANCELLED AT 2025-03-02T10:05:00 ***",
    ]
    moments = _of(tmp_path, lines).story
    cause = next(m for m in moments if m.kind == "cause")
    assert cause.time == "after 2025-03-02 10:00:00"
    assert cause.time_s is None
    step = next(m for m in moments if m.kind == "last step")
    assert step.text.startswith("step 7")
    assert "77" not in step.text
    assert _kinds(moments)[-1] == "end"


def test_a_healthy_job_keeps_its_line(tmp_path: Path) -> None:
    analysis = nccl_insight.analyze(HEALTHY)
    assert analysis.status == "ok"
    assert _kinds(analysis.story)[0] == "start"
    assert story.TITLE.lower() not in plain.render(analysis)
    assert "progress: init completed" in plain.render(analysis)


def test_a_first_screen_holds_nine_moments_with_cause_and_end() -> None:
    many = tuple(Moment(kind, "x") for kind in ("start", "init", *["effect"] * 20, "cause", *["died"] * 5, "end"))
    shown = story.first_screen(many)
    assert len(shown) == 9
    assert {"cause", "end", "init"} <= set(_kinds(shown))
    assert _kinds(shown)[-1] == "end"


def test_the_story_is_redacted() -> None:
    shown = run_cli("analyze", TINY_SHM, "--redact", "--format", "story").stdout
    assert "cause" in shown
    assert "node00" not in shown
    assert "node1" in shown


def test_traces_have_no_story(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\n\nprint(torch.__version__)\n")
    assert "no story of a job" in story.whole(nccl_insight.analyze(path))


def test_inputs_that_are_no_log_of_a_job_have_no_story() -> None:
    assert story_of(run(), (), Job()) == ()
    assert story_of(run(collectives=[{"rank": 0}]), (), Job()) == ()

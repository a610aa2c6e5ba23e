"""How far each rank of each communicator is, what changed, and what to do on a stall."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nccl_insight.live.watch.progress import Watch
from tests import live_job
from tests.live_job import Job

# --- what the program says of itself -----------------------------------------------------------------------


def spoken(tmp_path: Path, texts: dict[float, str], **more: Any) -> tuple[list[tuple[float, str]], Watch]:
    """A job of 8 ranks; what rank 0 prints besides, and when."""
    job = Job(tmp_path, 8, **more)
    for moment, text in texts.items():
        before = job.at.get(moment)

        def say(job: Job, text: str = text, before: Callable[[Job], None] | None = before) -> None:
            job.add(0, text + "\n")
            if before is not None:
                before(job)

        job.at[moment] = say
    events, state = job.watched(330.0)
    return [(at, event.kind) for at, event in events], state


def test_steps_are_counted_as_the_program_prints_them(tmp_path: Path) -> None:
    line = " iteration {:8d}/     400 | elapsed time per iteration (ms): 512.5 | lm loss: 2.1E+00 |"
    said, state = spoken(tmp_path, {float(n): line.format(n) for n in range(10, 60)})
    assert said == []
    assert (state.step, state.step_s) == (59, 0.5125)


def test_the_last_step_and_the_programs_own_word_end_the_watch(tmp_path: Path) -> None:
    stop = {60.0: live_job.stop}
    said, state = spoken(tmp_path / "a", {60.0: " iteration      400/     400 | lm loss: 2.1E+00 |"}, at=dict(stop))
    assert said == [(120.0, "ended")]
    said, state = spoken(tmp_path / "b", {60.0: "Training completed successfully."}, at=dict(stop))
    assert said == [(120.0, "ended")]
    assert not state.troubled


def test_a_bar_of_files_that_are_loaded_is_not_the_end(tmp_path: Path) -> None:
    bar = "Loading checkpoint shards: 100%|##########| 30/30 [00:41<00:00,  1.37s/it]"
    said, state = spoken(tmp_path, {60.0: bar}, pauses=((61.0, 180.0),))
    assert said == []
    assert state.state == "running"


def test_the_first_rank_may_save_for_all(tmp_path: Path) -> None:
    """It says so, and nothing is news; it does not, and the others wait for it: no stall before a long time."""
    at: dict[float, Callable[[Job], None]] = {60.0: lambda job: job.stopped.add(0)}
    said, _ = spoken(tmp_path / "a", {59.0: "saving checkpoint at iteration     118 to /ckpt"}, at=dict(at))
    assert said == [(300.0, "behind"), (300.0, "stall")]
    said, _ = spoken(tmp_path / "b", {}, at=dict(at))
    assert said == [(70.0, "behind"), (300.0, "stall")]

"""Steps as programs print them: read in every form, judged by their rhythm."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

import nccl_insight
from nccl_insight.base.model import Analysis
from nccl_insight.facts.lateness.printed import longest, periodic, shift, stalled
from nccl_insight.tables.run import Run
from tests.bare_logs import judge, log
from tests.by_hand import run


def steps(costs: list[float], *, first: int = 1, stamps: bool = True, each: str = "") -> list[str]:
    clock = datetime.datetime(2026, 11, 20, 10)
    lines = []
    for n, cost in enumerate(costs, first):
        clock += datetime.timedelta(seconds=cost)
        lines.append(f"{clock:%Y-%m-%d %H:%M:%S} " * stamps + f"step {n} loss 2.{n:04d}{each.format(cost=cost)}")
    return lines


def found(analysis: Analysis) -> dict[str, str]:
    return {
        f.name: f"{f.severity.value}: {f.title}"
        for f in analysis.findings
        if f.name in ("progress-stalled", "step-time-shift")
    }


STATED = " {cost:.2f} s/step"
EVEN = [2.0 + 0.01 * (n % 3) for n in range(60)]


def test_a_change_names_the_step_and_both_times(tmp_path: Path) -> None:
    said = found(judge(tmp_path, [*log(), *steps([*EVEN[:40], *(c * 1.6 for c in EVEN[40:])], each=STATED)]))
    assert said == {
        "step-time-shift": "warning: Steps are slower from step 41 on (2026-11-20 10:01:23): 2.01 s before, "
        "3.22 s after"
    }


def test_a_rate_that_falls_is_told_as_printed(tmp_path: Path) -> None:
    rates = [7000 + n % 5 for n in range(30)] + [5000 + n % 5 for n in range(30)]
    lines = [f"step: {n}  loss: 7.1  tps: {r:,}  mfu: 35.4%" for n, r in enumerate(rates)]
    assert found(judge(tmp_path, [*log(), *lines])) == {
        "step-time-shift": "warning: The rate fell from step 30 on: 7,002 before, 5,002 after"
    }


def test_a_run_that_slows_little_by_little_is_told_as_such(tmp_path: Path) -> None:
    said = found(judge(tmp_path, [*log(), *steps([2.0 * 1.01**n for n in range(120)], each=STATED)]))
    assert "little by little" in said["step-time-shift"]


@pytest.mark.parametrize(
    "costs",
    [
        pytest.param(EVEN, id="even"),
        pytest.param([30.0, 12.0, 5.0, *EVEN], id="warm-up"),
        pytest.param([*(3.5 + 0.01 * (n % 3) for n in range(20)), *EVEN], id="faster"),
        pytest.param([*EVEN[:30], 60.0, *EVEN[30:]], id="one slow step"),
        pytest.param([*EVEN[:56], 4.0, 4.1, 4.0], id="three slow steps at the end"),
        pytest.param([2.0 + 0.4 * ((n * 7919) % 11) / 11 for n in range(80)], id="noise"),
    ],
)
def test_a_healthy_rhythm_is_quiet(tmp_path: Path, costs: list[float]) -> None:
    assert found(judge(tmp_path, [*log(), *steps(costs, each=STATED)])) == {}


def test_every_nth_step_is_told_with_what_it_costs(tmp_path: Path) -> None:
    costs = [4.0 if n % 4 == 3 else 2.0 for n in range(60)]
    said = found(judge(tmp_path, [*log(), *steps(costs, each=STATED)]))
    assert said == {"step-time-shift": "warning: Every 4 steps one takes 4 s instead of 2 s"}


def test_a_checkpoint_every_nth_step_is_a_note_that_says_so(tmp_path: Path) -> None:
    lines = steps([12.0 if n % 10 == 9 else 2.0 for n in range(80)], each=STATED)
    with_saves = [part for n, line in enumerate(lines) for part in (["Saving checkpoint"] * (n % 10 == 9) + [line])]
    said = found(judge(tmp_path, [*log(), *with_saves]))
    assert said == {"step-time-shift": "info: Every 10 steps one takes 12 s instead of 2 s: a checkpoint"}


LATER = "2026-11-20 {at} heartbeat: node1 is alive"


def test_silence_behind_a_rhythm_is_a_stall(tmp_path: Path) -> None:
    analysis = judge(tmp_path, [*log(), *steps(EVEN), LATER.format(at="10:40:00")])
    assert found(analysis) == {
        "progress-stalled": "warning: Steps stopped: the last is step 60 at 2026-11-20 10:02:00, then "
        "nothing for 38 min"
    }


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([LATER.format(at="10:03:00")], id="a minute"),
        pytest.param(["Training completed.", LATER.format(at="10:40:00")], id="done"),
        pytest.param(["saving checkpoint", LATER.format(at="10:20:00")], id="a checkpoint"),
        pytest.param(["running validation", LATER.format(at="10:20:00")], id="an evaluation"),
    ],
)
def test_a_pause_or_an_end_is_no_stall(tmp_path: Path, more: list[str]) -> None:
    assert found(judge(tmp_path, [*log(), *steps(EVEN), *more])) == {}


def test_the_announced_last_step_is_no_stall(tmp_path: Path) -> None:
    lines = [line.replace(" loss", "/60 loss") for line in steps(EVEN)]
    assert found(judge(tmp_path, [*log(), *lines, LATER.format(at="10:40:00")])) == {}


def test_a_known_failure_makes_the_last_step_a_note(tmp_path: Path) -> None:
    gone = "2026-11-20 10:40:00 srun: error: node1: task 1: Segmentation fault (core dumped)"
    analysis = judge(tmp_path, [*log(), *steps(EVEN), gone])
    assert analysis.findings[0].name == "process-crashed"
    assert found(analysis)["progress-stalled"].startswith("info: Steps stopped: the last is step 60")


def test_a_hang_that_was_seen_tells_the_last_step(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("\n".join([*log(), *steps(EVEN)]) + "\n")
    assert found(nccl_insight.analyze([path])) == {}
    assert "step 60" in found(nccl_insight.analyze([path], symptom="hang"))["progress-stalled"]


def test_counting_again_from_the_start_begins_a_new_series(tmp_path: Path) -> None:
    again = steps([3.0] * 30, each=STATED)
    assert found(judge(tmp_path, [*log(), *steps([2.0] * 40, each=STATED), *again])) == {}


def printed(*seconds: float, **more: object) -> Run:
    """A program that prints how long each of its steps took."""
    return run(
        progress=[
            {
                "input_id": 0,
                "line": n + 1,
                "rank": 0,
                "series": "train",
                "unit": "step",
                "counter": n,
                "duration_s": s,
                **more,
            }
            for n, s in enumerate(seconds)
        ]
    )


def test_the_series_since_it_last_began_is_looked_at() -> None:
    again = [
        {"input_id": 0, "line": n, "unit": "step", "series": "s", "counter": c, "duration_s": 1.0}
        for n, c in enumerate((7, 8, 0, 1, 1, 2))
    ]
    found = longest(run(progress=again))
    assert found is not None
    assert found.rows["counter"].to_list() == [0, 1, 2]
    assert (found.at(2), found.ref(2).line, found.timed) == ("step 2", 5, True)
    assert longest(run()) is None
    assert longest(printed(1.0)) is None


def test_steps_that_become_slower_and_stay_so_are_a_shift() -> None:
    found = shift(printed(*[1.0] * 40, *[2.0] * 40), 1.2)
    assert found is not None
    assert (found.before, found.after, found.gradual) == (1.0, 2.0, False)
    assert found.series.rows["counter"][found.row] == 40
    assert shift(printed(*[1.0] * 80), 1.2) is None
    assert shift(printed(1.0, 1.0, 2.0, 2.0), 1.2) is None


def test_every_tenth_step_that_takes_longer_is_periodic() -> None:
    found = periodic(printed(*(5.0 if n % 10 == 9 else 1.0 for n in range(80))))
    assert found is not None
    assert (found.every, found.slow, found.usual) == (10, 5.0, 1.0)
    assert periodic(printed(*[1.0] * 80)) is None


def test_without_clocks_nothing_is_known_to_stand_still() -> None:
    assert stalled(run(), hung=True) is None
    assert stalled(printed(1.0, 1.0), hung=True) is None

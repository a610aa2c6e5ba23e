"""Steps as programs print them: read in every form, judged by their rhythm."""

from __future__ import annotations

import datetime
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from nccl_insight.base.model import Analysis
from nccl_insight.readers.embedded.progress import scan_lines, thinned
from tests.bare_logs import judge, log

# A line as the program prints it: counter, total, seconds of a step, rate.
FORMS = {
    "Megatron": (
        " [2026-11-20 10:01:00] iteration       10/   50000 | consumed samples:  10240 | elapsed time per "
        "iteration (ms): 1921.4 | learning rate: 3.000E-04 | lm loss: 8.17E+00 | "
        "throughput per GPU (TFLOP/s/GPU): 412.1 |",
        (10, 50000, 1.9214, 412.1),
    ),
    "plain": ("step    10 | loss 8.9889 | lr 3.0e-4 | 1.92 s/step", (10, None, 1.92, None)),
    "at the end of the line": ("3: step 12 loss=2.4 4.1s", (12, None, 4.1, None)),
    "milliseconds": ("iter 83592: loss 1.5455, time: 4401.19ms", (83592, None, 4.40119, None)),
    "Hugging Face": ("{'loss': 3.05, 'learning_rate': 2e-05, 'epoch': 0.01}", (0.01, None, None, None)),
    "a bar, slow": ("  3%|#         | 565/20101 [2:12:19<76:15:08, 14.05s/it]", (565, 20101, 14.05, None)),
    "a bar, fast": ("Epoch 3: 45%|####      | 450/1000 [07:30<09:10,  1.25it/s, loss=2.31]", (450, 1000, None, 1.25)),
    "torchtitan": (
        "[rank0]:[titan] 2026-11-20 10:00:00,123 - root - INFO - step: 20  loss:  7.1234  memory: 40.12GiB(50.1%)  "
        "tps: 7,123  tflops: 350.1  mfu: 35.4%",
        (20, None, None, 7123),
    ),
    "MaxText": (
        "completed step: 12, seconds: 4.123, TFLOP/s/device: 210.3, Tokens/s/device: 4321.1, loss: 7.1",
        (12, None, 4.123, 4321.1),
    ),
    "NeMo": (
        "Training epoch 0, iteration 12/99 | lr: 1e-4 | global_step: 12 | reduced_train_loss: 9.1 | "
        "train_step_timing in s: 3.412",
        (12, 99, 3.412, None),
    ),
    "verl": ("(TaskRunner pid=77) step:12 - actor/loss:0.1 - timing_s/step:32.1", (12, None, 32.1, None)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_counted_line_is_read(form: str) -> None:
    line, wanted = FORMS[form]
    (row,) = scan_lines(pl.DataFrame({"line": [1], "text": [line]})).iter_rows(named=True)
    assert (row["counter"], row["total"], row["duration_s"], row["rate"]) == pytest.approx(wanted)


def test_a_bar_that_was_drawn_over_is_many_rows() -> None:
    drawn = "\r".join(f" {n}%|#| {n}/100 [00:{n:02d}<01:00, 1.00s/it]" for n in range(1, 31))
    assert scan_lines(pl.DataFrame({"line": [4], "text": [drawn]}))["counter"].to_list() == [*range(1, 31)]


@pytest.mark.parametrize("line", ["NCCL_STEP=3", "2 of 3 shards", "saved 3 steps ago", "iterator ready", "loss nan"])
def test_other_lines_count_nothing(line: str) -> None:
    assert scan_lines(pl.DataFrame({"line": [1], "text": [line]}))["counter"].drop_nulls().is_empty()


def test_a_flood_is_thinned_and_keeps_its_last_line() -> None:
    frame = pl.DataFrame({"n": range(100_000)})
    kept = thinned(frame)["n"]
    assert kept.len() < 6_000
    assert kept[-1] == 99_999


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

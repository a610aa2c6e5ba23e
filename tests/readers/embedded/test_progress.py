"""Lines that programs print again and again while they work."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.readers.embedded.progress import scan_lines, thinned

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

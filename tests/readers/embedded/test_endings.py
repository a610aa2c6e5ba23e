"""Last lines of other programs behind a healthy log: told by their form, whoever wrote them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nccl_insight.readers.embedded.endings import alike, ending_lines, rank_of, scan_lines, shell_signal, tells
from tests.bare_logs import judge, log

LOGGED = "(Worker_TP2 pid=596101) ERROR 10-22 10:53:20 [multiproc_executor.py:671] "
DEAD = {
    "glibc": ("corrupted double-linked list", "process-crashed"),
    "sanitizer": ("==77==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000018", "process-crashed"),
    "spawned": ("Error: process 1 terminated with signal SIGABRT", "process-crashed"),
    "structured, a signal": (
        '{"timestamp":"2026-02-13T22:19:41Z","level":"ERROR","fields":{"message":"Shard process was signaled to '
        'shutdown with signal 9"},"target":"launcher","span":{"rank":1}}',
        "process-killed",
    ),
    "structured, an exception": (
        '{"event": "training crashed", "level": "critical", "exc_info": "RuntimeError: no key lm_head.weight"}',
        "application-exception",
    ),
    "pytest": ("=================== 1 failed, 11 passed in 336.89s (0:05:36) ===================",
               "application-exception"),
    "told to end": ("srun: error: node1: task 0: Terminated", "job-ended-by-scheduler"),
    "told to end, by code": ("trainer exited with code 143", "job-ended-by-scheduler"),
    "an engine that was killed": (
        "(EngineCore pid=310) ERROR 09-20 10:00:00 [multiproc_executor.py:230] Worker proc VllmWorker-1 died "
        "unexpectedly (exit code: -9), shutting down executor.",
        "process-killed",
    ),
    "passed on": ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace "
                  "(above) for the root cause.", "unexplained-failure"),
    "passed on by Slurm": ("slurmstepd: error: *** STEP 42.0 ON node1 CANCELLED AT 2026-11-20T10:00:00 DUE TO TASK "
                           "FAILURE ***", "unexplained-failure"),
    "passed on by nccl-tests": (" .. node1 pid 6594: Test failure common.cu:1454", "unexplained-failure"),
    "a status below its label": ("Command exit status:\n  137", "process-killed"),
    "killed, by whom": ("Reason: Container killed by YARN for exceeding memory limits.", "process-killed"),
    "a signal by its name": ("job 42.1 died through signal KILL (9)", "process-killed"),
    "the C++ runtime of LLVM": ("libc++abi: terminating due to uncaught exception of type std::runtime_error: gone",
                                "process-crashed"),
    "a class alone": ("lightning.pytorch.utilities.exceptions.SIGTERMException", "application-exception"),
    "the whole job, at any level": ("[INFO]: train job failed!", "application-exception"),
    "a short level": ("2026-11-20T10:00:00.123Z CRIT  worker::engine: loop exited", "application-exception"),
    "by systemd": ("train.service: Main process exited, code=killed, status=11/SEGV", "process-crashed"),
    "by pdsh": ("pdsh@head: node00: ssh exited with exit code 1", "application-exception"),
    "a worker of torch's spawn": (
        "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
        "process-killed",
    ),
    "logged by a worker": ("\n".join(LOGGED + said for said in (
        "WorkerProc hit an exception.", "Traceback (most recent call last):",
        '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 2280, in execute_model',
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered")), "application-exception"),
    "make": ("make: *** [Makefile:12: train] Killed", "process-killed"),
    "Ray's job": ("Job entrypoint command failed with exit code 137, last available logs (truncated to 20,000 chars):",
                  "process-killed"),
    "a controller": ("  Normal  EvictedDueToPreempted  5s  kueue-workload-controller  Preempted to accommodate another",
                     "job-ended-by-scheduler"),
    "not ready in time": ("RuntimeError: NCCL timeout when waiting for nonblocking call to become successful.",
                          "hang-in-init"),
}  # fmt: skip
WELL = (
    "WARNING: upload attempt 1/5 failed: ConnectionResetError, retrying in 2s\nupload succeeded after 2 attempts",
    "args: fail_on_error=False abort_on_nan=True exit_on_missing_checkpoint=True error_injection_rate=0",
    "Registered signal handler for SIGTERM; job will checkpoint and exit on preemption",
    '{"level":"info","msg":"checkpoint saved","errors":0,"failed_shards":[],"step":500}',
    "kernel.panic = 0, kernel.panic_on_oops = 0",
    "eval/word_error_rate: 0.081 eval/errors_per_1k: 2.3",
    "stage data-prep attempt 1 failed, attempt 2 succeeded",
    "health check: rank 3 passed, 0 dead, 0 stuck; watchdog armed (timeout 600 s)",
    'If you see "RuntimeError: DataLoader worker (pid X) is killed by signal", try --num-workers 0',
    'see docs/errors.md: "Error: Process completed with exit code 1" means that the check failed',
    "ERROR 11-20 10:00:00 [serving_chat.py:312] Error in preprocessing prompt inputs\n"
    'Traceback (most recent call last):\n  File "/opt/serving_chat.py", line 298, in create\n'
    "ValueError: maximum context length is 8192 tokens.\n"
    'INFO:     10.0.0.9:51933 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "torch.OutOfMemoryError caught at micro batch 32, retrying with micro batch 16\nmicro batch 16 fits",
    "mbpp: 31 passed, 469 failed (pass@1 = 0.062)",
    "judge timed out for 5 of 256 completions; they count as 0",
)


@pytest.mark.parametrize("case", DEAD)
def test_a_failing_last_line_is_named(tmp_path: Path, case: str) -> None:
    line, name = DEAD[case]
    loud = [f.name for f in judge(tmp_path, [*log(), *line.split("\n")]).findings if f.severity.value == "error"]
    assert loud[:1] == [name]


@pytest.mark.parametrize("said", WELL)
def test_a_harmless_line_does_not_alarm(tmp_path: Path, said: str) -> None:
    lines = log(closed=2)
    assert judge(tmp_path, [*lines[:-2], *said.split("\n"), *lines[-2:]]).status == "ok"


def test_signals_that_are_named_before_the_job_begins_did_not_end_it(tmp_path: Path) -> None:
    lines = ["Signals handled: SIGTERM, SIGUSR1 (checkpoint), SIGINT (stop)", *log(closed=2)]
    assert judge(tmp_path, lines).status == "ok"


def test_a_failure_that_is_passed_on_in_a_job_that_went_on_is_a_note(tmp_path: Path) -> None:
    over = [*log(), DEAD["passed on"][0], *(f"step {n} loss 2.1" for n in range(30)), "Training completed."]
    assert not [f for f in judge(tmp_path, over).findings if f.severity.value == "error"]


def of(expression: pl.Expr, *texts: str) -> list[object]:
    return pl.DataFrame({"text": texts}).select(expression).to_series().to_list()


TEXT = pl.col("text")


def test_what_a_shell_prints_of_a_signal() -> None:
    assert shell_signal("Killed") == ("Killed", 9)
    assert shell_signal("./run.sh: Segmentation fault") == ("Segmentation fault", 11)
    assert shell_signal("loss 2.5") is None


def test_lines_that_may_be_a_reason() -> None:
    said = of(tells(TEXT), "CUDA is out of memory", "   ", "frame #3: c10::Error")
    assert said == [True, False, False]
    assert of(ending_lines(TEXT), "loss 2.5") == [False]


def test_a_rank_in_front_of_what_it_says() -> None:
    texts = (
        "[rank3]: Traceback",
        "Rank 4 | done",
        "5: out of memory",
        "loss of rank 6",
        "2026-11-27 04:04:08 INFO rank=7: x",
    )
    assert of(rank_of(TEXT), *texts) == [3, 4, 5, None, 7]


def test_texts_that_differ_in_numbers_alone_are_alike() -> None:
    one, other, third = of(alike(TEXT), "rank 3 at 0x7f12 failed", "rank 14 at 0xabc1 failed", "rank 3 was lost")
    assert one == other != third


def test_the_last_words_of_a_log_are_kept() -> None:
    texts = [f"epoch begins {n}" for n in range(40)] + ["all of it is lost"]
    lines = pl.DataFrame({"line": range(1, 42), "text": texts}, schema={"line": pl.UInt64, "text": pl.String})
    last = scan_lines(lines).filter(pl.col("kind") == "last words")
    assert last["text"].to_list()[-1] == "all of it is lost"
    assert last["line"].to_list()[-1] == 41
    assert scan_lines(lines.clear()).is_empty()

"""In what a process crashed, by the stacks that runtimes print at a signal, and what helps against that signal."""

from __future__ import annotations

from pathlib import Path

import pytest

import nccl_insight

UCX = """\
[gpu07:2630 :0:2630] Caught signal 8 (Floating point exception: integer divide by zero)
==== backtrace (tid:   2630) ====
 0 0x0000000000043090 killpg()  ???:0
 1 0x000000000078d897 cublasLtMatmulAlgoCheck()  ???:0
 2 0x00000000036f4255 at::native::(anonymous namespace)::addmm_out_cuda_impl()  Blas.cpp:0
"""
TORCH = """\
SIGSEGV(11), PID: 4121, Thread 4190:
 frame #0: c10::FatalSignalHandler::stacktraceSignalHandler(bool) + 0x6b (0x7ff7 in /opt/torch/lib/libc10.so)
frame #1: <unknown function> + 0x42520 (0x7ff7498d0520 in /lib/x86_64-linux-gnu/libc.so.6)
frame #2: <unknown function> + 0x73292 (0x7ff6d6c71292 in /opt/nccl/lib/libnccl.so.2)
"""
ABSEIL = """\
(EngineCore_DP0 pid=742) (RayWorkerWrapper pid=233, ip=10.20.1.125) *** SIGILL received at time=1762945937 on cpu 6 ***
(EngineCore_DP0 pid=742) (RayWorkerWrapper pid=233, ip=10.20.1.125) PC: @     0x71bd29eb3ab5  (unknown)  (unknown)
(EngineCore_DP0 pid=742) (RayWorkerWrapper pid=233, ip=10.20.1.125)     @     0x559002e1addf        256  absl::WriteFailureInfo()
(EngineCore_DP0 pid=742) (RayWorkerWrapper pid=233, ip=10.20.1.125)     @     0x71bb1bfd07e0         64  dnnl::impl::gemm()
"""  # noqa: E501
GLOG = """\
*** Aborted at 1599034321 (unix time) try "date -d @1599034321" if you are using GNU date ***
PC: @                0x0 (unknown)
*** SIGBUS (@0x8) received by PID 23 (TID 0x7f12) from PID 8; stack trace: ***
    @     0x7f1234567890 (unknown)
    @     0x7f1234567abc ncclGroupEnd
"""
PYTHON = """\
Fatal Python error: Segmentation fault

Thread 0x00007f6c1a7fc640 (most recent call first):
  File "/usr/lib/python3.10/threading.py", line 324 in wait

Current thread 0x00007f6b1a7fc640 (most recent call first):
  File "/opt/torch/distributed/distributed_c10d.py", line 2757 in all_gather_into_tensor
  File "/workspace/train.py", line 113 in gather
"""
PADDLE = "FatalError: `Erroneous arithmetic operation` is detected by the operating system.\n"


@pytest.mark.parametrize(
    ("text", "title", "step"),
    [
        (UCX, "crashed in cublasLtMatmulAlgoCheck: a floating point exception", "nvidia-cublas"),
        (TORCH, "crashed in libnccl.so.2: a segmentation fault", "NCCL_RAS_ENABLE=0"),
        (ABSEIL, "crashed in dnnl::impl::gemm: an illegal instruction", "lscpu"),
        (GLOG, "crashed in ncclGroupEnd: a bus error", "df -h /dev/shm"),
        (PYTHON, "crashed in all_gather_into_tensor (distributed_c10d.py:2757): a segmentation", "coredumpctl"),
        (PADDLE, "crashed: a floating point exception", "nvidia-cublas"),
    ],
    ids=["ucx", "torch", "abseil", "glog", "python", "paddle"],
)
def test_the_place_of_a_crash_and_the_step(text: str, title: str, step: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(text)
    first = nccl_insight.analyze(tmp_path / "run.log").findings[0]
    assert first.name == "process-crashed"
    assert title in first.title
    assert step in first.next_step
    assert ("NCCL_RAS_ENABLE" in first.next_step) == (text == TORCH)


def test_a_sigterm_that_paddle_prints_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("FatalError: `Termination signal` is detected by the operating system.\n")
    assert all(f.name != "process-crashed" for f in nccl_insight.analyze(tmp_path / "run.log").findings)

"""Failures that others say: shells, the kernel, CUDA and HIP runtimes, torch, the C library in the user's language."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import nccl_insight
from nccl_insight.model import Finding

HEAD: Final = "gpu01:7:9 [0]"
SAID: Final = {
    "refused, German": (f"{HEAD} misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.1.1.2<46417> failed : "
                        "Verbindungsaufbau abgelehnt", "bootstrap-connect-refused"),
    "no route, Chinese": (f"{HEAD} misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.1.1.2<4641> failed "
                          ": 没有到主机的路由", "bootstrap-no-route"),
    "timed out, Japanese": (f"{HEAD} include/socket.h:403 NCCL WARN Connect to 10.0.0.1<7777> failed : "
                            "接続がタイムアウトしました", "bootstrap-connect-timeout"),
    "no space, French": (f"{HEAD} include/shm.h:28 NCCL WARN Call to posix_fallocate failed : Aucun espace disponible "
                         "sur le périphérique", "shm-too-small"),
    "modify_qp, Spanish": (f"{HEAD} misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error "
                           "Argumento inválido", "ib-qp-invalid-argument"),
    "reset, Korean": (f"{HEAD} misc/socket.cc:55 NCCL WARN Net : Call to recv from 10.0.0.1<4444> failed : "
                      "상대편이 연결을 끊음", "peer-died"),
    "unknown line, Polish": (f"{HEAD} new/file.cc:1 NCCL WARN The new thing broke: Połączenie odrzucone",
                             "bootstrap-connect-refused"),
    "aborted read": (f"{HEAD} misc/socket.cc:55 NCCL WARN Net : Call to recv from 10.0.0.1<4444> failed : "
                     "Software caused connection abort", "peer-died"),
    "other family": (f"{HEAD} misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to fe80::1%ib0<46417> failed : "
                     "Address family not supported by protocol", "bootstrap-no-route"),
    "trail": (f"{HEAD} NCCL INFO misc/socket.cc:564 -> 2\n{HEAD} NCCL INFO bootstrap.cc:270 -> 2\n"
              f"{HEAD} NCCL INFO init.cc:1303 -> 2\n{HEAD} NCCL INFO group.cc:64 -> 2 [Async thread]",
              "unexplained-failure"),
    "shell, aborted": ("job.sh: line 1:  3635 Aborted                 (core dumped) python train.py",
                       "process-crashed"),
    "shell, killed": ("/var/spool/slurmd/job9/slurm_script: line 20: 12345 Killed                  python train.py",
                      "process-killed"),
    "shell, one command": ("Segmentation fault (core dumped)", "process-crashed"),
    "fallen off": ("[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: 10de:26b5) "
                   "installed in this system has\n               NVRM: fallen off the bus and is "
                   "not responding to commands.", "xid-error"),
    "803, warning": ("/usr/lib/python3/torch/cuda/__init__.py:82: UserWarning: CUDA initialization: Unexpected error "
                     "from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver "
                     "combination", "cuda-driver-mismatch"),
    "803, exception": ('Traceback (most recent call last):\n  File "train.py", line 21, in <module>\n'
                       "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported "
                       "display driver / cuda driver combination", "cuda-driver-mismatch"),
    "802, exception": ('[rank1]: Traceback (most recent call last):\n[rank1]:   File "train.py", line 2, in <module>\n'
                       "[rank1]: RuntimeError: CUDA error: system not yet initialized", "fabric-manager-issue"),
    "driver too old": ('Traceback (most recent call last):\n  File "train.py", line 21, in <module>\nRuntimeError: The '
                       "NVIDIA driver on your system is too old (found version 11040).", "cuda-driver-too-old"),
    "803, MXNet": ("[1,0]<stderr>:CUDA: Check failed: e == cudaSuccess (803 vs. 0) : system has unsupported display "
                   "driver / cuda driver combination", "cuda-driver-mismatch"),
    "HIP, fault": ("Memory access fault by GPU node-1 (Agent handle: 0x55d0aa00) on address 0x7f1200000. Reason: "
                   "Page not present or supervisor privilege.", "cuda-unhandled"),
    "HIP, hang": ("99%|### | 366/903 [5:15:39<6:53:09, 46.16s/it]HW Exception by GPU node-9 (Agent handle: 0x64ff2728) "
                  "reason :GPU Hang", "cuda-unhandled"),
    "cut traceback": ('  File "/usr/lib/python3/torch/utils/data/_utils/signal_handling.py", line 66, in handler\n'
                      "    _error_if_any_worker_fails()\nRuntimeError: DataLoader worker (pid 56811) is killed by "
                      "signal: Bus error.", "application-exception"),
}  # fmt: skip


def _findings(text: str, path: Path) -> list[Finding]:
    path.write_text(f"{HEAD} NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n{text}\n", encoding="utf-8")
    return [f for f in nccl_insight.analyze(nccl_insight.load([path])).findings if f.severity.value != "info"]


@pytest.mark.parametrize("kind", SAID)
def test_it_is_told_by_its_name(kind: str, tmp_path: Path) -> None:
    text, name = SAID[kind]
    assert [f.name for f in _findings(text, tmp_path / "run.log")][:1] == [name]


def test_the_tag_of_the_launcher_names_the_rank(tmp_path: Path) -> None:
    found = _findings("[1,25]<stderr>:[c102:70259] Signal: Segmentation fault (11)", tmp_path / "run.log")
    assert [(f.name, f.ranks, f.hosts) for f in found] == [("process-crashed", (25,), ("c102",))]


def test_the_rank_that_makes_the_id_is_missing(tmp_path: Path) -> None:
    line = (
        "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId "
        "from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout"
    )
    found = _findings(line, tmp_path / "run.log")
    assert [(f.name, f.ranks, f.hosts) for f in found] == [("rank-missing-in-init", (0,), ())]


def test_refused_again_and_again_is_a_warning(tmp_path: Path) -> None:
    again = "\n".join(
        f"{HEAD} NCCL INFO socketPollConnect: connect to 10.0.0.2<52333> returned Connection refused, retrying "
        f"({n}/34) after sleep for {n}00 msec"
        for n in range(18, 23)
    )
    assert [f.name for f in _findings(again, tmp_path / "run.log")] == ["bootstrap-connect-refused"]
    once = again.splitlines()[0]
    assert _findings(once, tmp_path / "run.log") == []


def test_a_port_that_came_back_is_not_the_reason_of_a_doubt(tmp_path: Path) -> None:
    event = (
        "[2026-11-05 11:40:0{}] gpu01:7:91 [0] transport/net_ib/common.cc:70 NCCL WARN NET/IB : mlx5_3:1 Got async "
        "error event: port {}"
    )
    path = tmp_path / "run.log"
    lines = [
        f"{HEAD} NCCL INFO NCCL version 2.30.4+cuda13.0",
        event.format(0, "error"),
        event.format(2, "active"),
    ]
    path.write_text("\n".join([*lines, "step 5", ""]))
    analysis = nccl_insight.analyze(nccl_insight.load([path]))
    assert analysis.status == "inconclusive"
    assert "port error" not in analysis.headline

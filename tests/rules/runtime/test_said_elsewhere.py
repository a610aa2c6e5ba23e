"""Failures that others say: shells, the kernel, CUDA and HIP runtimes, torch, the C library in the user's language."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import nccl_insight
from nccl_insight.base.model import Finding

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
    "HIP, driver": ("[ 8812.114201] amdgpu 0000:8b:00.0: {14}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) "
                    "detected!", "cuda-hardware-error"),
    "linker, program": ("./build/sendrecv_perf: symbol lookup error: ./build/sendrecv_perf: undefined symbol: "
                        "ncclMemAlloc", "library-version-mismatch"),
    "linker, import": ('[rank2]: Traceback (most recent call last):\n[rank2]:   File "/srv/go.py", line 4, in run\n'
                       "[rank2]: ImportError: /opt/lib/libtorch_cuda.so: undefined symbol: ncclCommShrink",
                       "library-version-mismatch"),
    "linker, ctypes": ('Traceback (most recent call last):\n  File "/srv/wrap.py", line 88, in load\n'
                       "AttributeError: /usr/lib/libnccl.so.2: undefined symbol: ncclCommWindowRegister",
                       "library-version-mismatch"),
    "linker, other library": ('Traceback (most recent call last):\n  File "/srv/go.py", line 4, in run\n'
                              "ImportError: /srv/ops.so: undefined symbol: _ZN3c104cuda9getDeviceEv",
                              "application-exception"),
    "store barrier": ("RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: "
                      "store_based_barrier_key:3 (world_size=12, worker_count=9, timeout=0:10:00)",
                      "rank-missing-in-init"),
    "custom all-reduce": ("(Worker_TP1 pid=90) Failed: Cuda error /csrc/custom_all_reduce.cuh:370 'invalid resource "
                          "handle'\n(EngineCore_DP0 pid=80) ERROR 01-02 10:00:01 [multiproc_executor.py:154] Worker "
                          "proc VllmWorker-1 died unexpectedly, shutting down executor.", "p2p-ipc-handle-failed"),
    "CUDA check of a program": ("Failed: Cuda error heat.cu:210 'an illegal memory access was encountered'",
                                "cuda-unhandled"),
    "CUDA memory of a program": ("Failed: Cuda error heat.cu:77 'out of memory'", "application-exception"),
    "Horovod stalled": ('[1,0]<stderr>:3!: [grads_7]\n[1,0]<stderr>:One or more rank (marked by "!") is stalled for '
                        "longer than 120 seconds. Will shutdown.\n[1,2]<stderr>:HorovodInternalError: Horovod has been "
                        "shut down. This was caused by an exception on one of the ranks or an attempt to allreduce",
                        "watchdog-timeout"),
    "Ray, check": ("(RayWorkerWrapper pid=71, ip=10.4.4.9) RpcError: RPC Error message: Socket closed\n"
                   "(raylet, ip=10.4.4.8) [2026-02-03 11:12:13,100 C 90 90] (raylet) a.cc:1:  An unexpected system "
                   "state has occurred. You have likely discovered a bug in Ray. Please report it. Check failed: "
                   "x Status not OK: ChannelError: Channel closed.", "process-crashed"),
    "store gone, last": ("RuntimeError: [/src/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 900000ms for "
                         "recv operation to complete\nelastic.rendezvous.api.RendezvousConnectionError"
                         ": The connection to the C10d store has failed. See inner exception for details.",
                         "watchdog-timeout"),
    "store gone, alone": ("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the "
                          "C10d store has failed. See inner exception for details.", "bootstrap-failed"),
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


@pytest.mark.parametrize(
    "line",
    [
        "^CAbort is in progress...hit ctrl-c again to forcibly terminate",
        "[mpiexec@n1] Sending Ctrl-C to processes as requested",
        "^Csrun: sending Ctrl-C to StepId=4127.0",
        "mpirun: Forwarding signal 2 to job",
    ],
)
def test_ctrl_c_at_the_launcher_is_no_fault_and_no_proof_of_health(line: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    who = "ncclCommInitRank comm 0x55 rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0xab"
    log.write_text(f"{HEAD} NCCL INFO {who} - Init START\n{HEAD} NCCL INFO {who} - Init COMPLETE\n{line}\n")
    found = nccl_insight.analyze(str(log))
    assert found.status == "inconclusive"
    assert "ended by the user with Ctrl-C" in found.to_json()
    assert [f.severity.value for f in found.findings if f.name == "job-ended-by-scheduler"] == ["info"]


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
    lines = [f"{HEAD} NCCL INFO NCCL version 2.30.4+cuda13.0", event.format(0, "error"), event.format(2, "active")]
    path.write_text("\n".join([*lines, "step 5", ""]))
    analysis = nccl_insight.analyze(nccl_insight.load([path]))
    assert analysis.status == "inconclusive"
    assert "port error" not in analysis.headline


def test_a_count_past_the_size_of_the_job_names_an_earlier_start(tmp_path: Path) -> None:
    found = _findings(
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key:1 (world_size=4, worker_count=6, timeout=0:30:00)",
        tmp_path / "run.log",
    )
    assert [f.name for f in found] == ["rank-missing-in-init"]
    assert "the store counts 6, the job has 4" in found[0].title


def test_waiting_in_the_store_is_no_failure(tmp_path: Path) -> None:
    found = _findings(
        "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to initialize process group for rank: "
        "3, key: store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)\n"
        "INFO:torch.distributed.distributed_c10d:Rank 3: Completed store-based barrier for key:"
        "store_based_barrier_key:1 with 8 nodes.\nstep 1 loss 2.31",
        tmp_path / "run.log",
    )
    assert found == []


def test_of_a_worker_that_is_gone_no_signal_is_known(tmp_path: Path) -> None:
    found = _findings(
        "(EngineCore_DP0 pid=80) ERROR 01-02 10:00:01 [multiproc_executor.py:154] Worker proc VllmWorker-2 died "
        "unexpectedly, shutting down executor.",
        tmp_path / "run.log",
    )
    assert [f.name for f in found] == ["process-crashed"]
    assert found[0].ranks == (2,)
    assert "signal" not in found[0].title


def test_a_time_out_of_gloo_has_no_gap_in_its_headline(tmp_path: Path) -> None:
    found = _findings(
        "[rank2]: RuntimeError: [/src/gloo/tcp/unbound_buffer.cc:81] Timed out waiting 900000ms for recv operation to "
        "complete",
        tmp_path / "run.log",
    )
    assert "collective after 900 s" in found[0].title


def _stands(rank: int, seq: int, limit_ms: int | None) -> list[str]:
    """What the watchdog of a rank prints: that its time was up, where it was, and where the rank stands."""
    up = (
        f"[rank{rank}]:[E1117 12:00:02.049474725 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)={limit_ms}) "
        f"ran for {limit_ms} milliseconds before timing out."
    )
    stands = (
        f"[rank{rank}]:[E1117 12:00:02.236428742 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) "
        f"Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, "
        f"last completed work: {seq - 1}"
    )
    return [up, stands] if limit_ms is not None else [stands]


@pytest.mark.parametrize(
    ("limits", "watchdog", "silent"),
    [
        (
            [None, 600_000, None, 600_000],
            "after 600 s; rank 0 gave up without a time-out",
            "in which ranks 1,3 waited for 600 s and rank 0 gave up without a time-out",
        ),
        ([60_000, 600_000, None, 600_000], "after 60 to 600 s", "in which ranks 0-1,3 waited for 60 to 600 s"),
        ([600_000, 600_000, None, 600_000], "after 600 s", "in which ranks 0-1,3 waited for 600 s"),
    ],
    ids=["an error of NCCL", "a shorter limit", "one limit"],
)
def test_who_gave_up_is_told_from_who_timed_out(
    tmp_path: Path, limits: list[int | None], watchdog: str, silent: str
) -> None:
    """Rank 2 prints nothing of the collective in which the others wait."""
    started = [
        f"gpu01:{100 + r}:{100 + r} [{r}] NCCL INFO ncclCommInitRank comm 0x55d0a{r} rank {r} nranks 4 cudaDev {r} "
        f"nvmlDev {r} busId {r + 1}b000 commId 0x7d1ab3c1 - Init {state}"
        for state in ("START", "COMPLETE")
        for r in range(4)
    ]
    lines = [line for r, limit in enumerate(limits) if r != 2 for line in _stands(r, 71, limit)]
    log = tmp_path / "run.log"
    log.write_text("".join(f"{line}\n" for line in [*started, *lines]))
    titles = {f.name: f.title for f in nccl_insight.analyze([log]).findings}
    assert titles["collective-not-reached"].endswith(silent)
    assert titles["watchdog-timeout"].removesuffix(" (ranks 0-1,3 on gpu01)").endswith(watchdog)


def test_time_outs_in_several_operations_are_listed_in_their_order(tmp_path: Path) -> None:
    """Numbers of several groups count apart: a span over them would name operations that nobody waits in."""
    waits = [
        line.replace("ALLREDUCE", op) for r, op in enumerate(("RECV", "BROADCAST")) for line in _stands(r, 41, 600000)
    ]
    found = _findings("\n".join((*waits, *_stands(2, 7, 600000))), tmp_path / "run.log")
    (title,) = (f.title for f in found if f.name == "watchdog-timeout")
    assert "ALLREDUCE 7, BROADCAST 41, RECV 41" in title


_ASSERTED: Final = (
    "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1369: indexSelectLargeIndex: block: [0,0,0], thread: [1,0,0] "
    "Assertion `srcIndex < srcSelectDimSize` failed."
)
_BROKEN: Final = f"{HEAD} enqueue.cc:1421 NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'"
_XID: Final = (
    "May  5 03:56:31 gpu01 kernel: NVRM: Xid (PCI:0000:1b:00): 94, pid=7, name=python3, Contained: SM (0x1). RST: No"
)


@pytest.mark.parametrize(
    ("line", "error", "name"),
    [
        (_ASSERTED, "device-side assert triggered", "cuda-unhandled"),
        (_BROKEN, "uncorrectable ECC error encountered", "cuda-hardware-error"),
        (_XID, "uncorrectable ECC error encountered", "xid-error"),
    ],
)
def test_whose_gpu_failed_is_the_only_rank_in_which_cuda_failed(
    line: str, error: str, name: str, tmp_path: Path
) -> None:
    """Lines that name no rank, where no line of NCCL says which rank a process is; two ranks would leave it open."""
    raised = (
        "\n[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]: torch.AcceleratorError: CUDA error: {error}"
    )
    for ranks in ((5,), (5, 6)):
        log = tmp_path / f"{len(ranks)}.log"
        log.write_text(line + "".join(raised.format(rank=rank, error=error) for rank in ranks) + "\n")
        first = nccl_insight.analyze([log]).findings[0]
        assert (first.name, first.ranks) == (name, (5,) if len(ranks) == 1 else ())

"""A stand-in for a rank of a capture: prints real-looking NCCL lines and then misbehaves as told.

usage: fake_rank.py MODE PLAN DIRECTORY
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MODE, DIRECTORY = sys.argv[1], Path(sys.argv[3])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def log(directory: Path, *lines: str, end: str = "\n") -> None:
    head = f"node-a:{4000 + RANK}:{4000 + RANK} [{RANK}] NCCL INFO "
    name = os.environ.get("NCCL_DEBUG_FILE", str(directory / "nccl.%h.%p.log"))
    path = Path(name.replace("%h", "node-a").replace("%p", str(4000 + RANK)))
    with path.open("a") as stream:
        stream.write("\n".join(head + line for line in lines) + end)


def result(kind: str, **values: object) -> str:
    return json.dumps({"kind": kind, **values}) + "\n"


def main() -> None:
    log(
        DIRECTORY,
        "Bootstrap : Using eth0:10.20.30.40<0>",
        "NCCL version 2.21.5+cuda12.4",
        f"ncclCommInitRank comm 0x55d0c0a0{RANK:04x} rank {RANK} nranks {WORLD} cudaDev {RANK} nvmlDev {RANK} "
        f"busId {RANK + 1}000 commId 0x8d2a9c4be1f07733 - Init START",
    )
    with (DIRECTORY / f"capture.rank{RANK}.jsonl").open("a") as stream:
        stream.write(
            result("head", nccl_insight_capture=1, rank=RANK, world_size=WORLD, local_rank=RANK, host="node-a",
                   pid=4000 + RANK, backend="nccl", slow_rank=None)
        )  # fmt: skip
        stream.write(result("versions", torch="2.9.0", cuda="12.4", nccl="2.21.5", gpu="NVIDIA H100 80GB HBM3"))
        stream.flush()
        if MODE == "hang" and RANK == WORLD - 1:
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        if MODE == "stopped" and RANK == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        if MODE in ("hang", "hang-all", "stopped"):
            time.sleep(600)
        if MODE == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(1)
        if MODE == "dies" and RANK == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        if MODE in ("dies", "waits"):
            time.sleep(600)
        if MODE == "watchdog":
            sys.stderr.write(
                f"[rank{RANK}]:[E ProcessGroupNCCL.cpp:616] [PG ID 0 PG GUID 0(default_pg) Rank {RANK}] "
                "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, "
                "NumelOut=1, Timeout(ms)=42000) ran for 42021 milliseconds before timing out.\n"
            )
            raise SystemExit(134)
        if MODE == "half":
            log(DIRECTORY, "Channel 00/02 :    0   1", "comm 0x55d0c0a0", end="")
            stream.write(result("row", op="AllReduce", size_bytes=8, wrong=0, nranks=WORLD, time_us=10.0))
            stream.write('{"kind": "row", "op": "AllRed')
            return
        wrong = 3 if MODE == "wrong" else 0
        busbw = 360.0 if MODE != "slow" else 20.0
        log(
            DIRECTORY,
            f"ncclCommInitRank comm 0x55d0c0a0{RANK:04x} rank {RANK} nranks {WORLD} cudaDev {RANK} nvmlDev {RANK} "
            f"busId {RANK + 1}000 commId 0x8d2a9c4be1f07733 - Init COMPLETE",
        )
        if RANK == 0:
            for size, bad in ((1 << 20, 0), (1 << 28, wrong)):
                stream.write(
                    result("row", op="AllReduce", size_bytes=size, count=size // 4, dtype="float32", red_op="sum",
                           time_us=1000.0, algbw_gbps=busbw / 1.75, busbw_gbps=busbw, wrong=bad, nranks=WORLD,
                           n_hosts=1)
                )  # fmt: skip
        stream.write(result("ready", rank=RANK) + result("end", rank=RANK))


main()

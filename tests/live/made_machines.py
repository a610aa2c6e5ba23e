"""File trees and tools of made-up machines, and what the quick checks say of them."""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.node import Node
from nccl_insight.live.preflight.nvml import survey
from nccl_insight.live.preflight.quick import quick_checks
from tests.stand_ins.pynvml import Machine

Files = dict[str, str]
LIMITS = {
    resource.RLIMIT_MEMLOCK: None,
    resource.RLIMIT_NOFILE: 65536,
    resource.RLIMIT_STACK: 8 << 20,
    resource.RLIMIT_NPROC: None,
}
HEALTH = "{n}, 00000000:{n:02X}:00.0, 0, No, No, Not Active, Not Active, Default, {mig}, 4, 16, 16\n"


@dataclass(frozen=True)
class Made(Node):
    """A node of files, with the answers of nvidia-smi by its first argument."""

    tools: dict[str, Output] = field(default_factory=dict)
    library: Machine | None = None

    def nvml(self, timeout_s: float = 4.0) -> Output:
        if self.library is None:
            return Output("missing")
        return Output("hung") if self.library.hang_s else Output("ok", json.dumps(survey(self.library)))

    def limit(self, which: int) -> int | None:
        return LIMITS[which]

    def size_of(self, path: str) -> tuple[int, int] | None:
        return 64 << 30, 60 << 30

    def clock_synchronized(self) -> bool | None:
        return True

    def tool(self, *argv: str, timeout_s: float = 5.0) -> Output:
        return self.tools.get(argv[1].split("=")[0], Output("missing"))


def gpus(count: int, model: str = "NVIDIA H100 80GB HBM3") -> Files:
    files = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release",
        "proc/1/comm": "systemd",
        "proc/cmdline": "root=/dev/sda iommu=pt",
        "proc/sys/kernel/numa_balancing": "0",
        "sys/module/nvidia_peermem/version": "570",
        "dev/kmsg": "6,1,1,-;Linux version 6.8.0\n",
    }
    for n in range(count):
        place = f"0000:{n:02x}:00.0"
        files[f"dev/nvidia{n}"] = ""
        files[f"proc/driver/nvidia/gpus/{place}/information"] = (
            f"Model: \t\t {model}\nGPU UUID: \t GPU-0a1b2c3d-0000-0000-0000-{n:012d}\n"
        )
        for name, text in (("vendor", "0x10de"), ("current_link_width", "16"), ("max_link_width", "16")):
            files[f"sys/bus/pci/devices/{place}/{name}"] = text
    return files


def switches(manager: bool = True) -> Files:
    found = {f"dev/nvidia-nvswitch{n}": "" for n in range(4)}
    return {**found, **({"proc/4242/comm": "nv-fabricmanager"} if manager else {})}


def nics(count: int, first: int = 0, rate: str = "400 Gb/sec (4X NDR)", layer: str = "InfiniBand") -> Files:
    files = {}
    for n in range(first, first + count):
        base = f"sys/class/infiniband/mlx5_{n}"
        files |= {
            f"{base}/fw_ver": "28.39.3004",
            f"{base}/board_id": f"MT_{rate.split()[0]}",
            f"{base}/ports/1/state": "4: ACTIVE",
            f"{base}/ports/1/rate": rate,
            f"{base}/ports/1/link_layer": layer,
            f"{base}/ports/1/pkeys/0": "0xffff",
            f"{base}/ports/1/counters/link_downed": "1",
        }
        if layer == "Ethernet":
            files |= {
                f"{base}/ports/1/gids/0": "fe80:0000:0000:0000:0a00:00ff:fe00:0001",
                f"{base}/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a14:1e28",
                f"{base}/ports/1/gid_attrs/types/0": "IB/RoCE v1",
                f"{base}/ports/1/gid_attrs/types/3": "RoCE v2",
            }
    return files


def smi(
    count: int = 8, links: int = 18, short: int = 0, mig: str = "[N/A]", speed: float = 26.562
) -> dict[str, Output]:
    listing = "".join(
        f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})\n"
        + "".join(f"\t Link {k}: {speed} GB/s\n" for k in range(links - (short if n == 3 else 0)))
        for n in range(count)
    )
    rows = "".join(HEALTH.format(n=n, mig=mig) for n in range(count))
    return {"--query-gpu": Output("ok", rows), "nvlink": Output("ok", listing)}


def dgx() -> Files:
    return {**gpus(8), **switches(), **nics(8)}


def made(tmp_path: Path, files: Files, tools: dict[str, Output] | None = None, **environ: str) -> Made:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Made(environ, tmp_path, "gpu07", "6.8.0", smi() if tools is None else tools)


def asked(tmp_path: Path, files: Files, library: Machine, **environ: str) -> Made:
    """As ``made``, with NVML instead of nvidia-smi."""
    return replace(made(tmp_path, files, {}, **environ), library=library)


def eight(change: dict[str, Any] | None = None, every: dict[str, Any] | None = None) -> Machine:
    """Eight GPUs of which number 3 differs."""
    return Machine([{**(every or {}), **((change or {}) if n == 3 else {})} for n in range(8)])


def told(subject: Made) -> dict[str, Check]:
    return {c.name: c for c in quick_checks(subject) if c.status in (Status.FAIL, Status.WARN)}


def storage() -> Files:
    return {**dgx(), **nics(2, 8, "200 Gb/sec (4X HDR)", "Ethernet")}


def down(physical: str) -> Files:
    return {**dgx(), f"{IB}/mlx5_3/ports/1/state": "1: DOWN", f"{IB}/mlx5_3/ports/1/phys_state": physical}


IB = "sys/class/infiniband"

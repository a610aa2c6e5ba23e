"""A node that is good, and the checks of a gate on it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight.model import Check
from nccl_insight.live.preflight.node import Node
from nccl_insight.live.preflight.quick import quick_checks

LIMITS = {
    resource.RLIMIT_MEMLOCK: None,
    resource.RLIMIT_NOFILE: 65536,
    resource.RLIMIT_STACK: 8 << 20,
    resource.RLIMIT_NPROC: None,
}


@dataclass(frozen=True)
class FakeNode(Node):
    """A node whose limits and file system sizes are given."""

    limits: tuple[tuple[int, int | None], ...] = tuple(LIMITS.items())
    shm: tuple[int, int] | None = (64 << 30, 60 << 30)
    answer: Output = field(default_factory=lambda: Output("missing"))

    def tool(self, *argv: str, timeout_s: float = 5.0) -> Output:
        return self.answer

    def nvml(self, timeout_s: float = 4.0) -> Output:
        return Output("missing")

    def limit(self, which: int) -> int | None:
        return dict(self.limits)[which]

    def size_of(self, path: str) -> tuple[int, int] | None:
        return self.shm


def good(root: Path, gpus: int = 8, nics: int = 8) -> Path:
    """The files of a healthy machine."""
    files = {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release",
        "proc/cmdline": "root=/dev/sda iommu=pt",
        "proc/sys/kernel/numa_balancing": "0",
        "sys/module/nvidia_peermem/version": "570",
        "sys/class/iommu/dmar0/x": "",
    }
    for n in range(gpus):
        files[f"dev/nvidia{n}"] = ""
        files[f"proc/driver/nvidia/gpus/0000:{n:02x}:00.0/information"] = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1"
    for n in range(nics):
        base = f"sys/class/infiniband/mlx5_{n}/ports/1"
        files |= {
            f"{base}/state": "4: ACTIVE",
            f"{base}/rate": "400 Gb/sec (4X NDR)",
            f"{base}/link_layer": "InfiniBand",
        }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def node(root: Path, **more: object) -> FakeNode:
    return FakeNode(environ=more.pop("environ", {}), root=root, name="gpu07", kernel="6.8.0", **more)  # type: ignore[arg-type]


def checks(subject: Node) -> dict[str, Check]:
    return {c.name: c for c in quick_checks(subject)}


def cli(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nccl_insight", "preflight", *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=cwd,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
    )

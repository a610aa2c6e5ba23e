"""Copies between host and GPU, and between GPUs. torch is passed in."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def _near(torch: Any, device: Any) -> Iterator[int | None]:
    """On the CPUs of the GPU's NUMA node, since memory of another socket halves a copy; gives that node."""
    found = torch.cuda.get_device_properties(device)
    parts = [getattr(found, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if any(p is None for p in parts):
        yield None
        return
    domain, bus, slot = (int(p or 0) for p in parts)
    base = Path("/sys/bus/pci/devices") / f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    before = os.sched_getaffinity(0)
    node = None
    try:
        node = int((base / "numa_node").read_text())
        cpus = {
            cpu
            for span in (base / "local_cpulist").read_text().strip().split(",")
            for cpu in range(int(span.split("-")[0]), int(span.split("-")[-1]) + 1)
        }
        os.sched_setaffinity(0, cpus & before or before)
    except (OSError, ValueError):
        node = None
    try:
        yield node if node is not None and node >= 0 else None
    finally:
        os.sched_setaffinity(0, before)


def of_host(torch: Any, device: Any) -> Iterator[dict[str, object]]:
    """Host-to-device and device-to-host bandwidth of this rank's GPU, pinned and pageable, from its own socket."""
    size = 256 << 20
    with _near(torch, device) as numa:
        on_gpu = torch.ones(size, dtype=torch.uint8, device=device)
        for pinned in (True, False):
            on_host = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
            on_host.fill_(1)  # untouched pages all map to one page of zeros, which copies too fast
            for direction, target, source in (("h2d", on_gpu, on_host), ("d2h", on_host, on_gpu)):
                seconds = _seconds(torch, target, source, pinned, device)
                what = {"direction": direction, "pinned": pinned, "size_bytes": size, "numa_node": numa}
                yield {**what, "gbps": size / seconds / 1e9}


def _seconds(torch: Any, target: Any, source: Any, non_blocking: bool, *devices: Any) -> float:
    """Time of a copy, the mean of five behind one that is not counted."""
    target.copy_(source)
    for device in devices:
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    for _ in range(5):
        target.copy_(source, non_blocking=non_blocking)
    for device in devices:
        torch.cuda.synchronize(device)
    return (time.perf_counter() - started) / 5


def between_gpus(torch: Any) -> Iterator[dict[str, object]]:
    """Peer access and copy bandwidth between every two GPUs that this process sees."""
    count = torch.cuda.device_count()
    size = 128 << 20
    for src in range(count):
        for dst in range(count):
            if src == dst:
                continue
            source = torch.ones(size, dtype=torch.uint8, device=f"cuda:{src}")
            target = torch.empty(size, dtype=torch.uint8, device=f"cuda:{dst}")
            seconds = _seconds(torch, target, source, True, src, dst)
            access = bool(torch.cuda.can_device_access_peer(src, dst))
            yield {"src": src, "dst": dst, "peer_access": access, "size_bytes": size, "gbps": size / seconds / 1e9}

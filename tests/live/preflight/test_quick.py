"""The quick checks on made-up file trees of many machines: what each is told, and that good ones are told nothing."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path

import pytest

from nccl_insight.base.model import Action
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.quick import facts_of, quick_checks
from tests.live.gates import LIMITS, checks, good, node
from tests.live.made_machines import IB, asked, dgx, eight, gpus, made, nics, storage
from tests.stand_ins.pynvml import Machine


def test_compute_nics_are_counted_without_those_for_storage(tmp_path: Path) -> None:
    assert facts_of(made(tmp_path / "a", storage()))["nics"] == 8.0
    down = {**storage(), f"{IB}/mlx5_3/ports/1/state": "1: DOWN"}
    assert facts_of(made(tmp_path / "b", down))["nics"] == 7.0


@pytest.mark.parametrize(
    ("setting", "count"),
    [("mlx5_1", 1), ("=mlx5_1,mlx5_2", 2), ("^mlx5_1", 7), ("^=mlx5_1,mlx5_2", 6), ("mlx5", 8), ("mlx5_0:2", 0)],
)
def test_nics_that_nccl_is_told_to_use(tmp_path: Path, setting: str, count: int) -> None:
    assert facts_of(made(tmp_path, dgx(), NCCL_IB_HCA=setting))["nics"] == float(count)


def test_a_prefix_names_more_devices_than_it_seems(tmp_path: Path) -> None:
    assert facts_of(made(tmp_path, {**gpus(8), **nics(12)}, NCCL_IB_HCA="mlx5_1"))["nics"] == 3.0


def test_counters_that_the_driver_refuses_are_not_read(tmp_path: Path) -> None:
    refused = eight(every={"link_errors": None, "ecc": None, "rows": None})
    lines = {c.name: c.observed for c in quick_checks(asked(tmp_path, dgx(), refused))}
    assert "error counters not read" in lines["nvlink"]
    assert lines["gpu health"] == "8 GPUs by NVML: clocks not throttled; not read: ECC, remapped rows"


def record(seconds: float, text: str) -> str:
    return f"4,2,{int(seconds * 1e6)},-;{text}\n"


XID = "NVRM: Xid (PCI:0000:3b:00): {}"
FATAL = XID.format("145, RLW_REMAP Fatal XC0 i0 Link 3 (0x0 0x40)")
LOST = XID.format("79, pid=0, GPU has fallen off the bus.")
ASKS = XID.format("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")
RECOVERED = XID.format("154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, {}, Link 30 LTSSM Fault Up"
LOADED = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build"
KERNEL: dict[str, tuple[list[str], Status, str]] = {
    "NVLink 5, fatal": ([FATAL], Status.FAIL, "Xid 145 (NVLink RLW error)"),
    "NVLink 5, corrected": ([FATAL.replace("Fatal", "Nonfatal")], Status.PASS, "Xid 145"),
    "a restart is due": ([ASKS], Status.FAIL, "Node Reboot Required"),
    "recovered since": ([LOST, FATAL, RECOVERED], Status.PASS, "none"),
    "another GPU recovered": ([LOST, RECOVERED.replace("3b", "4c")], Status.FAIL, "Xid 79"),
    "failed again": ([LOST, RECOVERED, LOST], Status.FAIL, "Xid 79"),
    "before the driver was loaded anew": ([LOST, LOADED], Status.PASS, "none"),
    "switch, fatal": ([SWITCH.format("Fatal")], Status.FAIL, "NVSwitch 0000:c1:00.0: SXid 20034"),
    "switch, corrected": ([SWITCH.format("Non-fatal")], Status.PASS, "SXid 20034"),
    "contained": ([XID.format("94, pid=12, name=python, Contained: SM (0x1)")], Status.WARN, "contained"),
    "many corrected": ([XID.format("92, pid=12, name=python")], Status.WARN, "single-bit"),
    "remapped": ([XID.format("63, pid=1, Row Remapper: New row marked for remapping")], Status.PASS, "Xid 63"),
    "initialization": ([XID.format("143, GPU Initialization Failure")], Status.FAIL, "Xid 143"),
}


@pytest.mark.parametrize("name", sorted(KERNEL))
def test_events_of_the_driver(tmp_path: Path, name: str) -> None:
    lines, status, words = KERNEL[name]
    files = {**dgx(), "dev/kmsg": "".join(record(n, line) for n, line in enumerate(lines))}
    found = next(c for c in quick_checks(made(tmp_path, files)) if c.name == "xid")
    assert found.status is status
    assert words in found.observed


def test_events_count_as_far_back_as_is_asked(tmp_path: Path) -> None:
    files = {**dgx(), "dev/kmsg": record(1_000, LOST), "proc/uptime": "90000.00 1.0\n"}
    subject = made(tmp_path, files)

    def seen(window_s: float | None) -> Check:
        return next(c for c in quick_checks(subject, window_s=window_s) if c.name == "xid")

    assert seen(None).status is Status.FAIL
    assert seen(90_000.0).status is Status.FAIL
    assert seen(86_400.0).status is Status.PASS
    assert seen(86_400.0).observed == "none in the last 24 h"


@pytest.mark.parametrize(("code", "says"), [(9, "nvidia-smi"), (12, "nvidia-smi"), (18, "NVML failed: error 18")])
def test_nvml_that_cannot_start(tmp_path: Path, code: int, says: str) -> None:
    """Without the library nvidia-smi is asked; any other reason is about the driver."""
    subject = replace(made(tmp_path, dgx()), library=Machine(failure=code))
    lines = [c.line() for c in quick_checks(subject) if c.name in ("gpu health", "driver")]
    assert len(lines) == 1
    assert says in lines[0]


# --- checks of the node --------------------------------------------------------------------------------------


def test_a_good_node_passes(tmp_path: Path) -> None:
    found = checks(node(good(tmp_path)))
    assert {c.status for n, c in found.items() if n not in ("libraries", "pci acs", "xid", "gpu health", "clock")} == {
        Status.PASS
    }
    assert "8 GPUs, NVIDIA H100 80GB HBM3, driver 570.124.06" in found["gpus"].observed
    assert "8 of 8 RDMA ports active, 400 Gb/s, InfiniBand" in found["nics"].observed


def test_facts_of_a_good_node(tmp_path: Path) -> None:
    facts = facts_of(node(good(tmp_path)))
    assert (facts["gpus"], facts["nics"], facts["nic_gbit"], facts["driver"]) == (8.0, 8.0, 400.0, "570.124.06")
    assert facts["gpu_model"] == "NVIDIA H100 80GB HBM3"
    assert facts["memlock_gib"] == float("inf")


def test_without_anything_nothing_passes_for_gpus(tmp_path: Path) -> None:
    found = checks(node(tmp_path))
    for name in ("gpus", "nics", "gpudirect", "pci acs", "iommu"):
        assert found[name].status is Status.SKIP


def test_ports_that_are_down_or_uneven(tmp_path: Path) -> None:
    root = good(tmp_path, nics=2)
    ports = root / "sys/class/infiniband"
    (ports / "mlx5_1/ports/1/rate").write_text("100 Gb/sec (4X EDR)")
    assert checks(node(root))["nics"].code == "NI220"
    for n in range(2):
        (ports / f"mlx5_{n}/ports/1/state").write_text("1: DOWN")
    assert checks(node(root))["nics"].status is Status.FAIL


def test_gpudirect_by_dma_buf_or_not_at_all(tmp_path: Path) -> None:
    root = good(tmp_path)
    (root / "sys/module/nvidia_peermem/version").unlink()
    (root / "sys/module/nvidia_peermem").rmdir()
    assert "DMA-BUF" in checks(node(root))["gpudirect"].observed
    (root / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  X")
    found = checks(node(root))
    assert (found["gpudirect"].status, found["gpudirect"].code) == (Status.WARN, "NI234")
    assert "driver 535.104.05" in found["gpus"].observed


def test_iommu_without_passthrough(tmp_path: Path) -> None:
    root = good(tmp_path)
    (root / "proc/cmdline").write_text("root=/dev/sda intel_iommu=on")
    assert checks(node(root))["iommu"].status is Status.WARN


def test_a_lost_gpu_fails_the_node(tmp_path: Path) -> None:
    root = good(tmp_path)
    base = root / "proc/driver/nvidia/gpus/0000:03:00.0/information"
    base.write_text("Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-????????-????-????-????-????????????\n")
    found = checks(node(root))["lost gpus"]
    assert (found.status, found.action) == (Status.FAIL, Action.ISOLATE)
    assert "0000:03:00.0" in found.observed
    assert facts_of(node(root))["gpus"] == 7.0


def test_a_gpu_that_reads_as_all_ones_is_lost(tmp_path: Path) -> None:
    root = good(tmp_path)
    device = root / "sys/bus/pci/devices/0000:05:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0xffff\n")
    assert "0000:05:00.0" in checks(node(root))["lost gpus"].observed


@pytest.mark.parametrize(("width", "fires"), [("8", True), ("16", False)])
def test_a_narrow_slot(tmp_path: Path, width: str, fires: bool) -> None:
    root = good(tmp_path)
    device = root / "sys/bus/pci/devices/0000:02:00.0"
    device.mkdir(parents=True)
    for name, text in (("vendor", "0x10de"), ("current_link_width", width), ("max_link_width", "16")):
        (device / name).write_text(text)
    assert ("pcie width" in checks(node(root))) is fires


def test_little_locked_memory_is_no_failure_where_nothing_needs_rdma(tmp_path: Path) -> None:
    root = good(tmp_path)
    for n in range(8):
        (root / f"sys/class/infiniband/mlx5_{n}/ports/1/link_layer").write_text("Ethernet")
    small = tuple({**LIMITS, resource.RLIMIT_MEMLOCK: 8 << 20}.items())
    assert checks(node(root, limits=small))["memlock"].status is Status.WARN
    wanted = node(root, limits=small, environ={"NCCL_IB_HCA": "mlx5"})
    assert checks(wanted)["memlock"].status is Status.FAIL

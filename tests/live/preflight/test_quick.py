"""The quick checks on made-up file trees of many machines: what each is told, and that good ones are told nothing."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight import nvml
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.node import Node
from nccl_insight.live.preflight.nvml import survey
from nccl_insight.live.preflight.quick import facts_of, quick_checks
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


def lost() -> Files:
    files = dgx()
    files["proc/driver/nvidia/gpus/0000:05:00.0/information"] = (
        "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
    )
    files["dev/kmsg"] += "4,2,9,-;NVRM: Xid (PCI:0000:05:00): 79, pid=0, GPU has fallen off the bus.\n"
    return files


def storage() -> Files:
    return {**dgx(), **nics(2, 8, "200 Gb/sec (4X HDR)", "Ethernet")}


def amd() -> Files:
    cards = {}
    for n in range(8):
        base = f"sys/class/drm/renderD{128 + n}/device"
        cards |= {
            f"{base}/vendor": "0x1002",
            f"{base}/current_link_width": "16",
            f"{base}/max_link_width": "16",
            f"{base}/ras/umc_err_count": "ue: 0\nce: 3\n",
            f"{base}/mem_info_vram_used": "10567680",
        }
    return {**cards, "dev/kfd": "", **{f"dev/dri/renderD{128 + n}": "" for n in range(8)}, "proc/cmdline": "iommu=pt"}


def limited() -> Files:
    return {**dgx(), **{f"sys/class/infiniband/mlx5_{n}/ports/1/pkeys/0": "0x7fff" for n in range(8)}}


def unaddressed() -> Files:
    ethernet = nics(8, 0, "400 Gb/sec (4X NDR)", "Ethernet")
    return {**gpus(8), **switches(), **{k: v for k, v in ethernet.items() if not k.endswith("/3")}}


def down(physical: str) -> Files:
    return {**dgx(), f"{IB}/mlx5_3/ports/1/state": "1: DOWN", f"{IB}/mlx5_3/ports/1/phys_state": physical}


IB = "sys/class/infiniband"
MACHINES: dict[str, tuple[Files, dict[str, Output] | None, dict[str, Status]]] = {
    "8 x H100, healthy": (dgx(), None, {}),
    "a lost GPU": (lost(), None, {"gpus": Status.FAIL, "lost gpus": Status.FAIL, "xid": Status.FAIL}),
    "a GPU with fewer NVLinks": (dgx(), smi(short=2), {"nvlink": Status.FAIL}),
    "a x8 slot": (
        {**dgx(), "sys/bus/pci/devices/0000:02:00.0/current_link_width": "8"}, None, {"pcie width": Status.WARN},
    ),
    "a NIC that is down": (down("2: Polling"), None, {"nic down": Status.WARN}),
    "a NIC that is disabled": (down("3: Disabled"), None, {}),
    "a NIC at half rate": (
        {**dgx(), f"{IB}/mlx5_5/ports/1/rate": "200 Gb/sec (2X NDR)"}, None, {"nic rate": Status.WARN},
    ),
    "a slower kind of NIC for storage": ({**dgx(), **nics(2, 8, "200 Gb/sec (4X HDR)")}, None, {}),
    "storage NICs beside the compute NICs": (storage(), None, {"nics": Status.WARN}),
    "MIG": ({**gpus(1), **nics(1)}, smi(1, 0, mig="Enabled"), {"mig": Status.WARN}),
    "a virtual machine with one GPU": (
        {**gpus(1, "NVIDIA L4"), **nics(1, 0, "100 Gb/sec (4X EDR)", "Ethernet")}, smi(1, 0), {},
    ),
    "AMD": (amd(), {}, {}),
    "Grace Blackwell": (
        {**gpus(4, "NVIDIA GB200"), "dev/nvidia-caps-imex-channels/channel0": "", **nics(4)}, smi(4, speed=53.125), {},
    ),
    "no driver": ({"proc/cmdline": "x"}, {}, {}),
    "a driver tool that hangs": (dgx(), {"--query-gpu": Output("hung")}, {"driver": Status.FAIL}),
    "no fabric manager": ({**gpus(8), **switches(False), **nics(8)}, None, {"fabric manager": Status.FAIL}),
    "Grace Blackwell without IMEX": ({**gpus(4, "NVIDIA GB200"), **nics(4)}, smi(4, speed=53.125),
                                     {"imex": Status.WARN}),
    "limited partition": (limited(), None, {"partition key": Status.WARN}),
    "a cable with errors": (
        {**dgx(), f"{IB}/mlx5_6/ports/1/counters/link_downed": "412"}, None, {"nic errors": Status.WARN},
    ),
    "two firmware releases": ({**dgx(), f"{IB}/mlx5_6/fw_ver": "28.36.1010"}, None, {"nic firmware": Status.WARN}),
    "RoCE without an address": (unaddressed(), None, {"roce address": Status.WARN}),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_what_a_machine_is_told(tmp_path: Path, name: str) -> None:
    files, tools, expected = MACHINES[name]
    found = told(made(tmp_path, files, tools))
    assert {n: c.status for n, c in found.items()} == expected, [c.line() for c in found.values()]
    for check in found.values():
        assert check.fix


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


# --- the same through NVML -----------------------------------------------------------------------------------

DIFFERENCES: dict[str, tuple[dict[str, Any], str, Status, str]] = {
    "lost": ({"lost": True}, "silent gpus", Status.FAIL, "GPU 3 does not answer"),
    "memory errors": ({"ecc": 2}, "ecc", Status.FAIL, "GPU 3"),
    "remapping failed": ({"rows": (0, 9, 0, 1)}, "row remapping", Status.FAIL, "GPU 3: row remapping failed"),
    "remapping waits": ({"rows": (0, 1, 1, 0)}, "row remapping", Status.WARN, "a row waits"),
    "heat": ({"reasons": 0x48}, "clocks", Status.WARN, "slowed down by heat"),
    "power brake": ({"reasons": 0x88}, "clocks", Status.WARN, "power brake"),
    "exclusive": ({"compute": 3}, "compute mode", Status.WARN, "Exclusive_Process"),
    "MIG": ({"mig": (1, 1)}, "mig", Status.WARN, "split by MIG"),
    "leftover": ({"processes": [(4711, 31 << 30)], "used": 32 << 30}, "leftovers", Status.WARN, "python3 4711, 31,744"),
    "hidden use": ({"used": 30 << 30}, "gpu memory", Status.WARN, "GPU 3 30,720 MiB"),
    "old slot": ({"generation": 4}, "pcie generation", Status.WARN, "the slot gives PCIe Gen4"),
    "replays": ({"replays": 40_000}, "pcie replays", Status.WARN, "40,000"),
    "less power": ({"power": 500_000}, "power limit", Status.WARN, "GPU 3 500 W; expected 700 W"),
    "slow clock": ({"clock": 1200}, "clock limit", Status.WARN, "at most 1200 MHz"),
    "two links down": ({"links": [1] * 16 + [0, 0]}, "nvlink", Status.FAIL, "GPU 3 has 16"),
    "link errors": ({"link_errors": {7: 90_210}}, "nvlink errors", Status.WARN, "on link 7"),
    "fabric": ({"fabric": (2, 0)}, "nvlink fabric", Status.FAIL, "still in progress"),
    "fabric refused": ({"fabric": (3, 999)}, "nvlink fabric", Status.FAIL, "status 999"),
    "recovery": ({"recovery": 2}, "recovery", Status.FAIL, "a restart of the node"),
    "recovery of the domain": ({"recovery": 5}, "recovery", Status.FAIL, "nvidia-imex"),
    "heat by software": ({"reasons": 0x20}, "clocks", Status.WARN, "slowed down by heat"),
    "slowed alone": ({"reasons": 0x08}, "clocks", Status.WARN, "HW Slowdown"),
    "SRAM": ({"sram": 1}, "sram", Status.FAIL, "GPU 3"),
    "no spare rows": ({"bare": 2}, "spare rows", Status.WARN, "GPU 3"),
    "another VBIOS": ({"vbios": "96.00.30.00.02"}, "vbios", Status.WARN, "2 releases"),
    "degraded fabric": ({"health": 0x1}, "nvlink fabric", Status.FAIL, "GPU 3: NVLink has less bandwidth"),
    "fabric with a wrong chassis": ({"health": 0x3AA}, "nvlink fabric", Status.FAIL, "serial number of the chassis"),
    "link errors of Blackwell": (
        {"link_errors": None, "link_fields": {"208:5": 7_000_000_000, "215:5": 2}},
        "nvlink errors",
        Status.WARN,
        "7,000,000,002 of them on link 5",
    ),
}


@pytest.mark.parametrize("name", sorted(DIFFERENCES))
def test_one_gpu_that_differs_from_its_siblings(tmp_path: Path, name: str) -> None:
    change, check, status, words = DIFFERENCES[name]
    found = told(asked(tmp_path, {**dgx(), "proc/4711/comm": "python3"}, eight(change)))
    assert {n: c.status for n, c in found.items()} == {check: status}
    assert words in found[check].line()
    assert found[check].fix


@pytest.mark.parametrize(
    ("every", "model", "checks"),
    [
        ({}, "NVIDIA H100 80GB HBM3", {}),
        ({"links": [1] * 12}, "NVIDIA H100 80GB HBM3", {"nvlink": Status.WARN}),
        ({"links": [1] * 8}, "NVIDIA H800", {}),
        ({"power": 500_000}, "NVIDIA H100 80GB HBM3", {"power limit": Status.WARN}),
        ({"power": 690_000}, "NVIDIA H100 80GB HBM3", {}),
        ({"generation": 4}, "NVIDIA H100 80GB HBM3", {"pcie generation": Status.WARN}),
        ({"health": 0x1AA}, "NVIDIA H100 80GB HBM3", {}),
        ({"speed": 53125}, "NVIDIA B200", {}),
        ({"speed": 26562}, "NVIDIA B200", {"nvlink": Status.WARN}),
        ({"links": [], "fabric": (0, 0), "ecc": None, "rows": None, "speed": None}, "NVIDIA L40S", {}),
        ({"processes": [(99, None)]}, "NVIDIA H100 80GB HBM3", {}),
    ],
)
def test_what_all_gpus_have_alike_is_how_the_machine_is_set_up(
    tmp_path: Path, every: dict[str, Any], model: str, checks: dict[str, Status]
) -> None:
    files = {**dgx(), **gpus(8, model), "proc/99/comm": "nvidia-cuda-mps"}
    found = told(asked(tmp_path, files, eight(every={**every, "name": model})))
    assert {n: c.status for n, c in found.items()} == checks, [c.line() for c in found.values()]


def test_counters_that_the_driver_refuses_are_not_read(tmp_path: Path) -> None:
    refused = eight(every={"link_errors": None, "ecc": None, "rows": None})
    lines = {c.name: c.observed for c in quick_checks(asked(tmp_path, dgx(), refused))}
    assert "error counters not read" in lines["nvlink"]
    assert lines["gpu health"] == "8 GPUs by NVML: clocks not throttled; not read: ECC, remapped rows"


@pytest.mark.parametrize(
    ("count", "model", "fires"),
    [
        (7, "NVIDIA H100 80GB HBM3", True), (5, "NVIDIA B200", True), (3, "NVIDIA GB200", True),
        (4, "NVIDIA H100 80GB HBM3", False), (1, "NVIDIA H200", False), (4, "NVIDIA GB200", False),
        (7, "NVIDIA L40S", False), (3, "NVIDIA A100-PCIE-40GB", False),
    ],
)  # fmt: skip
def test_boards_of_gpus_come_whole_or_in_parts_of_two(tmp_path: Path, count: int, model: str, fires: bool) -> None:
    assert ("gpu count" in told(made(tmp_path, gpus(count, model), {}))) is fires


@pytest.mark.parametrize(("count", "fires"), [(7, True), (5, True), (8, False), (4, False), (2, False), (9, False)])
def test_a_nic_that_is_gone_altogether(tmp_path: Path, count: int, fires: bool) -> None:
    files = {**gpus(8), **switches(), **nics(count)}
    assert ("nic count" in told(made(tmp_path / "a", files))) is fires
    assert "nic count" not in told(made(tmp_path / "b", files, NCCL_IB_HCA="mlx5"))


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


def test_two_gpus_that_differ_cannot_be_told_apart(tmp_path: Path) -> None:
    library = Machine([{"generation": 4, "gpu_generation": 4}, {"replays": 5_000}])
    assert told(asked(tmp_path, {**gpus(2), **switches(), **nics(2)}, library)) == {}


def test_a_driver_that_hangs_is_asked_once(tmp_path: Path) -> None:
    subject = replace(asked(tmp_path, dgx(), Machine(hang_s=9)), tools={"--query-gpu": Output("ok", "x")})
    found = told(subject)
    assert found["driver"].status is Status.FAIL
    assert "NVML did not return within 4 s" in found["driver"].observed


@pytest.mark.parametrize(("code", "says"), [(9, "nvidia-smi"), (12, "nvidia-smi"), (18, "NVML failed: error 18")])
def test_nvml_that_cannot_start(tmp_path: Path, code: int, says: str) -> None:
    """Without the library nvidia-smi is asked; any other reason is about the driver."""
    subject = replace(made(tmp_path, dgx()), library=Machine(failure=code))
    lines = [c.line() for c in quick_checks(subject) if c.name in ("gpu health", "driver")]
    assert len(lines) == 1
    assert says in lines[0]


def probe(machine: dict[str, Any], timeout_s: float) -> Output:
    """The real script in its own process, with the stand-in in place of nvidia-ml-py."""
    environ = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2] / "stand_ins"),
        "NVML_STAND_IN": json.dumps(machine),
    }
    try:
        done = subprocess.run(
            [sys.executable, str(nvml.__file__)],
            capture_output=True,
            text=True,
            env=environ,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Output("hung")
    return Output("ok" if done.returncode == 0 else "failed", done.stdout, done.stderr)


def test_nvml_is_asked_in_a_process_of_its_own() -> None:
    done = probe({"gpus": [{}, {"lost": True}]}, 60)
    found = json.loads(done.text)
    assert found["driver"] == "570.124.06"
    assert found["gpus"][0]["bus_id"] == "0000:00:00.0"
    assert [link["up"] for link in found["gpus"][0]["links"]] == [True] * 18
    assert found["gpus"][1] == {"index": 1, "error": "GPU is lost"}


def test_an_nvml_call_that_never_returns_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "stand_ins"))
    monkeypatch.setenv("NVML_STAND_IN", json.dumps({"hang_s": 3600}))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert Node({}, tmp_path).nvml(timeout_s=1.0).state == "hung"


def test_memory_errors_of_amd_gpus(tmp_path: Path) -> None:
    files = {**amd(), "sys/class/drm/renderD130/device/ras/umc_err_count": "ue: 2\nce: 0"}
    found = told(made(tmp_path, files, {}))
    assert {n: c.status for n, c in found.items()} == {"ecc": Status.FAIL}
    assert "renderD130 memory 2" in found["ecc"].observed

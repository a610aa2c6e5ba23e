"""The quick checks on made-up file trees of many machines: what each is told, and that good ones are told nothing."""

from __future__ import annotations

import resource
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.node import Node
from nccl_insight.live.preflight.quick import facts_of, quick_checks

Files = dict[str, str]
LIMITS = {
    resource.RLIMIT_MEMLOCK: None, resource.RLIMIT_NOFILE: 65536, resource.RLIMIT_STACK: 8 << 20,
    resource.RLIMIT_NPROC: None,
}  # fmt: skip
HEALTH = "{n}, 00000000:{n:02X}:00.0, 0, No, No, Not Active, Not Active, Default, {mig}, 4, 16, 16\n"


@dataclass(frozen=True)
class Made(Node):
    """A node of files, with the answers of nvidia-smi by its first argument."""

    tools: dict[str, Output] = field(default_factory=dict)

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
            f"{base}/fw_ver": "28.39.3004", f"{base}/board_id": f"MT_{rate.split()[0]}",
            f"{base}/ports/1/state": "4: ACTIVE", f"{base}/ports/1/rate": rate, f"{base}/ports/1/link_layer": layer,
            f"{base}/ports/1/pkeys/0": "0xffff", f"{base}/ports/1/counters/link_downed": "1",
        }  # fmt: skip
        if layer == "Ethernet":
            files |= {
                f"{base}/ports/1/gids/0": "fe80:0000:0000:0000:0a00:00ff:fe00:0001",
                f"{base}/ports/1/gids/3": "0000:0000:0000:0000:0000:ffff:0a14:1e28",
                f"{base}/ports/1/gid_attrs/types/0": "IB/RoCE v1",
                f"{base}/ports/1/gid_attrs/types/3": "RoCE v2",
            }
    return files


def smi(count: int = 8, links: int = 18, short: int = 0, mig: str = "[N/A]") -> dict[str, Output]:
    listing = "".join(
        f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n})\n"
        + "".join(f"\t Link {k}: 26.562 GB/s\n" for k in range(links - (short if n == 3 else 0)))
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
    return {"dev/kfd": "", **{f"dev/dri/renderD{128 + n}": "" for n in range(8)}, "proc/cmdline": "iommu=pt"}


def limited() -> Files:
    return {**dgx(), **{f"sys/class/infiniband/mlx5_{n}/ports/1/pkeys/0": "0x7fff" for n in range(8)}}


def unaddressed() -> Files:
    ethernet = nics(8, 0, "400 Gb/sec (4X NDR)", "Ethernet")
    return {**gpus(8), **switches(), **{k: v for k, v in ethernet.items() if not k.endswith("/3")}}


IB = "sys/class/infiniband"
MACHINES: dict[str, tuple[Files, dict[str, Output] | None, dict[str, Status]]] = {
    "8 x H100, healthy": (dgx(), None, {}),
    "a lost GPU": (lost(), None, {"lost gpus": Status.FAIL, "xid": Status.FAIL}),
    "a GPU with fewer NVLinks": (dgx(), smi(short=2), {"nvlink": Status.FAIL}),
    "a x8 slot": (
        {**dgx(), "sys/bus/pci/devices/0000:02:00.0/current_link_width": "8"}, None, {"pcie width": Status.WARN},
    ),
    "a NIC that is down": ({**dgx(), f"{IB}/mlx5_3/ports/1/state": "1: DOWN"}, None, {}),
    "storage NICs beside the compute NICs": (storage(), None, {"nics": Status.WARN}),
    "MIG": ({**gpus(1), **nics(1)}, smi(1, 0, mig="Enabled"), {"mig": Status.WARN}),
    "a virtual machine with one GPU": (
        {**gpus(1, "NVIDIA L4"), **nics(1, 0, "100 Gb/sec (4X EDR)", "Ethernet")}, smi(1, 0), {},
    ),
    "AMD": (amd(), {}, {}),
    "Grace Blackwell": (
        {**gpus(4, "NVIDIA GB200"), "dev/nvidia-caps-imex-channels/channel0": "", **nics(4)}, smi(4), {},
    ),
    "no driver": ({"proc/cmdline": "x"}, {}, {}),
    "a driver tool that hangs": (dgx(), {"--query-gpu": Output("hung")}, {"nvidia-smi": Status.FAIL}),
    "no fabric manager": ({**gpus(8), **switches(False), **nics(8)}, None, {"fabric manager": Status.FAIL}),
    "Grace Blackwell without IMEX": ({**gpus(4, "NVIDIA GB200"), **nics(4)}, smi(4), {"imex": Status.WARN}),
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
    [
        ("mlx5_1", 1),
        ("=mlx5_1,mlx5_2", 2),
        ("^mlx5_1", 7),
        ("^=mlx5_1,mlx5_2", 6),
        ("mlx5", 8),
        ("mlx5_0:2", 0),
    ],
)
def test_nics_that_nccl_is_told_to_use(tmp_path: Path, setting: str, count: int) -> None:
    assert facts_of(made(tmp_path, dgx(), NCCL_IB_HCA=setting))["nics"] == float(count)


def test_a_prefix_names_more_devices_than_it_seems(tmp_path: Path) -> None:
    assert facts_of(made(tmp_path, {**gpus(8), **nics(12)}, NCCL_IB_HCA="mlx5_1"))["nics"] == 3.0

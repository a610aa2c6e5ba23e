"""The quick checks on made-up file trees of many machines: what each is told, and that good ones are told nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight import nvml
from nccl_insight.live.preflight.model import Status
from tests.live.made_machines import IB, Files, asked, dgx, down, eight, gpus, made, nics, smi, storage, switches, told
from tests.stand_ins.pynvml import Machine


def lost() -> Files:
    files = dgx()
    files["proc/driver/nvidia/gpus/0000:05:00.0/information"] = (
        "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-????????-????-????-????-????????????\n"
    )
    files["dev/kmsg"] += "4,2,9,-;NVRM: Xid (PCI:0000:05:00): 79, pid=0, GPU has fallen off the bus.\n"
    return files


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
    "less power": ({"power": 500_000}, "power limit", Status.WARN, "GPU 3: 500 W; expected 700 W"),
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
    "degraded fabric": ({"health": 0x1}, "nvlink fabric", Status.FAIL, "GPU 3: degraded bandwidth"),
    "fabric with a wrong chassis": ({"health": 0x3AA}, "nvlink fabric", Status.FAIL, "a wrong chassis serial number"),
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


def test_two_gpus_that_differ_cannot_be_told_apart(tmp_path: Path) -> None:
    library = Machine([{"generation": 4, "gpu_generation": 4}, {"replays": 5_000}])
    assert told(asked(tmp_path, {**gpus(2), **switches(), **nics(2)}, library)) == {}


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


def test_memory_errors_of_amd_gpus(tmp_path: Path) -> None:
    files = {**amd(), "sys/class/drm/renderD130/device/ras/umc_err_count": "ue: 2\nce: 0"}
    found = told(made(tmp_path, files, {}))
    assert {n: c.status for n, c in found.items()} == {"ecc": Status.FAIL}
    assert "renderD130 memory 2" in found["ecc"].observed

"""A stand-in for nvidia-ml-py: a made-up machine, from the environment when it is imported as ``pynvml``."""

from __future__ import annotations

import ctypes
import json
import os
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """NVML's error: ``value`` is its code."""

    def __init__(self, value: int) -> None:
        super().__init__({3: "Not Supported", 9: "Driver Not Loaded", 15: "GPU is lost"}.get(value, f"error {value}"))
        self.value = value


class FabricInfo(ctypes.Structure):
    _fields_ = (("clusterUuid", ctypes.c_uint8 * 16), ("status", ctypes.c_uint), ("cliqueId", ctypes.c_uint32),
                ("state", ctypes.c_ubyte))  # fmt: skip


class FabricInfoV3(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint), ("clusterUuid", ctypes.c_uint8 * 16), ("status", ctypes.c_uint),
                ("cliqueId", ctypes.c_uint32), ("state", ctypes.c_uint), ("healthMask", ctypes.c_uint32),
                ("healthSummary", ctypes.c_uint8))  # fmt: skip


class SramStatus(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint), ("bThresholdExceeded", ctypes.c_uint))


HEALTHY: dict[str, Any] = {
    "ecc": 0, "rows": (0, 0, 0, 0), "reasons": 1, "compute": 0, "mig": (0, 0), "used": 4 << 20, "processes": [],
    "generation": 5, "gpu_generation": 5, "replays": 0, "power": 700_000, "power_default": 700_000, "clock": 1980,
    "links": [1] * 18, "link_errors": {}, "speed": 26562, "fabric": (3, 0), "recovery": 0,
    "health": None, "sram": 0, "bare": 0, "vbios": "96.00.5E.00.01",
    "name": "NVIDIA H100 80GB HBM3",
}  # fmt: skip


@dataclass
class Machine:
    """GPUs as changes against a healthy H100; None as a value is not supported; ``lost`` does not answer."""

    gpus: list[dict[str, Any]] = field(default_factory=list)
    failure: int | None = None
    hang_s: float = 0.0

    NVMLError = NVMLError
    c_nvmlGpuFabricInfo_t = FabricInfo
    c_nvmlGpuFabricInfo_v3_t = FabricInfoV3
    c_nvmlEccSramErrorStatus_v1_t = SramStatus

    def nvmlInit(self) -> None:
        time.sleep(self.hang_s)
        if self.failure is not None:
            raise NVMLError(self.failure)

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"570.124.06"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        if self.gpus[index].get("lost"):
            raise NVMLError(15)
        return {**HEALTHY, "index": index, **self.gpus[index]}

    def nvmlDeviceGetFieldValues(self, gpu: dict[str, Any], wanted: list[int]) -> list[Any]:
        values = {90: gpu["speed"], 230: gpu["recovery"]}

        def told(field: Any) -> Any:
            number, link = field if isinstance(field, tuple) else (field, None)
            found = values.get(number) if link is None else gpu.get("link_fields", {}).get(f"{number}:{link}")
            return SimpleNamespace(
                nvmlReturn=3 if found is None else 0, valueType=3, value=SimpleNamespace(ullVal=found, uiVal=None)
            )

        return [told(field) for field in wanted]

    def nvmlDeviceGetNvLinkState(self, gpu: dict[str, Any], link: int) -> int:
        if link >= len(gpu["links"]):
            raise NVMLError(3)
        return int(gpu["links"][link])

    def nvmlDeviceGetNvLinkErrorCounter(self, gpu: dict[str, Any], link: int, counter: int) -> int:
        if gpu["link_errors"] is None:
            raise NVMLError(3)
        return int(gpu["link_errors"].get(link, 0)) if counter == 0 else 0

    def nvmlDeviceGetGpuFabricInfo(self, gpu: dict[str, Any], info: Any) -> None:
        if gpu["fabric"] is None:
            raise NVMLError(3)
        info._obj.state, info._obj.status = gpu["fabric"]  # what ctypes.byref points at

    def nvmlDeviceGetGpuFabricInfoV(self, gpu: dict[str, Any], info: Any) -> None:
        if gpu["fabric"] is None or gpu["health"] is None:  # an older driver
            raise NVMLError(3)
        info._obj.state, info._obj.status = gpu["fabric"]
        info._obj.healthMask = gpu["health"]

    def nvmlDeviceGetSramEccErrorStatus(self, gpu: dict[str, Any], status: Any) -> None:
        if gpu["sram"] is None:
            raise NVMLError(3)
        status._obj.bThresholdExceeded = gpu["sram"]

    def __getattr__(self, name: str) -> Any:
        keys = {
            "TotalEccErrors": "ecc", "RemappedRows": "rows", "CurrentClocksThrottleReasons": "reasons",
            "ComputeMode": "compute", "MigMode": "mig", "MaxPcieLinkGeneration": "generation",
            "GpuMaxPcieLinkGeneration": "gpu_generation", "PcieReplayCounter": "replays",
            "PowerManagementLimit": "power", "PowerManagementDefaultLimit": "power_default", "MaxClockInfo": "clock",
            "Name": "name", "VbiosVersion": "vbios",
        }  # fmt: skip
        made = {
            "RowRemapperHistogram": lambda gpu: SimpleNamespace(max=640, none=gpu["bare"]),
            "UUID": lambda gpu: f"GPU-{gpu['index']:012d}",
            "PciInfo": lambda gpu: SimpleNamespace(busId=f"00000000:{gpu['index']:02X}:00.0"),
            "MemoryInfo": lambda gpu: SimpleNamespace(used=gpu["used"]),
            "ComputeRunningProcesses": lambda gpu: [
                SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in gpu["processes"]
            ],
        }
        short = name.removeprefix("nvmlDeviceGet")
        if short in made:
            return made[short]
        if short not in keys:
            raise AttributeError(name)

        def answer(gpu: dict[str, Any], *_: object) -> Any:
            if gpu[keys[short]] is None:
                raise NVMLError(3)
            return gpu[keys[short]]

        return answer


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(Machine(**json.loads(os.environ["NVML_STAND_IN"])), name)

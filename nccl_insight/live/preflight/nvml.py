"""Asks NVIDIA's management library (NVML, through nvidia-ml-py) about the GPUs; run as a script, in its own process.

A call into a driver that hangs never returns, so the gate runs this file with a deadline and reads one JSON document
from it. Only the standard library and ``pynvml`` are imported here.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

# Values of nvml.h that are the same in all releases.
_UNCORRECTED, _SINCE_LOAD = 1, 0
_SM_CLOCK = 1
_HARDWARE_SLOWDOWN, _SOFTWARE_THERMAL, _THERMAL, _POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
_REPLAYS, _RECOVERIES = 0, 1
# Counters of links since Blackwell, whose drivers refuse the two above: errors received, recoveries.
_LINK_FIELDS = (208, 215)
_UNSIGNED_64 = 3
_MOST_LINKS = 36
_SPEED_FIELD, _RECOVERY_FIELD = 90, 230
#: Codes that say nothing about the GPUs: driver not loaded, library not found.
NO_LIBRARY = frozenset({9, 12})
_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}


def survey(library: Any) -> dict[str, Any]:
    """State of all GPUs: ``driver`` and ``gpus``, or ``error`` and ``code`` where NVML cannot start.

    What a GPU or a release of the library does not support is None. A GPU that does not answer has ``error``.
    """
    try:
        library.nvmlInit()
        count = int(library.nvmlDeviceGetCount())
        driver = _text(library.nvmlSystemGetDriverVersion())
        return {"driver": driver, "gpus": [_gpu(library, index) for index in range(count)]}
    except library.NVMLError as error:
        return {"error": str(error), "code": getattr(error, "value", None)}


def _gpu(library: Any, index: int) -> dict[str, Any]:
    try:
        handle = library.nvmlDeviceGetHandleByIndex(index)
        uuid = _text(library.nvmlDeviceGetUUID(handle))
    except library.NVMLError as error:
        return {"index": index, "error": str(error)}

    def ask(name: str, *arguments: object) -> Any:
        try:
            return getattr(library, name)(handle, *arguments)
        except (library.NVMLError, AttributeError, IndexError):
            return None

    rows = ask("nvmlDeviceGetRemappedRows")
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
    reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons") if reasons is None else reasons
    memory, mig, bus = (ask(f"nvmlDeviceGet{name}") for name in ("MemoryInfo", "MigMode", "PciInfo"))
    return {
        "index": index,
        "uuid": uuid,
        "name": _text(ask("nvmlDeviceGetName")),
        "bus_id": _bus_id(_text(getattr(bus, "busId", None))),
        "ecc": ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_LOAD),
        "remap_pending": None if rows is None else bool(rows[2]),
        "remap_failed": None if rows is None else bool(rows[3]),
        "hot": None if reasons is None else bool(reasons & (_THERMAL | _SOFTWARE_THERMAL)),
        "power_brake": None if reasons is None else bool(reasons & _POWER_BRAKE),
        # Set together with its reason, or alone where the board pulls the line.
        "slowed": None
        if reasons is None
        else reasons & (_HARDWARE_SLOWDOWN | _THERMAL | _POWER_BRAKE) == _HARDWARE_SLOWDOWN,
        "sram_exceeded": _sram(library, handle),
        "bare_banks": getattr(ask("nvmlDeviceGetRowRemapperHistogram"), "none", None),
        "vbios": _text(ask("nvmlDeviceGetVbiosVersion")),
        "compute_mode": _MODES.get(ask("nvmlDeviceGetComputeMode")),
        "mig": None if mig is None else bool(mig[0]),
        "memory_mib": None if memory is None else memory.used / (1 << 20),
        "processes": [
            {"pid": int(p.pid), "mib": None if p.usedGpuMemory is None else p.usedGpuMemory / (1 << 20)}
            for p in ask("nvmlDeviceGetComputeRunningProcesses") or ()
        ],
        "width": ask("nvmlDeviceGetCurrPcieLinkWidth"),
        "widest": ask("nvmlDeviceGetMaxPcieLinkWidth"),
        "generation": ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        "gpu_generation": ask("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
        "replays": ask("nvmlDeviceGetPcieReplayCounter"),
        "power_limit_w": _scaled(ask("nvmlDeviceGetPowerManagementLimit"), 1e-3),
        "power_default_w": _scaled(ask("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3),
        "clock_mhz": ask("nvmlDeviceGetMaxClockInfo", _SM_CLOCK),
        "links": _links(ask),
        "link_gbps": _scaled(_field(ask, _SPEED_FIELD), 1e-3),
        "fabric": _fabric(library, handle),
        "recovery": _field(ask, _RECOVERY_FIELD),
    }


def _links(ask: Callable[..., Any]) -> list[dict[str, Any]]:
    """NVLinks that the GPU has: whether each is up, and its errors since the driver started (None: not told)."""
    found = []
    for link in range(_MOST_LINKS):
        if (up := ask("nvmlDeviceGetNvLinkState", link)) is None:
            continue
        read: list[int] = []
        if up:
            counts = [ask("nvmlDeviceGetNvLinkErrorCounter", link, counter) for counter in (_REPLAYS, _RECOVERIES)]
            read = [int(count) for count in counts if count is not None]
            counts = [] if read else [_field(ask, number, link) for number in _LINK_FIELDS]
            read += [count for count in counts if count is not None]
        found.append({"link": link, "up": bool(up), "errors": sum(read) if read else None})
    return found


def _fabric(library: Any, handle: Any) -> dict[str, Any] | None:
    """Registration with the NVLink fabric, by the newest form that library and driver share.

    ``state`` (0 none, 1 not started, 2 in progress, 3 completed), ``status``, ``cluster`` and ``clique`` (GPUs with the
    same two reach each other over NVLink), ``health`` (bits of NVML_GPU_FABRIC_HEALTH_MASK) where it is known.
    """
    forms = (
        ("c_nvmlGpuFabricInfo_v3_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_v2_t", "nvmlDeviceGetGpuFabricInfoV"),
        ("c_nvmlGpuFabricInfo_t", "nvmlDeviceGetGpuFabricInfo"),
    )
    for form, call in forms:
        if not hasattr(library, form) or not hasattr(library, call):
            continue
        info = getattr(library, form)()
        try:
            getattr(library, call)(handle, ctypes.byref(info))
        except library.NVMLError:
            continue
        return {
            "state": int(info.state),
            "status": int(info.status),
            "clique": int(info.cliqueId),
            "cluster": bytes(info.clusterUuid).hex(),
            "health": getattr(info, "healthMask", None),
        }
    return None


def _sram(library: Any, handle: Any) -> bool | None:
    """Whether errors of the SRAM exceed the limit for a replacement."""
    if not hasattr(library, "c_nvmlEccSramErrorStatus_v1_t"):
        return None
    status = library.c_nvmlEccSramErrorStatus_v1_t()
    try:
        library.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    except (library.NVMLError, AttributeError):
        return None
    return bool(status.bThresholdExceeded)


def _field(ask: Callable[..., Any], number: int, scope: int | None = None) -> int | None:
    """A value by number; ``scope`` is a link."""
    value = next(iter(ask("nvmlDeviceGetFieldValues", [number if scope is None else (number, scope)]) or ()), None)
    if value is None or value.nvmlReturn != 0:
        return None
    wide = getattr(value, "valueType", None) == _UNSIGNED_64
    return int(value.value.ullVal if wide else value.value.uiVal)


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def _bus_id(text: str) -> str:
    """As the kernel writes it: ``00000000:1B:00.0`` is ``0000:1b:00.0``."""
    domain, _, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if rest else domain


def main() -> int:
    """Prints the survey as JSON; 3 where ``pynvml`` is missing."""
    try:
        import pynvml
    except ImportError:
        return 3
    sys.stdout.write(json.dumps(survey(pynvml)) + "\n")
    return 0


if __name__ == "__main__":
    # The modules beside this file are not those that pynvml means; python -P leaves its folder out by itself.
    sys.path[:] = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]
    raise SystemExit(main())

"""Checks of the GPUs: lost ones, errors since boot, memory health, clocks, links. Reads files first, tools last."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nccl_insight.live.preflight.health import Answer, health_checks
from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.node import Node
from nccl_insight.model import Action
from nccl_insight.xids import MEANINGS

_NVIDIA, _AMD = "0x10de", "0x1002"
_USED_BYTES = 1 << 30
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): ([0-9]+)")
#: Xid codes after which the GPU or its links need service (NVIDIA's Xid catalog: memory, NVLink, bus, GSP).
_HARDWARE_XIDS = frozenset({48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158})


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver's files and the bus show it. ``bus_id`` is like ``0000:1b:00.0``."""

    bus_id: str
    model: str
    uuid: str
    width: int | None
    widest: int | None
    answers: bool

    @property
    def lost(self) -> bool:
        """Whether the driver no longer reaches it: its UUID is gone, or its configuration reads as all ones."""
        return "?" in self.uuid or not self.answers


def gpus_of(node: Node) -> list[Gpu]:
    """NVIDIA GPUs that the driver knows, by bus id."""
    found = []
    for entry in node.entries("/proc/driver/nvidia/gpus"):
        text = node.read(f"/proc/driver/nvidia/gpus/{entry}/information") or ""
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", text, re.M))
        base = f"/sys/bus/pci/devices/{entry.lower()}"
        vendor = node.read(f"{base}/vendor")
        config = node.read_bytes(f"{base}/config")
        found.append(
            Gpu(
                entry.lower(),
                fields.get("Model", "").strip(),
                fields.get("GPU UUID", "").strip(),
                _number(node.read(f"{base}/current_link_width")),
                _number(node.read(f"{base}/max_link_width")),
                answers=vendor in (None, _NVIDIA) and not (len(config) >= 2 and config[:2] == b"\xff\xff"),
            )
        )
    return found


def gpu_checks(node: Node, answer: Answer) -> Iterator[Check]:
    """Checks of the GPUs of this node; nothing where there is none."""
    gpus = gpus_of(node)
    lost = [gpu for gpu in gpus if gpu.lost]
    if lost:
        yield Check(
            "lost gpus", Status.FAIL, f"{_ids(lost)} fell off the bus (no UUID, or no answer on the bus)",
            f"{len(gpus)} GPUs that answer", "drain the node, then reset the GPU or power-cycle the machine",
            "NI515", Action.ISOLATE,
        )  # fmt: skip
    yield from _widths(gpus)
    if gpus:
        yield from _xids(node)
        yield from health_checks(node, answer, known_lost=len(lost))
    else:
        yield from _amd(node)


def _widths(gpus: list[Gpu]) -> Iterator[Check]:
    """The width of a link does not change with load, its speed does: idle GPUs slow their link down to save power."""
    narrow = [g for g in gpus if g.width and g.widest and g.width < g.widest]
    if not narrow:
        return
    rest = [g for g in gpus if g not in narrow]
    shown = ", ".join(f"{g.bus_id} x{g.width} of x{g.widest}" for g in narrow[:4])
    yield Check(
        "pcie width", Status.WARN, shown,
        f"x{narrow[0].widest}, as the other GPUs have" if rest else "the width the GPU supports",
        f"sudo lspci -vv -s {narrow[0].bus_id} | grep -i lnksta; reseat the GPU or riser if only some are narrow",
        "NI601", Action.TRIAGE if rest else Action.NONE,
    )  # fmt: skip


def _xids(node: Node) -> Iterator[Check]:
    log = node.kernel_log()
    if log is None:
        yield Check("xid", Status.SKIP, "the kernel log is readable by root only")
        return
    found: dict[str, set[int]] = {}
    for bus, code in _XID.findall(log):
        found.setdefault(bus.lower(), set()).add(int(code))
    grave = {bus: codes & _HARDWARE_XIDS for bus, codes in found.items() if codes & _HARDWARE_XIDS}
    if grave:
        shown = "; ".join(
            f"GPU {_whole(bus)}: {', '.join(_meaning(code) for code in sorted(codes))}"
            for bus, codes in sorted(grave.items())
        )
        yield Check(
            "xid", Status.FAIL, f"{shown} since boot", "no hardware Xid since boot",
            "drain the node, then reset the GPU or restart the node; dcgmi diag -r 3 before it takes jobs again",
            "NI515", Action.ISOLATE,
        )  # fmt: skip
    elif found:
        codes = sorted({code for every in found.values() for code in every})
        yield Check("xid", Status.PASS, f"only Xids of programs since boot ({', '.join(map(str, codes))})")
    else:
        yield Check("xid", Status.PASS, "none since boot")


def _amd(node: Node) -> Iterator[Check]:
    """What the amdgpu driver shows in files: memory errors, link widths, memory in use."""
    cards = [
        (entry, f"/sys/class/drm/{entry}/device")
        for entry in node.entries("/sys/class/drm")
        if entry.startswith("renderD") and node.read(f"/sys/class/drm/{entry}/device/vendor") == _AMD
    ]
    broken, narrow, busy, counted = [], [], [], 0
    for entry, base in cards:
        errors = re.search(r"ue:\s*([0-9]+)", node.read(f"{base}/ras/umc_err_count") or "")
        counted += errors is not None
        if errors is not None and int(errors[1]):
            broken.append(f"{entry} {errors[1]}")
        width = _number(node.read(f"{base}/current_link_width"))
        widest = _number(node.read(f"{base}/max_link_width"))
        if width and widest and width < widest:
            narrow.append(f"{entry} x{width} of x{widest}")
        used = node.read(f"{base}/mem_info_vram_used") or ""
        if used.isdigit() and int(used) > _USED_BYTES:
            busy.append(f"{entry} {int(used) / (1 << 30):.1f} GiB")
    if broken:
        yield Check("ecc", Status.FAIL, f"uncorrected memory errors: {', '.join(broken)}", "0",
                    "drain the node; amd-smi metric --ecc; replace the GPU if they come back", "NI515",
                    Action.ISOLATE)  # fmt: skip
    if narrow:
        yield Check("pcie width", Status.WARN, ", ".join(narrow), "the width the GPU supports",
                    "sudo lspci -vv | grep -i lnksta; reseat the GPU or riser", "NI601", Action.TRIAGE)  # fmt: skip
    if busy:
        yield Check("gpu memory", Status.WARN, f"in use before the job: {', '.join(busy)}", "idle GPUs",
                    "amd-smi process", "-", Action.TRIAGE)  # fmt: skip
    if not counted:
        yield Check(
            "gpu health",
            Status.SKIP,
            "the driver shows no error counters here (see amd-smi metric --ecc)",
        )
    elif not broken:
        yield Check("gpu health", Status.PASS, f"{counted} GPUs: no uncorrected memory error")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) < 64 else None


def _meaning(code: int) -> str:
    return f"Xid {code}" + (f" ({MEANINGS[code]})" if code in MEANINGS else "")


def _whole(bus: str) -> str:
    """The kernel's log leaves out the function of a PCI address."""
    return bus if "." in bus else f"{bus}.0"


def _ids(gpus: list[Gpu]) -> str:
    shown = ", ".join(gpu.bus_id for gpu in gpus[:4])
    return f"GPU {shown}" + (f" and {len(gpus) - 4} more" if len(gpus) > 4 else "")

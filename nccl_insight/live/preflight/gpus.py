"""Checks of the GPUs: lost ones, errors since boot, memory health, clocks, links. Reads files first, tools last."""

import re
from collections.abc import Iterator

from nccl_insight.advise.expect.hardware import find_gpu
from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Severity
from nccl_insight.base.units import listed, plural
from nccl_insight.base.xids import MEANINGS, weight
from nccl_insight.live.preflight.health import Answer, health_checks
from nccl_insight.live.preflight.model import Check, Status, check_of
from nccl_insight.live.preflight.node import Node

_NVIDIA, _AMD = "0x10de", "0x1002"
_USED_BYTES = 1 << 30
# Records of the kernel's log: priority, sequence number, microseconds since boot, flags; the message.
_RECORD = re.compile(r"^[0-9]+,[0-9]+,([0-9]+),[^;\n]*;(.*)$", re.M)
_EVENT = re.compile(r"(?:NVRM: (Xid)|\b(SXid)) \(PCI:([0-9a-fA-F:.]+)\): ([0-9]{1,6})\b(.{0,400})")
_LOADED = "NVRM: loading NVIDIA UNIX"
_ACTION = re.compile(r"recovery action changed .{0,80} to 0x([0-9a-f]{1,8})(?: \(([^)]{1,40})\))?", re.I)
_MILD = re.compile(r"\bnon-?fatal\b", re.I)
#: Blocks of AMD GPUs as a person calls them.
_BLOCKS = {"umc": "memory", "xgmi_wafl": "xGMI", "pcie_bif": "PCIe", "gfx": "graphics engine", "sdma": "copy engine"}
#: The driver ended the program that had the page; a reset at leisure is due (NVIDIA's catalog: Xid 94, 92).
_LATER = frozenset({92, 94})


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
        text = node.read(f"/proc/driver/nvidia/gpus/{entry}/information")
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", text, re.M))
        base = f"/sys/bus/pci/devices/{entry.lower()}"
        vendor = node.read(f"{base}/vendor")
        config = node.read_bytes(f"{base}/config")
        model, uuid = (fields.get(name, "").strip() for name in ("Model", "GPU UUID"))
        width, widest = (_number(node.read(f"{base}/{name}_link_width")) for name in ("current", "max"))
        answers = vendor in ("", _NVIDIA) and config[:2] != b"\xff\xff"
        found.append(Gpu(entry.lower(), model, uuid, width, widest, answers))
    return found


def gpu_checks(node: Node, answer: Answer, window_s: float | None = None) -> Iterator[Check]:
    """Checks of the GPUs of this node; nothing where there is none. ``window_s``: how far back Xids count."""
    gpus = gpus_of(node)
    lost = [gpu for gpu in gpus if gpu.lost]
    if lost:
        yield check_of("lost-gpus", ids=f"GPU {listed(gpu.bus_id for gpu in lost)}", gpus=gpus)
    yield from _widths(gpus)
    if gpus:
        yield from _count(gpus)
        yield from _xids(node, window_s)
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
    yield check_of("pcie-width", shown=shown, rest=rest, narrow=narrow)


@dataclass(frozen=True)
class Event:
    """An Xid of a GPU, or an SXid of an NVSwitch (``switch``), in the kernel's log.

    ``wish``: what Xid 154 says that the GPU needs, such as ``Node Reboot Required``.
    """

    bus: str
    code: int
    severity: Severity
    switch: bool = False
    wish: str = ""

    @property
    def text(self) -> str:
        """``Xid 79 (GPU has fallen off the bus)``."""
        if self.switch:
            return f"SXid {self.code}"
        meaning = self.wish or MEANINGS.get(self.code, "")
        return f"Xid {self.code}" + (f" ({meaning})" if meaning else "")


def events_of(log: str, after_us: int = 0) -> list[Event]:
    """Xids and SXids that still count: since ``after_us`` (microseconds after boot) and the driver's last start.

    Those of a GPU before the driver said that it needs no recovery any more (Xid 154 to None) do not count.
    """
    found: list[Event] = []
    for time, text in _RECORD.findall(log):
        if _LOADED in text:
            found = []
        event = _EVENT.search(text)
        if event is None or int(time) < after_us:
            continue
        _, switch, bus, number, rest = event.groups()
        bus, code = bus.lower(), int(number)
        action = _ACTION.search(rest) if code == 154 else None
        if action is not None and not int(action[1], 16):
            found = [e for e in found if e.bus != bus]
            continue
        word = "non-fatal" if _MILD.search(rest) else "hard" if action else None
        wish = (action[2] or "") if action else ""
        found.append(Event(bus, code, Severity(weight(code, word, switch=bool(switch))), bool(switch), wish))
    return list(dict.fromkeys(found))


def _xids(node: Node, window_s: float | None) -> Iterator[Check]:
    log = node.kernel_log()
    if log is None:
        yield Check("xid", Status.SKIP, "the kernel log is readable by root only")
        return
    uptime = re.match(r"[0-9]+(?:\.[0-9]+)?", node.read("/proc/uptime"))
    since, after_us = "since boot", 0
    if window_s is not None and uptime is not None:
        since, after_us = f"in the last {window_s / 3600:g} h", int((float(uptime[0]) - window_s) * 1e6)
    events = events_of(log, after_us)
    grave = [e for e in events if e.severity is Severity.ERROR and e.code not in _LATER]
    later = [e for e in events if e.code in _LATER and not e.switch]
    if grave:
        yield check_of("xid", by_device=_by_device(grave), since=since)
    elif later:
        yield check_of("xid-memory-errors", by_device=_by_device(later), since=since)
    elif events:
        codes = ", ".join(dict.fromkeys(e.text.split(" (")[0] for e in sorted(events, key=lambda e: e.code)))
        yield Check("xid", Status.PASS, f"only {codes} {since}: of programs, or corrected")
    else:
        yield Check("xid", Status.PASS, f"none {since}")


def _by_device(events: list[Event]) -> str:
    devices: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda e: (e.switch, e.bus, e.code)):
        bus = event.bus if "." in event.bus else f"{event.bus}.0"  # the kernel's log leaves out the function
        name = f"{'NVSwitch' if event.switch else 'GPU'} {bus}"
        devices.setdefault(name, []).append(event.text)
    shown = "; ".join(f"{name}: {', '.join(dict.fromkeys(texts))}" for name, texts in list(devices.items())[:8])
    return shown + (f" and {len(devices) - 8} more" if len(devices) > 8 else "")


def _count(gpus: list[Gpu]) -> Iterator[Check]:
    """Boards of several GPUs come whole, halved, quartered or singly."""
    model = find_gpu(gpus[0].model)
    if model is None or model.fabric not in ("nvswitch", "mesh") or len(gpus) >= model.node_gpus:
        return
    if model.node_gpus % len(gpus):
        yield check_of("gpu-count", gpus=gpus, model=model)


def _amd(node: Node) -> Iterator[Check]:
    """What the amdgpu driver shows in files: errors by block, link widths, power limits, memory in use."""
    broken, narrow, busy, capped, counted = [], [], [], [], 0
    for entry in node.entries("/sys/class/drm"):
        base = f"/sys/class/drm/{entry}/device"
        if not entry.startswith("renderD") or node.read(f"{base}/vendor") != _AMD:
            continue
        blocks = _errors_of(node, f"{base}/ras")
        counted += bool(blocks)
        broken += [f"{entry} {_BLOCKS.get(block, block)} {count}" for block, count in blocks.items() if count]
        width, widest = (_number(node.read(f"{base}/{name}_link_width")) for name in ("current", "max"))
        if width and widest and width < widest:
            narrow.append(f"{entry} x{width} of x{widest}")
        capped += [f"{entry} {said}" for said in _capped(node, f"{base}/hwmon")]
        used = node.read(f"{base}/mem_info_vram_used")
        if used.isdigit() and int(used) > _USED_BYTES:
            busy.append(f"{entry} {int(used) / (1 << 30):.1f} GiB")
    if broken:
        yield check_of("ecc", shown=", ".join(broken[:8]))
    if narrow:
        yield check_of("pcie-width-width-gpu", shown=", ".join(narrow))
    if capped:
        yield check_of("power-limit-default", shown=", ".join(capped))
    if busy:
        yield check_of("gpu-memory-use-before", shown=", ".join(busy))
    if not counted:
        yield Check("gpu health", Status.SKIP, "the driver shows no error counters here (see amd-smi metric --ecc)")
    elif not broken:
        yield Check("gpu health", Status.PASS, f"{plural(counted, 'GPU')}: no uncorrected error in memory and links")


def _capped(node: Node, folder: str) -> Iterator[str]:
    """Power limits that are clearly below what the board has by default: ``200 of 300 W``."""
    for sensor in node.entries(folder):
        cap, usual = (node.read(f"{folder}/{sensor}/power1_cap{end}") for end in ("", "_default"))
        if cap.isdigit() and usual.isdigit() and int(cap) < 0.95 * int(usual):
            yield f"{int(cap) / 1e6:.0f} of {int(usual) / 1e6:.0f} W"


def _errors_of(node: Node, folder: str) -> dict[str, int]:
    """Uncorrected errors by block."""
    names = [name for name in node.entries(folder) if name.endswith("_err_count")]
    told = {name: re.search(r"ue:\s*([0-9]+)", node.read(f"{folder}/{name}")) for name in names}
    return {name.removesuffix("_err_count"): int(errors[1]) for name, errors in told.items() if errors is not None}


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) < 64 else None

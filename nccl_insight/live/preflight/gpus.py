"""Checks of the GPUs: lost ones, errors since boot, memory health, clocks, links. Reads files first, tools last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.node import Node
from nccl_insight.model import Action

_NVIDIA = "0x10de"
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): ([0-9]+)")
#: Xid codes after which the GPU or its links need service (NVIDIA's Xid catalog: memory, NVLink, bus, GSP).
_HARDWARE_XIDS = frozenset({48, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158})
_QUERY = (
    "index", "pci.bus_id", "ecc.errors.uncorrected.volatile.total", "remapped_rows.pending", "remapped_rows.failure",
    "clocks_throttle_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown",
    "compute_mode", "mig.mode.current", "memory.used", "pcie.link.width.current", "pcie.link.width.max",
)  # fmt: skip
_TOOL_S = 4.0
_USED_MIB = 1024.0


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


def gpu_checks(node: Node) -> Iterator[Check]:
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
    yield from _xids(node)
    yield from _tool(node, bool(gpus))


def _widths(gpus: list[Gpu]) -> Iterator[Check]:
    """The width of a link does not change with load, its speed does: idle GPUs slow their link down to save power."""
    narrow = [g for g in gpus if g.width and g.widest and g.width < g.widest]
    if not narrow:
        return
    rest = [g for g in gpus if g not in narrow]
    shown = ", ".join(f"{g.bus_id} x{g.width} of x{g.widest}" for g in narrow[:4])
    yield Check(
        "pcie width", Status.WARN, shown, "x16, as the other GPUs have" if rest else "the width the GPU supports",
        "sudo lspci -vv -s <bus id> | grep -i lnksta; reseat the GPU or riser if only some are narrow", "NI601",
        Action.TRIAGE if rest else Action.NONE,
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
            f"GPU {bus}: Xid {', '.join(map(str, sorted(c)))}" for bus, c in sorted(grave.items())
        )
        yield Check(
            "xid", Status.FAIL, f"{shown} since boot", "no hardware Xid since boot",
            "drain the node, wait until it is idle, then run dcgmi diag -r 3", "NI515", Action.ISOLATE,
        )  # fmt: skip
    elif found:
        codes = sorted({code for every in found.values() for code in every})
        yield Check("xid", Status.PASS, f"only Xids of programs since boot ({', '.join(map(str, codes))})")
    else:
        yield Check("xid", Status.PASS, "none since boot")


def _tool(node: Node, expected: bool) -> Iterator[Check]:
    """What only nvidia-smi says. A tool that does not return is a finding by itself: the driver hangs."""
    if not expected:
        return
    done = node.tool(
        "nvidia-smi", f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits", timeout_s=_TOOL_S
    )
    if done.state == "missing":
        yield Check("nvidia-smi", Status.SKIP, "not installed: ECC, remapped rows, clocks not checked")
        return
    if done.state == "hung":
        yield Check(
            "nvidia-smi", Status.FAIL, f"did not return within {_TOOL_S:.0f} s", "an answer within a second",
            "look for Xid messages in dmesg; drain the node and reset the GPUs", "NI515", Action.ISOLATE,
        )  # fmt: skip
        return
    rows = [
        dict(zip(_QUERY, (v.strip() for v in line.split(",")), strict=False))
        for line in done.text.splitlines()
    ]
    rows = [row for row in rows if len(row) == len(_QUERY)]
    if done.state == "failed" or not rows:
        said = next(
            (line.strip() for line in (done.error + done.text).splitlines() if line.strip()), "no answer"
        )
        yield Check(
            "nvidia-smi", Status.WARN, f"failed: {said[:160]}", "an answer", "nvidia-smi; dmesg | grep -i nvrm",
            "NI517", Action.TRIAGE,
        )  # fmt: skip
        return
    yield from _health(rows)


def _health(rows: list[dict[str, str]]) -> Iterator[Check]:
    checks = (
        ("ecc", "ecc.errors.uncorrected.volatile.total", Status.FAIL, "uncorrected ECC errors since the driver started",
         "0", "drain the node and reset the GPU; replace it if they come back", Action.ISOLATE),
        ("row remapping", "remapped_rows.failure", Status.FAIL, "row remapping failed", "no failure",
         "take the GPU out of service and have it replaced", Action.ISOLATE),
        ("row remapping", "remapped_rows.pending", Status.WARN, "a row waits to be remapped", "none pending",
         "reset the GPU when the node is idle", Action.TRIAGE),
        ("clocks", "clocks_throttle_reasons.hw_thermal_slowdown", Status.WARN, "slowed down by heat", "not active",
         "check fans, air flow and inlet temperature (nvidia-smi -q -d TEMPERATURE)", Action.TRIAGE),
        ("clocks", "clocks_throttle_reasons.hw_power_brake_slowdown", Status.WARN, "slowed down by the power brake",
         "not active", "check the power supplies of the machine", Action.TRIAGE),
    )  # fmt: skip
    clean = True
    for name, key, status, what, expected, fix, action in checks:
        bad = [row["index"] for row in rows if _bad(row[key])]
        if bad:
            clean = False
            yield Check(name, status, f"GPU {', '.join(bad)}: {what}", expected, fix, "NI515", action)
    exclusive = [r["index"] for r in rows if r["compute_mode"].lower() not in ("default", "[n/a]", "n/a", "")]
    if exclusive:
        yield Check("compute mode", Status.WARN, f"GPU {', '.join(exclusive)}: {rows[0]['compute_mode']}", "Default",
                    "sudo nvidia-smi -c 0", "-", Action.CONFIG)  # fmt: skip
    split = [r["index"] for r in rows if r["mig.mode.current"].lower() == "enabled"]
    if split:
        yield Check("mig", Status.WARN, f"GPU {', '.join(split)} is split by MIG: NCCL cannot join its instances",
                    "MIG off for multi-GPU jobs", "sudo nvidia-smi -mig 0", "-", Action.CONFIG)  # fmt: skip
    used = [(r["index"], float(r["memory.used"])) for r in rows if re.fullmatch(r"[0-9.]+", r["memory.used"])]
    busy = [f"GPU {index} {mib:.0f} MiB" for index, mib in used if mib > _USED_MIB]
    if busy:
        yield Check("gpu memory", Status.WARN, f"in use before the job: {', '.join(busy)}", "idle GPUs",
                    "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv", "-",
                    Action.TRIAGE)  # fmt: skip
    if clean:
        names: Mapping[str, str] = {"ecc": "no uncorrected ECC error", "rows": "no row waits for remapping"}
        yield Check(
            "gpu health", Status.PASS, f"{len(rows)} GPUs: {', '.join(names.values())}, clocks not throttled"
        )


def _bad(value: str) -> bool:
    """Whether a value says trouble: a count above 0, Yes or Active. ``[N/A]`` and unknown words say nothing."""
    return bool(re.fullmatch(r"[1-9][0-9]*", value)) or value.lower() in ("yes", "active")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and int(text) < 64 else None


def _ids(gpus: list[Gpu]) -> str:
    shown = ", ".join(gpu.bus_id for gpu in gpus[:4])
    return f"GPU {shown}" + (f" and {len(gpus) - 4} more" if len(gpus) > 4 else "")

"""Checks of what joins GPUs and nodes: NVLink, NVSwitch services, RDMA ports, partitions, addresses, errors."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nccl_insight.live.preflight.model import Check, Status
from nccl_insight.live.preflight.node import Node
from nccl_insight.model import Action

_ERRORS = ("link_downed", "symbol_error", "link_error_recovery", "port_rcv_errors")
_MANY = 10
_TOOL_S = 4.0
_FULL_MEMBER = 0x8000


@dataclass(frozen=True)
class Port:
    """An RDMA port. ``rate_gbit`` as the kernel says it; ``state`` such as ACTIVE or DOWN."""

    device: str
    number: str
    state: str
    rate_gbit: float
    layer: str
    firmware: str
    board: str

    @property
    def name(self) -> str:
        """``device:port``."""
        return f"{self.device}:{self.number}"

    @property
    def active(self) -> bool:
        """Whether it carries traffic."""
        return self.state == "ACTIVE"


def ports_of(node: Node) -> list[Port]:
    """RDMA ports of the node that NCCL may use, so without those that NCCL_IB_HCA leaves out."""
    found = []
    for device in node.entries("/sys/class/infiniband"):
        base = f"/sys/class/infiniband/{device}"
        for number in node.entries(f"{base}/ports"):
            port = f"{base}/ports/{number}"
            rate = re.match(r"([0-9.]+)", node.read(f"{port}/rate") or "")
            found.append(
                Port(
                    device,
                    number,
                    (node.read(f"{port}/state") or "").split(":")[-1].strip() or "unknown",
                    float(rate[1]) if rate else 0.0,
                    node.read(f"{port}/link_layer") or "?",
                    node.read(f"{base}/fw_ver") or "",
                    node.read(f"{base}/board_id") or "",
                )
            )
    return [port for port in found if chosen(node.environ.get("NCCL_IB_HCA", ""), port)]


def chosen(setting: str, port: Port) -> bool:
    """Whether NCCL_IB_HCA lets NCCL use a port: prefixes, ``=`` for whole names, ``^`` to leave out, ``:N`` a port.

    Source: NCCL user guide, NCCL_IB_HCA.
    """
    text = setting.strip()
    without = text.startswith("^")
    text = text.removeprefix("^")
    exact = text.startswith("=")
    names = [item for item in text.removeprefix("=").split(",") if item]
    if not names:
        return True

    def fits(item: str) -> bool:
        name, _, number = item.partition(":")
        same = port.device == name if exact else port.device.startswith(name)
        return same and (not number or number == port.number)

    return any(map(fits, names)) is not without


def compute_ports(ports: list[Port]) -> list[Port]:
    """Active ports of the fastest kind: storage and management ports of other rates or link layers do not count."""
    active = [p for p in ports if p.active]
    if not active:
        return []
    fastest = max(p.rate_gbit for p in active)
    kinds = Counter(p.layer for p in active if p.rate_gbit == fastest)
    layer = kinds.most_common(1)[0][0]
    return [p for p in active if p.rate_gbit == fastest and p.layer == layer]


def port_checks(node: Node, ports: list[Port]) -> Iterator[Check]:
    """Firmware, errors, partitions and addresses of the active ports."""
    active = [p for p in ports if p.active]
    boards: dict[str, set[str]] = {}
    for port in active:
        if port.board and port.firmware:
            boards.setdefault(port.board, set()).add(port.firmware)
    mixed = [
        f"{board}: {', '.join(sorted(found))}" for board, found in sorted(boards.items()) if len(found) > 1
    ]
    if mixed:
        yield Check("nic firmware", Status.WARN, "; ".join(mixed[:3]), "one release per model",
                    "mlxfwmanager --query; update all to one release", "-", Action.TRIAGE)  # fmt: skip
    yield from _errors(node, active)
    yield from _partitions(node, active)
    yield from _addresses(node, active)


def _errors(node: Node, active: list[Port]) -> Iterator[Check]:
    """Counters run since the driver started, so only a port far above its siblings stands out."""
    for name in _ERRORS:
        counts = {p.name: _count(node, p, name) for p in active}
        typical = statistics.median(counts.values()) if counts else 0
        bad = {n: c for n, c in counts.items() if c > _MANY and c > _MANY * max(1, typical)}
        if bad and len(bad) < len(counts):
            shown = ", ".join(f"{n} {c:,}" for n, c in sorted(bad.items())[:4])
            yield Check("nic errors", Status.WARN, f"{name}: {shown}", f"about {typical:.0f}, as the other ports have",
                        f"mlxlink -d {next(iter(bad)).split(':')[0]} -m -c (root); check cable and transceiver",
                        "NI231", Action.TRIAGE)  # fmt: skip


def _count(node: Node, port: Port, name: str) -> int:
    text = node.read(f"/sys/class/infiniband/{port.device}/ports/{port.number}/counters/{name}") or ""
    return int(text) if text.isdigit() else 0


def _partitions(node: Node, active: list[Port]) -> Iterator[Check]:
    for port in active:
        if port.layer != "InfiniBand":
            continue
        base = f"/sys/class/infiniband/{port.device}/ports/{port.number}/pkeys"
        keys = [
            int(text, 16) for entry in node.entries(base) if (text := node.read(f"{base}/{entry}") or "0x0")
        ]
        used = [key for key in keys if key & 0x7FFF]
        if used and not any(key & _FULL_MEMBER for key in used):
            yield Check("partition key", Status.WARN, f"{port.name}: limited membership only",
                        "one partition with full membership", "ask the administrator of the subnet manager (OpenSM "
                        "partitions.conf); limited members cannot talk to each other", "-", Action.TRIAGE)  # fmt: skip
            return


def _addresses(node: Node, active: list[Port]) -> Iterator[Check]:
    for port in active:
        if port.layer != "Ethernet":
            continue
        base = f"/sys/class/infiniband/{port.device}/ports/{port.number}"
        entries = node.entries(f"{base}/gids")
        if not entries:
            continue
        valid = [e for e in entries if re.search(r"[1-9a-f]", (node.read(f"{base}/gids/{e}") or "").lower())]
        second = [e for e in valid if "v2" in (node.read(f"{base}/gid_attrs/types/{e}") or "").lower()]
        if not valid or (node.entries(f"{base}/gid_attrs/types") and not second):
            yield Check("roce address", Status.WARN, f"{port.name}: no RoCE v2 address",
                        "an IP address on its network device", f"show_gids {port.device}; ip addr", "NI226",
                        Action.CONFIG)  # fmt: skip
            return


def switch_checks(node: Node, models: list[str]) -> Iterator[Check]:
    """Services that NVSwitch and multi-node NVLink machines need."""
    switches = [e for e in node.entries("/dev") if re.fullmatch(r"nvidia-nvswitch[0-9]+", e)]
    if switches:
        names = _processes(node)
        if names is None:
            yield Check(
                "fabric manager", Status.SKIP, "processes of the host are not visible from this container"
            )
        elif "nv-fabricmanage" in names or "nv-fabricmanager" in names:
            yield Check("fabric manager", Status.PASS, f"running, {len(switches)} switches")
        else:
            yield Check("fabric manager", Status.FAIL, f"not running, {len(switches)} switches", "running",
                        "systemctl status nvidia-fabricmanager; its release must match the driver", "NI304",
                        Action.TRIAGE)  # fmt: skip
    if any(re.search(r"\bGB[23]00\b", model) for model in models):
        channels = node.entries("/dev/nvidia-caps-imex-channels")
        if channels:
            yield Check("imex", Status.PASS, f"{len(channels)} channels")
        else:
            yield Check("imex", Status.WARN, "no IMEX channel", "/dev/nvidia-caps-imex-channels/channel0",
                        "nvidia-imex-ctl -N; load the driver with NVreg_CreateImexChannel0=1", "NI302",
                        Action.TRIAGE)  # fmt: skip


def _processes(node: Node) -> set[str] | None:
    """Names of all processes; None inside a PID namespace of a container."""
    first = node.read("/proc/1/comm")
    if first not in ("systemd", "init") or node.exists("/.dockerenv"):
        return None
    return {node.read(f"/proc/{entry}/comm") or "" for entry in node.entries("/proc") if entry.isdigit()}


def link_checks(node: Node) -> Iterator[Check]:
    """NVLinks as ``nvidia-smi nvlink -s`` lists them: links that are down, or fewer than the siblings have."""
    done = node.tool("nvidia-smi", "nvlink", "-s", timeout_s=_TOOL_S)
    if done.state != "ok":
        return
    links: dict[str, list[float | None]] = {}
    gpu = ""
    for line in done.text.splitlines():
        if head := re.match(r"GPU ([0-9]+):", line.strip()):
            gpu = head[1]
            links[gpu] = []
        elif gpu and (link := re.match(r"Link [0-9]+:\s*(?:([0-9.]+) GB/s|(\S.*))", line.strip())):
            links[gpu].append(float(link[1]) if link[1] else None)
    have = {g: [speed for speed in found if speed is not None] for g, found in links.items()}
    if not any(have.values()):
        return
    most = max(len(found) for found in have.values())
    short = {g: len(found) for g, found in have.items() if len(found) < most}
    down = {g: len(links[g]) - len(found) for g, found in have.items() if len(found) < len(links[g])}
    if short:
        shown = ", ".join(f"GPU {g}: {count}" for g, count in sorted(short.items()))
        yield Check("nvlink", Status.FAIL if len(short) < len(have) else Status.WARN, f"active links {shown}",
                    f"{most}, as the other GPUs have", "nvidia-smi nvlink -s; nvidia-smi nvlink -e; look for Xid 74",
                    "NI313", Action.ISOLATE)  # fmt: skip
    elif down:
        yield Check("nvlink", Status.WARN, f"inactive links on GPU {', '.join(sorted(down))}", "all links active",
                    "nvidia-smi nvlink -s (links that the board does not use are inactive on all GPUs alike)",
                    "NI313", Action.TRIAGE)  # fmt: skip
    else:
        speed = statistics.median(s for found in have.values() for s in found)
        yield Check("nvlink", Status.PASS, f"{most} links per GPU, {speed:g} GB/s each")


def describe(ports: list[Port]) -> Mapping[str, float | None]:
    """Facts for expectations: how many compute ports, and the least of their rates."""
    compute = compute_ports(ports)
    return {
        "nics": float(len(compute)),
        "nic_gbit": min((p.rate_gbit for p in compute), default=None),
    }

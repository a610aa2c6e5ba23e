"""Checks of what joins GPUs and nodes: NVLink, NVSwitch services, RDMA ports, partitions, addresses, errors."""

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping

from nccl_insight.advise.expect.hardware import find_gpu
from nccl_insight.base.data import dataclass
from nccl_insight.base.units import plural
from nccl_insight.live.preflight.health import TOOL_S, Answer, link_errors
from nccl_insight.live.preflight.model import Check, Status, check_of
from nccl_insight.live.preflight.node import Node

_ERRORS = ("link_downed", "symbol_error", "link_error_recovery", "port_rcv_errors")
_MANY = 10
_LEAST_SIBLINGS = 4
_FULL_MEMBER = 0x8000
_LINK_SHARE = 0.9


@dataclass(frozen=True)
class Port:
    """An RDMA port as the kernel shows it: ``state`` such as ACTIVE or DOWN, ``physical`` such as Polling."""

    device: str
    number: str
    state: str
    rate_gbit: float
    layer: str
    firmware: str
    board: str
    physical: str = ""

    @property
    def name(self) -> str:
        """``device:port``."""
        return f"{self.device}:{self.number}"

    @property
    def base(self) -> str:
        """Its folder."""
        return f"/sys/class/infiniband/{self.device}/ports/{self.number}"

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
            rate = re.match(r"([0-9.]+)", node.read(f"{port}/rate"))
            gbit, layer = float(rate[1]) if rate else 0.0, node.read(f"{port}/link_layer") or "?"
            state, physical = (node.read(f"{port}/{n}").split(":")[-1].strip() for n in ("state", "phys_state"))
            firmware, board = (node.read(f"{base}/{name}") for name in ("fw_ver", "board_id"))
            found.append(Port(device, number, state or "unknown", gbit, layer, firmware, board, physical))
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
    mixed = [f"{board}: {', '.join(sorted(found))}" for board, found in sorted(boards.items()) if len(found) > 1]
    if mixed:
        yield check_of("nic-firmware", mixed="; ".join(mixed[:3]))
    yield from _errors(node, active)
    if bare := [port for port in active if port.layer == "InfiniBand" and _without_full_key(node, port)]:
        yield check_of("partition-key", port=bare[0])
    if bare := [port for port in active if port.layer == "Ethernet" and _without_address(node, port)]:
        yield check_of("roce-address", port=bare[0])


def odd_ports(ports: list[Port], gpus: int = 0) -> Iterator[Check]:
    """Ports that are down or slow while most of the same model are not; NICs that are missing beside ``gpus`` GPUs.

    A port that the administrator has disabled, and the unused ports of cards with two, are no trouble.
    """
    for board in sorted({p.board for p in ports}):
        same = [p for p in ports if p.board == board]
        active = [p for p in same if p.active]
        off = [p for p in same if not p.active and p.physical != "Disabled"]
        if _few(off, same):
            shown = ", ".join(f"{p.name} is {', '.join(filter(None, (p.state, p.physical)))}" for p in off)
            waiting = any(p.state in ("INIT", "ARMED") for p in off)
            yield check_of("nic-down", shown=shown, active=active, waiting=waiting, off=off)
        if len(same) >= _LEAST_SIBLINGS and gpus / 2 < len(same) < gpus:
            yield check_of("nic-count", same=same, gpus=gpus)
        usual = next(iter(statistics.multimode(p.rate_gbit for p in active)), 0.0)
        slow = [p for p in active if p.rate_gbit < usual]
        if _few(slow, active):
            shown = ", ".join(f"{p.name} {p.rate_gbit:.0f} Gb/s" for p in slow)
            yield check_of("nic-rate", shown=shown, usual=usual, others=len(active) - len(slow), slow=slow)


def _few(odd: list[Port], siblings: list[Port]) -> bool:
    """Whether some, but few enough of enough siblings are odd to be out of order."""
    return bool(odd) and len(siblings) >= _LEAST_SIBLINGS and 4 * len(odd) <= len(siblings)


def _errors(node: Node, active: list[Port]) -> Iterator[Check]:
    """Counters run since the driver started, so only a port far above its siblings stands out."""
    for name in _ERRORS:
        told = {p.name: node.read(f"{p.base}/counters/{name}") for p in active}
        counts = {port: int(text) if text.isdigit() else 0 for port, text in told.items()}
        typical = statistics.median(counts.values()) if counts else 0
        bad = {n: c for n, c in counts.items() if c > _MANY and c > _MANY * max(1, typical)}
        if bad and len(bad) < len(counts):
            shown, device = ", ".join(f"{n} {c:,}" for n, c in sorted(bad.items())[:4]), next(iter(bad)).split(":")[0]
            yield check_of("nic-errors", name_said=name, shown=shown, typical=typical, device=device)


def _without_full_key(node: Node, port: Port) -> bool:
    base = f"{port.base}/pkeys"
    keys = [int(node.read(f"{base}/{entry}") or "0x0", 16) for entry in node.entries(base)]
    used = [key for key in keys if key & 0x7FFF]
    return bool(used) and not any(key & _FULL_MEMBER for key in used)


def _without_address(node: Node, port: Port) -> bool:
    """Whether a port has no address at all, or none of RoCE version 2 where versions are told."""
    gids, types = f"{port.base}/gids", f"{port.base}/gid_attrs/types"
    entries = node.entries(gids)
    valid = [e for e in entries if re.search(r"[1-9a-f]", node.read(f"{gids}/{e}").lower())]
    second = any("v2" in node.read(f"{types}/{e}").lower() for e in valid)
    return bool(entries) and (not valid or bool(node.entries(types) and not second))


def switch_checks(node: Node, models: list[str]) -> Iterator[Check]:
    """Services that NVSwitch and multi-node NVLink machines need."""
    switches = [e for e in node.entries("/dev") if re.fullmatch(r"nvidia-nvswitch[0-9]+", e)]
    if switches:
        names = _processes(node)
        if names is None:
            yield Check("fabric manager", Status.SKIP, "processes of the host are not visible from this container")
        elif "nv-fabricmanage" in names or "nv-fabricmanager" in names:
            yield Check("fabric manager", Status.PASS, f"running, {len(switches)} switches")
        else:
            yield check_of("fabric-manager", switches=switches)
    if any(re.search(r"\bGB[23]00\b", model) for model in models):
        channels = node.entries("/dev/nvidia-caps-imex-channels")
        if channels:
            yield Check("imex", Status.PASS, plural(len(channels), "channel"))
        else:
            yield check_of("imex")


def _processes(node: Node) -> set[str] | None:
    """Names of all processes; None inside a PID namespace of a container."""
    first = node.read("/proc/1/comm")
    if first not in ("systemd", "init") or node.exists("/.dockerenv"):
        return None
    return {node.read(f"/proc/{entry}/comm") for entry in node.entries("/proc") if entry.isdigit()}


def link_checks(node: Node, answer: Answer) -> Iterator[Check]:
    """NVLinks that are down, fewer than the siblings or the model have, or repeat far more than the others."""
    have, speeds = _links(node, answer) if answer.state != "hung" else ({}, [])
    most = max(have.values(), default=0)
    if not most:
        return
    short = {gpu: count for gpu, count in have.items() if count < most}
    model = find_gpu(next(iter(node.gpu_names()), ""))
    whole = model.links if model is not None and model.fabric == "nvswitch" else None
    usual = model.get("nvlink_gbps") / whole if model is not None and whole else 0.0
    each = statistics.median(speeds or [0.0])
    speed = f", {each:g} GB/s each" if each else ""
    look = "nvidia-smi nvlink -s; nvidia-smi nvlink -e; look for Xid 74"
    if short:
        shown = ", ".join(f"GPU {gpu} has {count}" for gpu, count in sorted(short.items()))
        yield check_of("nvlink-active-links", one_short=len(short) < len(have), shown=shown, most=most, look=look)
    elif most < (whole or 0) and len(have) > 1:
        yield check_of("nvlink-fewer-than-built", most=most, have=have, whole=whole, look=look)
    elif 0 < each < _LINK_SHARE * usual:
        yield check_of("nvlink-links-per", most=most, speed=speed, usual=usual, look=look)
    else:
        untold = answer.source == "NVML" and all(k.errors is None for g in answer.gpus for k in g.links)
        yield check_of("nvlink", most=most, speed=speed, untold=untold)
    yield from link_errors(answer)


def _links(node: Node, answer: Answer) -> tuple[dict[str, int], list[float]]:
    """How many links of each GPU are up, and their speeds, by NVML or else as ``nvidia-smi nvlink -s`` lists them."""
    if answer.source == "NVML":
        have = {g.index: sum(k.up for k in g.links) for g in answer.gpus if g.links}
        return have, [g.link_gbps for g in answer.gpus if g.link_gbps]
    done = node.tool("nvidia-smi", "nvlink", "-s", timeout_s=TOOL_S)
    links: dict[str, int] = {}
    speeds: list[float] = []
    gpu = ""
    for line in done.text.splitlines() if done.state == "ok" else ():
        if head := re.match(r"\s*GPU ([0-9]+):", line):
            gpu = head[1]
            links[gpu] = 0
        elif gpu and (up := re.match(r"\s*Link [0-9]+:\s*([0-9]+(?:\.[0-9]+)?) GB/s", line)):
            links[gpu] += 1
            speeds.append(float(up[1]))
    return links, speeds


def describe(ports: list[Port]) -> Mapping[str, float | None]:
    """Facts for expectations: how many compute ports, and the least of their rates."""
    compute = compute_ports(ports)
    return {"nics": float(len(compute)), "nic_gbit": min((p.rate_gbit for p in compute), default=None)}

"""Checks that take no collective: devices, drivers, libraries, limits, kernel settings, NCCL_* variables."""

import re
import resource
from collections.abc import Iterator

from nccl_insight.advise.settings.lint import lint_environment
from nccl_insight.base.model import Action, Severity
from nccl_insight.base.natures import code_of
from nccl_insight.base.units import format_bytes, plural
from nccl_insight.live.preflight import fabric
from nccl_insight.live.preflight.gpus import gpu_checks, gpus_of
from nccl_insight.live.preflight.health import Answer, ask
from nccl_insight.live.preflight.model import Check, Status, check_of
from nccl_insight.live.preflight.node import Node

Facts = dict[str, "str | float | None"]
_MIB = 1 << 20
_GIB = 1 << 30


def facts_of(node: Node, answer: Answer | None = None) -> Facts:
    """What expectations can be about, as far as it shows without running anything; ``answer`` is the driver's."""
    nics = fabric.ports_of(node)
    shm = node.size_of("/dev/shm")
    memlock = node.limit(resource.RLIMIT_MEMLOCK)
    names = node.gpu_names()
    return {
        "gpus": float(max(0, node.gpus() - sum(gpu.lost for gpu in gpus_of(node)))),
        "gpu_model": names[0] if len(set(names)) == 1 else ",".join(sorted(set(names))) or None,
        **fabric.describe(nics),
        "pcie_gen": min((float(g.generation) for g in answer.gpus if g.generation), default=None) if answer else None,
        "driver": _driver(node),
        "torch": node.package("torch"),
        "nccl": node.package("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"),
        "shm_gib": round(shm[0] / _GIB, 3) if shm else None,
        "memlock_gib": float("inf") if memlock is None else round(memlock / _GIB, 6),
        "nofile": float(node.limit(resource.RLIMIT_NOFILE) or float("inf")),
    }


def quick_checks(node: Node, answer: Answer | None = None, window_s: float | None = None) -> Iterator[Check]:
    """All quick checks of the node. ``answer``: what its driver has said already (None: it is asked now).

    ``window_s``: events of the kernel's log count so far back (None: since boot).
    """
    gpus = node.gpus()
    nics = fabric.ports_of(node)
    yield from _environment(node)
    yield _gpus(node, gpus)
    if gpus:
        answer = ask(node) if answer is None else answer
        yield from gpu_checks(node, answer, window_s)
        yield from fabric.link_checks(node, answer)
        yield from fabric.switch_checks(node, node.gpu_names())
    yield _libraries(node)
    yield from _ports(nics, 0 if node.environ.get("NCCL_IB_HCA") else len(gpus_of(node)))
    yield from fabric.port_checks(node, nics)
    yield from _shared_memory(node)
    yield _memlock(node, bool(nics), _rdma_needed(node, nics))
    yield from _limits(node)
    yield _gpudirect(node, gpus, bool(nics))
    yield _acs(node, gpus)
    yield _iommu(node, gpus)
    synchronized = node.clock_synchronized()
    if synchronized is not None:
        yield Check("clock", Status.PASS, "synchronized") if synchronized else check_of("clock")
    balancing = node.read("/proc/sys/kernel/numa_balancing")
    if balancing not in ("", "0") and gpus:
        yield Check("numa balancing", Status.WARN, "on", "off", "sysctl kernel.numa_balancing=0 (administrator)")


def _rdma_needed(node: Node, nics: list[fabric.Port]) -> bool:
    """Cloud machines have RDMA-capable Ethernet functions that no job uses; InfiniBand is there to be used."""
    chosen = node.environ.get("NCCL_NET", "").upper() == "IB" or "NCCL_IB_HCA" in node.environ
    off = node.environ.get("NCCL_IB_DISABLE") == "1"
    return not off and (chosen or any(port.active and port.layer == "InfiniBand" for port in nics))


def _driver(node: Node) -> str | None:
    text = node.read("/proc/driver/nvidia/version")
    match = re.search(r"Kernel Module[^\n]{0,200}?\s([0-9]+\.[0-9.]+)", text)
    return match[1] if match else None


def _environment(node: Node) -> Iterator[Check]:
    result = lint_environment(node.environ)
    for finding in result.findings:
        issue = finding.issue
        status = {Severity.ERROR: Status.FAIL, Severity.WARNING: Status.WARN}.get(issue.severity)
        if status is not None:
            yield check_of("setting", status=status, code=code_of(issue.name) or "-", finding=finding, issue=issue)
    if not any(f.issue.severity in (Severity.ERROR, Severity.WARNING) for f in result.findings):
        count = len(result.settings)
        yield check_of("environment", count=count)


def _gpus(node: Node, gpus: int) -> Check:
    if gpus == 0:
        return Check("gpus", Status.SKIP, "no GPU on this machine (no /dev/nvidia* or /dev/kfd, or none visible)")
    names = node.gpu_names()
    driver = _driver(node)
    lost = sum(gpu.lost for gpu in gpus_of(node))
    if lost:
        return check_of("gpus-answer", there=max(0, gpus - lost), gpus=gpus, gpus_said=str(gpus))
    shown = [plural(gpus, "GPU"), *sorted(set(names)), *([f"driver {driver}"] if driver else [])]
    return check_of("gpus", mixed=len(set(names)) > 1, gpus=", ".join(shown))


def _libraries(node: Node) -> Check:
    torch = node.package("torch")
    nccl = node.package("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")
    if torch is None and nccl is None:
        return Check("libraries", Status.SKIP, "neither torch nor NCCL is installed in this Python")
    return Check("libraries", Status.PASS, ", ".join(f"{n} {v}" for n, v in (("torch", torch), ("NCCL", nccl)) if v))


def _ports(nics: list[fabric.Port], gpus: int) -> Iterator[Check]:
    if not nics:
        yield Check("nics", Status.SKIP, "no RDMA device (/sys/class/infiniband is empty)")
        return
    active = [n for n in nics if n.active]
    down = [n.name for n in nics if not n.active]
    rates = sorted({n.rate_gbit for n in active})
    shown = f"{len(active)} of {len(nics)} RDMA ports active"
    if not active:
        yield check_of("nics", shown=shown)
        return
    shown += f", {'/'.join(f'{r:.0f}' for r in rates)} Gb/s, {'/'.join(sorted({n.layer for n in active}))}"
    odd = list(fabric.odd_ports(nics, gpus))
    yield from odd
    used = {n.device for n in fabric.compute_ports(nics)}
    several = len(rates) > 1 and not odd
    if len({n.layer for n in active}) > 1 or (several and not _told_apart(active)):
        yield check_of("nics-one-rate", shown=shown, same=",".join(sorted(used)))
    else:
        shown += f" (down: {', '.join(down[:4])})" if down else ""
        if several:
            rest = sorted({n.device for n in active} - used)
            shown += f"; {', '.join(rest[:4])} of another model and rate, e.g. for storage"
        yield Check("nics", Status.PASS, shown)


def _told_apart(active: list[fabric.Port]) -> bool:
    """Whether every model of NIC has one rate: the models then have different purposes."""
    boards = {(n.board, n.rate_gbit) for n in active}
    return all(n.board for n in active) and len(boards) == len({board for board, _ in boards})


def _shared_memory(node: Node) -> Iterator[Check]:
    size = node.size_of("/dev/shm")
    if size is None:
        yield check_of("dev-shm")
        return
    total, free = size
    shown = f"{format_bytes(total)}, {format_bytes(free)} free"
    fix = "docker run --shm-size=8g, or a memory-backed emptyDir at /dev/shm"
    if free < 32 * _MIB:
        yield Check("/dev/shm", Status.FAIL, shown, "32 MiB free or more", fix, "NI401", Action.CONFIG)
    elif total < _GIB:
        yield Check("/dev/shm", Status.WARN, shown, "1 GiB or more", fix, "NI401", Action.CONFIG)
    else:
        yield Check("/dev/shm", Status.PASS, shown)


def _memlock(node: Node, rdma: bool, needed: bool) -> Check:
    """``needed``: the job cannot go without RDMA (InfiniBand ports, or NCCL told to use them)."""
    limit = node.limit(resource.RLIMIT_MEMLOCK)
    if limit is None:
        return Check("memlock", Status.PASS, "unlimited")
    shown, fix = format_bytes(limit), "ulimit -l unlimited (docker run --ulimit memlock=-1)"
    if not rdma:
        return Check("memlock", Status.PASS, f"{shown} (no RDMA device needs more)")
    return check_of("memlock", fix=fix, is_needed=needed and limit < 64 * _MIB, shown=shown)


def _limits(node: Node) -> Iterator[Check]:
    files = node.limit(resource.RLIMIT_NOFILE)
    if files is not None and files < 4096:
        yield check_of("nofile", files=files)
    else:
        yield Check("nofile", Status.PASS, "unlimited" if files is None else f"{files:,} open files")
    threads = node.limit(resource.RLIMIT_NPROC)
    if threads is not None and threads < 4096:
        yield check_of("nproc", threads=threads)
    if node.limit(resource.RLIMIT_STACK) is None:
        yield check_of("stack")


def _gpudirect(node: Node, gpus: int, rdma: bool) -> Check:
    if not gpus or not rdma:
        return Check("gpudirect", Status.SKIP, "needs a GPU and an RDMA device")
    for module in ("nvidia_peermem", "nv_peer_mem"):
        if node.exists(f"/sys/module/{module}"):
            return Check("gpudirect", Status.PASS, f"{module} is loaded")
    number = re.match(r"([0-9]+)\.([0-9]+)", node.kernel)
    recent = number is not None and (int(number[1]), int(number[2])) >= (5, 12)
    if recent and "Open Kernel Module" in node.read("/proc/driver/nvidia/version"):
        return Check("gpudirect", Status.PASS, f"open kernel module on Linux {node.kernel}: DMA-BUF can be used")
    return check_of("gpudirect")


def _acs(node: Node, gpus: int) -> Check:
    """Access Control Services of PCI bridges: redirection sends peer traffic through the root complex."""
    if not gpus:
        return Check("pci acs", Status.SKIP, "needs a GPU")
    base = "/sys/bus/pci/devices"
    bridges = [d for d in node.entries(base) if node.read(f"{base}/{d}/class").startswith("0x0604")]
    if not bridges:
        return Check("pci acs", Status.SKIP, "no PCI bridge is visible here, as in a virtual machine")
    controls = {device: _acs_control(node.read_bytes(f"{base}/{device}/config")) for device in bridges}
    readable = sum(control is not None for control in controls.values())
    redirecting = [device for device, control in controls.items() if control is not None and control & 0x1D]
    if not readable:
        return Check("pci acs", Status.SKIP, "the configuration of PCI bridges is readable by root only")
    if redirecting:
        return check_of("pci-acs", redirecting=redirecting, first_redirecting=", ".join(redirecting[:3]))
    return Check("pci acs", Status.PASS, f"off in {readable} bridges")


def _acs_control(config: bytes) -> int | None:
    """ACS control register from a bridge's configuration space; None if it cannot be read, 0 without ACS."""
    if len(config) < 4096:
        return None
    at, steps = 0x100, 0
    while at and at + 8 <= len(config) and steps < 64:
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == 0x000D:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at, steps = header >> 20, steps + 1
    return 0


def _iommu(node: Node, gpus: int) -> Check:
    if not gpus:
        return Check("iommu", Status.SKIP, "needs a GPU")
    if not node.entries("/sys/class/iommu"):
        if re.search(r"^flags\b.*\bhypervisor\b", node.read("/proc/cpuinfo"), re.MULTILINE):
            return Check("iommu", Status.SKIP, "none in this virtual machine; that of its host is not visible here")
        return Check("iommu", Status.PASS, "off")
    line = node.read("/proc/cmdline")
    if re.search(r"\biommu=pt\b|iommu\.passthrough=1", line):
        return Check("iommu", Status.PASS, "on, passthrough")
    return check_of("iommu")

"""GPUs, PCIe links and bridges, and copies between GPUs, as host tools show them."""

import re
from collections import Counter as Count
from collections.abc import Iterator, Mapping
from statistics import median
from textwrap import shorten
from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Ref
from nccl_insight.base.units import listed, plural
from nccl_insight.facts.fabric.paths import has_nvlink
from nccl_insight.facts.said.errors import present
from nccl_insight.facts.said.host_facts import Fact, by_device, named
from nccl_insight.rules._host_tools import Beside, Judge, Said, refs, tools
from nccl_insight.rules.context import says
from nccl_insight.tables.run import Run

_TOLD: Final = toml.beside(__file__)
_DCGM: Final = tuple(_TOLD["dcgm"].items())
_SLOW_GPU_REASONS: Final = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
_PAIR: Final = ("src", "dst", "gbps")
# Below these a pair of PCIe peers is staged or broken, on any board since Gen3: GB/s and microseconds.
_PEER_GBPS: Final = 3.0
_PEER_US: Final = 20.0
# ACS: what its port asks to be redirected goes up to the root.
_REDIRECTS: Final = "ReqRedir+"
_OF_HOST: Final = 0.7
_OF_PEERS: Final = 0.4
# What flags of a GPU mean that are set.
_HARMS: Final = {
    "gpu.remap.failed": "remap failed",
    "gpu.remap.pending": "pending",
    "gpu.ecc.sram_threshold_exceeded": "pending",
}
# A GPU at work whose clock is below this share of the others' is held back; fewer of them tell nothing.
_AT_WORK: Final = 50
_OF_CLOCK: Final = 0.6
_FEW: Final = 3
# What cells of a matrix of pairs say where the two can talk directly; so many pairs of all make the others odd.
_UNHEALTHY: Final = re.compile(r"(?i)true|yes|degraded|unhealthy|full|incorrect.*|.*error.*")
# Values of DCGM's checks, and of its health watches, that tell of a fault.
_FAILED: Final = ("Fail", "Failure")
_WARNED: Final = (*_FAILED, "Warn", "Warning")
_DIRECT: Final = re.compile(r"NV[0-9]+|XGMI|OK|ENABLED|yes")
_MOST_PAIRS: Final = 0.75


def _machines(run: Run, pattern: str) -> list[dict[str, dict[str, Fact]]]:
    """The facts of each host by device and name."""
    devices = by_device(named(run, pattern)).items()
    return [dict(own) for own in grouped((at[:2], (at[2], facts)) for at, facts in devices).values()]


def _redirecting(devices: Mapping[str, Mapping[str, Fact]]) -> Iterator[tuple[Fact, list[str]]]:
    """The bridges of a host that send requests between their ports up to the root, and the GPUs behind each.

    Bridges of which the listing shows what stands behind them count only where that is a GPU or a NIC.
    """
    kinds = {name: own["pci.kind"].value for name, own in devices.items() if "pci.kind" in own}
    for name, own in devices.items():
        buses, control = own.get("pci.buses"), own.get("pci.acs")
        if control is not None and name and _REDIRECTS in control.value:
            ends = [n for n in kinds if kinds[n] in ("gpu", "nic") and buses and _below(buses.value, name, n)]
            if ends or buses is None or "gpu" not in kinds.values():
                yield control, [n[5:] for n in ends if kinds[n] == "gpu"]


def _below(buses: str, bridge: str, device: str) -> bool:
    """Whether a device stands behind a bridge with these buses (``19-1f``)."""
    first, _, last = buses.partition("-")
    return bridge[:4] == device[:4] and int(first, 16) <= int(device[5:7], 16) <= int(last, 16)


def acs(run: Run) -> Iterator[Said | Beside]:
    """Bridges that send requests between their ports up to the root."""
    # Lines that grep left have no device.
    loose = [f for f in named(run, r"pci\.acs") if not f.device and _REDIRECTS in f.value]
    told = [one for devices in _machines(run, r"pci\..*") for one in _redirecting(devices)]
    found, gpus = [*loose, *(control for control, _ in told)], [gpu for _, behind in told for gpu in behind]
    if found:
        bridges = [f.device[5:] for f in found if f.device]
        p2p = run.table("connections").filter(pl.col("transport").cast(pl.String) == "P2P").height
        joined = bool(p2p) and not has_nvlink(run)
        yield tools("p2p-acs-iommu-hang.acs", found, gpus=gpus, joined=joined, bridges=bridges, found=found)


# What is told of a link, its limit, and how its figure is written.
_RATES: Final = (("link_speed", "link_max_speed", "", " GT/s"), ("link_generation", "link_max_generation", "Gen", ""))


def links(run: Run) -> Iterator[Said | Beside]:
    """PCIe links that came up below what both ends can."""
    machines = _machines(run, r"pci\..*|gpu\.(?:utilization|performance_state|name)")
    below = [told for devices in machines for told in _below_limits(devices)]
    narrow = [(fact, text) for lanes, fact, text in below if lanes]
    narrow += [told for devices in machines for told in _narrower(devices)]
    slow = [(fact, text) for lanes, fact, text in below if not lanes]
    if narrow or slow:
        facts, texts = zip(*narrow, *slow, strict=True)
        at = next((fact.device for fact in facts if ":" in (fact.device or "")), "")
        yield tools("pcie-link-degraded.links", facts, worst=listed(texts), narrow=narrow, at=at)


def _below_limits(devices: Mapping[str, Mapping[str, Fact]]) -> Iterator[tuple[bool, Fact, str]]:
    """Links of a host with fewer lanes (true), or a lower rate, than the device and the bridge above it can."""
    bridges = {(n[:4], d["pci.buses"].value.partition("-")[0]): d for n, d in devices.items() if "pci.buses" in d}
    for name, own in devices.items():
        partner = bridges.get((name[:4], name[5:7]), {}) if ":" in name else {}
        kind = own["pci.kind"].value if "pci.kind" in own else "gpu" if any(n.startswith("gpu.") for n in own) else ""
        if kind not in ("gpu", "nic"):
            continue
        if lanes := _least(own, partner, "link_width", "link_max_width"):
            fact, most = lanes
            yield True, fact, f"{name} x{fact.value}{', both ends can' if partner else ' of'} x{most:g}"
        for key, limit, before, unit in _RATES:
            if (rate := _least(own, partner, key, limit)) and not (kind == "gpu" and _idle(own)):
                yield False, rate[0], f"{name} at {before}{rate[0].value}{unit} of {rate[1]:g}{unit}"


def _narrower(devices: Mapping[str, Mapping[str, Fact]]) -> Iterator[tuple[Fact, str]]:
    """GPUs with fewer lanes than their like on the host, where nothing says how many they can have."""
    known = (own for name, own in devices.items() if name.startswith("GPU") and "pci.link_max_width" not in own)
    widths = [own["pci.link_width"] for own in known if "pci.link_width" in own]
    most = max((fact.amount for fact in widths), default=0)
    for fact in widths:
        if fact.amount < most:
            yield fact, f"{fact.device} x{fact.value}, others x{most:g}"


def _least(own: Mapping[str, Fact], partner: Mapping[str, Fact], now: str, top: str) -> tuple[Fact, float] | None:
    """The state and the lower of what the device and the bridge above it can, where the state is below that."""
    state, tops = own.get(f"pci.{now}"), [f.number for d in (own, partner) if (f := d.get(f"pci.{top}"))]
    if top == "link_max_generation" and (host := own.get("pci.host_max_generation")):
        tops.append(host.number or None)
    most = min((n for n in tops if n is not None), default=0)
    return (state, most) if state is not None and state.number is not None and state.number < most else None


def _idle(own: Mapping[str, Fact]) -> bool:
    """Whether a GPU may have lowered its rate because it has nothing to do; without a sign of load it may."""
    busy = own.get("gpu.utilization")
    return busy is None or busy.amount < 20


def _harm(fact: Fact) -> str:
    """What a fact says of the memory of a GPU; empty where it is in order."""
    value = fact.value.lower()
    if fact.name == "gpu.unreadable":
        return "" if "version mismatch" in value else "unreadable"  # which is of the driver's libraries
    if fact.name == "gpu.recovery_action":
        return "" if value in ("none", "no") else "pending"
    if fact.name in _HARMS:
        return _HARMS[fact.name] if value in ("yes", "1") else ""
    counted = re.match(r"gpu\.ecc\.(?:volatile\.|uncorrectable)", fact.name)
    return "uncorrectable" if counted and fact.amount > 0 else ""


def memory(run: Run) -> Iterator[Said | Beside]:
    """ECC errors, rows to be remapped, GPUs that do not answer."""
    facts = named(run, r"gpu\.(?:ecc\..*|remap\..*|recovery_action|unreadable)")
    worst = grouped((harm, f) for f in facts if (harm := _harm(f)))
    if not worst:
        return
    every = [f for group in worst.values() for f in group]
    gpus = listed(dict.fromkeys(f.device for f in every if f.device))
    parts = []
    if "uncorrectable" in worst:
        total = sum(int(f.amount) for f in _once(worst["uncorrectable"]))
        parts.append(f"{plural(total, 'uncorrectable memory error')} since the driver was loaded")
    parts += ["rows could not be remapped"] if "remap failed" in worst else []
    if "pending" in worst:
        words = (f"{re.sub('[_.]', ' ', f.name.removeprefix('gpu.'))}: {f.value}" for f in worst["pending"])
        parts.append(f"a reset is pending ({listed(words)})")
    parts += [listed(f.value for f in worst["unreadable"])] if "unreadable" in worst else []
    broken = {"remap failed", "unreadable"} & set(worst)
    yield tools("cuda-hardware-error.memory", every, gpus=gpus, parts=parts, broken=broken)


def _once(errors: list[Fact]) -> list[Fact]:
    """Errors of a device by part only where there is no total of all its parts."""
    totals = {(f.input_id, f.device) for f in errors if f.name.endswith(".total")}
    return [f for f in errors if f.name.endswith(".total") or (f.input_id, f.device) not in totals]


def _unwell(name: str, value: str) -> bool:
    """Whether a value of a GPU's fabric is not that of one in order."""
    expected = {"state": "completed", "status": "success"}.get(name.rpartition(".")[2], value.lower())
    return value.lower() != expected or (".health." in name and _UNHEALTHY.fullmatch(value) is not None)


def fabric(run: Run) -> Iterator[Said | Beside]:
    """The NVSwitch fabric as each GPU sees it."""
    bad = [f for f in named(run, r"gpu\.fabric\..*") if _unwell(f.name, f.value)]
    if bad:
        said = listed(f"{f.device} {f.name.removeprefix('gpu.fabric.').replace('.', ' ')} {f.value}" for f in bad)
        health = all(".health." in f.name for f in bad)
        yield tools("fabric-manager-issue.fabric", bad, health=health, said=said)


def nvlinks(run: Run) -> Iterator[Said | Beside]:
    """NVLinks that are off, and error counters of links, where no table of links tells of them."""
    off = [f for f in named(run, r"nvlink\.active") if f.value == "0"]
    if off:
        yield tools("nvlink-degraded.nvlinks", off, off=listed(f.device for f in off))
    bad = [f for f in named(run, r"nvlink\..*error.*") if f.amount > 0]
    if bad and run.table("nvlinks").is_empty():
        said = listed(
            f"{f.device} link {f.name.split('.')[1]}: {f.name.split('.')[2].replace('_', ' ')} {f.value}" for f in bad
        )
        yield tools("nvlink-degraded.nvlinks-nvlinks-count", bad, said=said)


def throttled(run: Run) -> Iterator[Said | Beside]:
    """GPUs that the hardware holds back."""
    told = [
        (fact, fact.name.rsplit(".", 1)[-1].replace("_", " "))
        for fact in named(run, r"gpu\.clock_reason\..*|gpu\..*violation_status")
        if fact.value.lower() == "active" and _held_back(fact.name.rsplit(".", 1)[-1])
    ] or list(_slower_clocks(run))
    if told:
        slow = [fact for fact, _ in told]
        said = listed(f"{fact.device} {why}" for fact, why in told)
        yield tools("gpu-throttled.throttled", slow, said=said)


def _slower_clocks(run: Run) -> Iterator[tuple[Fact, str]]:
    """GPUs at work whose clock is far below that of the others of their host."""
    for devices in _machines(run, r"gpu\.(?:clock\.sm|utilization)"):
        pairs = [(own["gpu.utilization"], own["gpu.clock.sm"]) for own in devices.values() if len(own) == 2]
        clocks = [clock for load, clock in pairs if load.amount >= _AT_WORK]
        usual = median([f.amount for f in clocks]) if len(clocks) >= _FEW else 0.0
        for fact in clocks:
            if fact.amount < _OF_CLOCK * usual:
                yield fact, f"runs at {fact.value} MHz, others at {usual:g}"


def _held_back(reason: str) -> bool:
    """Whether a reason for lower clocks is more than the power cap that GPUs run at under load."""
    return reason in _SLOW_GPU_REASONS or (reason.endswith("violation_status") and "ppt" not in reason)


def dcgm(run: Run) -> Iterator[Said | Beside]:
    """Checks of DCGM that failed, and incidents of its health watches: one finding a check."""
    rows = list(named(run, r"dcgm\..*"))
    bad = (f for f in rows if f.value in (_WARNED if f.name.startswith("dcgm.health") else _FAILED))
    groups = grouped(((f.input_id, f.name), f) for f in bad)
    summed_up = any(name != "dcgm.health" for _, name in groups)
    for (input_id, check), facts in groups.items():
        if check == "dcgm.health" and summed_up:
            continue
        test = check.removeprefix("dcgm.").removeprefix("health.").replace("_", " ")
        words = [f for f in rows if f.input_id == input_id and f.name in (f"{check}.warning", f"{check}.message")]
        text = shorten(words[0].value, 70) if words else ""
        told = ((name, re.search(fault, said, re.I)) for said in (text, f" {test} ") for name, fault in _DCGM if said)
        of = next((name for name, found in told if found), "")
        devices = listed(f.device for f in (*facts, *words) if f.device)
        shown, first, warns = [*facts[:3], *words[:3]], facts[0], facts[0].value.startswith("Warn")
        yield tools(
            "host-check-failed.dcgm", shown, of=of, test=test, devices=devices, text=text, first=first, warns=warns
        )


def peers(run: Run) -> Iterator[Said | Beside]:
    """Pairs of GPUs whose peer access is reported and does not carry what a link between them carries."""
    table = run.table("peer_bandwidth").filter(pl.col("gbps").is_finite() & pl.col("line").is_not_null())
    late = {(f.input_id, f.device): f for f in named(run, r"p2p\.latency\.peer") if f.amount >= _PEER_US}
    # Between these it is an ordinary copy, under the title of peer access.
    denied = {(f.input_id, f.device) for f in named(run, r"p2p\.access|p2p\.status") if f.value not in ("yes", "OK")}
    staged: list[tuple[Ref, str]] = []
    for _, rows in table.group_by("input_id", "test", maintain_order=True):
        through = {(a, b): gbps for a, b, gbps in rows.filter(~pl.col("peer_access")).select(_PAIR).iter_rows()}
        direct = rows.filter(pl.col("peer_access").fill_null(True))
        usual = median(direct["gbps"]) if direct.height >= 4 else 0.0
        for src, dst, gbps, *at in direct.select(*_PAIR, "input_id", "line").iter_rows():
            key = (at[0], f"{src}->{dst}")
            why = "" if key in denied else _staged(gbps, through.get((src, dst), 0.0), usual, key in late)
            if why:
                staged.append((Ref(*at), f"GPU {src} -> {dst}: {gbps:g} GB/s, {why}"))
    if staged:
        slow = f"; latency {next(iter(late.values())).value} us" if late else ""
        shown = tuple(dict.fromkeys(ref for ref, _ in staged))[:6]
        texts = [text for _, text in staged]
        yield Said("p2p-staged-through-host", says("p2p-staged-through-host.peers", shown, texts=texts, slow=slow))


def _staged(gbps: float, through_host: float, usual: float, late: bool) -> str:
    """By what a direct copy seems to go through the host; empty where it does not."""
    if gbps < _OF_HOST * through_host:
        return f"through the host {through_host:g}"
    if gbps < _OF_PEERS * usual:
        return f"other pairs {usual:g}"
    return "a Gen3 x16 link carries 12" if late or gbps < _PEER_GBPS else ""


def copies(run: Run) -> Iterator[Said | Beside]:
    """What nvbandwidth says where a copy failed or brought other data."""
    told = next((f for f in named(run, r"nvbandwidth\.message") if not f.value.startswith("WAIVED")), None)
    if told is not None:
        wrong = "pattern" in told.value
        yield tools("cuda-unhandled.copies", [told], of="wrong-results" if wrong else "", told=told, wrong=wrong)


def pairs(run: Run) -> Iterator[Said | Beside]:
    """Pairs of GPUs that are not linked as nearly all others of their host are."""
    cells = (f for f in named(run, r"p2p\.(?:link|status|access)") if "->GPU" in f.device or ":" in f.device)
    for (*_, name), told in grouped(((*f.home, f.name), (f.device, f)) for f in cells).items():
        table = dict(told).values()
        usual, times = Count(f.value for f in table).most_common(1)[0]
        odd = [f for f in table if f.value != usual]
        if odd and _DIRECT.fullmatch(usual) and times >= _MOST_PAIRS * len(table):
            of = "nvlink-degraded" if name == "p2p.link" else ""
            yield tools("p2p-not-available.pairs", odd, of=of, odd=odd, usual=usual)


def capability(run: Run) -> Iterator[Said | Beside]:
    """nvidia-smi topo -p2p: pairs without peer-to-peer."""
    without = [f for f in named(run, r"p2p\.status") if f.value not in ("OK", "X", "U")]
    denied = [f for f in named(run, r"p2p\.access") if f.value == "no"]
    if without or denied:
        why = (
            listed(dict.fromkeys(f"{f.value} ({_TOLD['status'].get(f.value, f.value)})" for f in without))
            or "cudaDeviceCanAccessPeer says no"
        )
        rows = without or denied
        yield tools("p2p-not-available.capability", rows, rows=rows, pairs=listed((f.device for f in rows), 2), why=why)


def holders(run: Run) -> Iterator[Said | Beside]:
    """Who holds the memory of a GPU that was out of it."""
    if "cuda-oom-init" not in present(run):
        return
    pids = {int(p) for p in run.table("processes")["pid"].drop_nulls()}
    programs = {(f.input_id, f.device): f.value for f in reversed([*named(run, r"process\.name")])}
    for fact in named(run, r"process\.memory_used"):
        pid = re.search(r"pid ([0-9]+)", fact.device)
        if pid and int(pid[1]) not in pids and fact.amount >= 1024:
            who = programs.get((fact.input_id, fact.device), "a process")
            yield Beside(
                "holders",
                f"Process {pid[1]} ({who}), which is not of this job, holds {float(fact.value) / 1024:.1f} GiB "
                f"of {fact.device.split('/')[0]}: end it first (kill {pid[1]}).",
                refs([fact]),
            )


JUDGES: Final[tuple[Judge, ...]] = (
    acs, links, memory, fabric, nvlinks, throttled, dcgm, peers, copies, pairs, capability, holders,
)  # fmt: skip

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
from nccl_insight.rules._host_words import Beside, Judge, Said, tools
from nccl_insight.rules.context import says
from nccl_insight.tables.run import Run

_TOLD: Final = toml.beside(__file__)
_SLOW_GPU_REASONS: Final = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
# Below these a pair of PCIe peers is staged or broken, on any board since Gen3: GB/s and microseconds.
_PEER_GBPS: Final = 3.0
_PEER_US: Final = 20.0
_OF_HOST: Final = 0.7
_OF_PEERS: Final = 0.4
# A GPU at work whose clock is below this share of the others' is held back; fewer of them tell nothing.
_AT_WORK: Final = 50
_OF_CLOCK: Final = 0.6
_FEW: Final = 3
# What cells of a matrix of pairs say where the two can talk directly; so many pairs of all make the others odd.
_UNHEALTHY: Final = re.compile(r"(?i)true|yes|degraded|unhealthy|full|incorrect.*|.*error.*")
_DIRECT: Final = re.compile(r"NV[0-9]+|XGMI|OK|ENABLED|yes")
_MOST_PAIRS: Final = 0.75


def _below(buses: str, device: str) -> bool:
    """Whether a device stands behind a bridge with these buses (``19-1f``, of the same domain)."""
    first, _, last = buses.partition("-")
    return int(first, 16) <= int(device[5:7], 16) <= int(last, 16)


def acs(run: Run) -> Iterator[Said | Beside]:
    """Bridges that send requests between their ports up to the root."""
    devices = by_device(named(run, r"pci\..*"))
    kinds = {key: d["pci.kind"].value for key, d in devices.items() if "pci.kind" in d}
    # Lines that grep left have no device.
    found = [f for f in named(run, r"pci\.acs") if not f.device and "ReqRedir+" in f.value]
    above: list[str] = []
    for (input_id, host, name), own in devices.items():
        control = own.get("pci.acs")
        if control is None or not name or "ReqRedir+" not in control.value:
            continue
        here = [(key[2], kind) for key, kind in kinds.items() if key[:2] == (input_id, host)]
        buses = own.get("pci.buses")
        below = [(n, kind) for n, kind in here if buses and n[:4] == name[:4] and _below(buses.value, n)]
        ends = [n for n, kind in below if kind in ("gpu", "nic")]
        # Bridges of which the listing shows what stands behind them count only where that is a GPU or a NIC.
        if ends or buses is None or "gpu" not in dict(here).values():
            found.append(control)
            above += ends
    if not found:
        return
    graphics = {key[2] for key, kind in kinds.items() if kind == "gpu"}
    gpus = [a[5:] for a in above if a in graphics]
    bridges = [f.device[5:] for f in found if f.device]
    p2p = run.table("connections").filter(pl.col("transport").cast(pl.String) == "P2P").height
    joined = bool(p2p) and not has_nvlink(run)
    yield tools("p2p-acs-iommu-hang.acs", found, gpus=gpus, joined=joined, bridges=bridges, found=found)


# What is told of a link, its limit, and how its figure is written.
_RATES: Final = (("link_speed", "link_max_speed", "", " GT/s"), ("link_generation", "link_max_generation", "Gen", ""))


def links(run: Run) -> Iterator[Said | Beside]:
    """PCIe links that came up below what both ends can."""
    devices = by_device(named(run, r"pci\..*|gpu\.(?:utilization|performance_state|name)"))
    narrow: list[tuple[Fact, str]] = []
    slow: list[tuple[Fact, str]] = []
    for (input_id, host, name), own in devices.items():
        beside = (
            d for (i, h, n), d in devices.items() if (i, h) == (input_id, host) and n[:4] == name[:4] and ":" in name
        )
        buses = ((d, d["pci.buses"].value) for d in beside if "pci.buses" in d)
        partner = next((d for d, span in buses if span.partition("-")[0] == name[5:7]), {})
        kind = own["pci.kind"].value if "pci.kind" in own else "gpu" if any(n.startswith("gpu.") for n in own) else ""
        if kind not in ("gpu", "nic"):
            continue
        width, most = _least(own, partner, "link_width", "link_max_width")
        if width and most and width.number is not None and width.number < most:
            narrow.append((width, f"{name} x{width.value}{', both ends can' if partner else ' of'} x{most:g}"))
        for key, limit, before, unit in _RATES:
            rate, top = _least(own, partner, key, limit)
            if rate and top and rate.number is not None and rate.number < top and not _idle(kind, own):
                slow.append((rate, f"{name} at {before}{rate.value}{unit} of {top:g}{unit}"))
    narrow += _narrower(devices)
    if narrow or slow:
        facts, texts = zip(*narrow, *slow, strict=True)
        at = next((fact.device for fact in facts if ":" in (fact.device or "")), "")
        yield tools("pcie-link-degraded.links", facts, worst=listed(texts), narrow=narrow, at=at)


def _narrower(devices: Mapping[tuple[int, str | None, str], Mapping[str, Fact]]) -> list[tuple[Fact, str]]:
    """GPUs with fewer lanes than their like on the host, where nothing says how many they can have."""
    widths = grouped(
        (at[:2], own["pci.link_width"])
        for at, own in devices.items()
        if at[2].startswith("GPU") and "pci.link_width" in own and "pci.link_max_width" not in own
    )
    return [
        (f, f"{f.device} x{f.value}, others x{most:g}")
        for group in widths.values()
        if (most := max(g.number or 0 for g in group))
        for f in group
        if (f.number or 0) < most
    ]


def _least(
    own: Mapping[str, Fact], partner: Mapping[str, Fact], now: str, top: str
) -> tuple[Fact | None, float | None]:
    """The state, and the lower of what the device and the bridge above it can."""
    tops = [f.number for d in (own, partner) if (f := d.get(f"pci.{top}")) and f.number is not None]
    if host := own.get("pci.host_max_generation"):
        tops += [host.number] if top == "link_max_generation" and host.number else []
    return own.get(f"pci.{now}"), min(tops) if tops else None


def _idle(kind: str, own: Mapping[str, Fact]) -> bool:
    """Whether a GPU may have lowered its rate because it has nothing to do; without a sign of load it may."""
    if kind != "gpu":
        return False
    busy = own.get("gpu.utilization")
    return not (busy and busy.number is not None and busy.number >= 20)


def memory(run: Run) -> Iterator[Said | Beside]:
    """ECC errors, rows to be remapped, GPUs that do not answer."""
    worst: dict[str, list[Fact]] = {}
    for fact in named(run, r"gpu\.(?:ecc\..*|remap\..*|recovery_action|unreadable)"):
        value, name = fact.value.lower(), fact.name
        if name == "gpu.unreadable" and "version mismatch" not in value:  # which is of the driver's libraries
            worst.setdefault("unreadable", []).append(fact)
        elif name == "gpu.remap.failed" and value in ("yes", "1"):
            worst.setdefault("remap failed", []).append(fact)
        elif (name in ("gpu.remap.pending", "gpu.ecc.sram_threshold_exceeded") and value in ("yes", "1")) or (
            name == "gpu.recovery_action" and value not in ("none", "no")
        ):
            worst.setdefault("pending", []).append(fact)
        elif re.match(r"gpu\.ecc\.(?:volatile\.|uncorrectable)", name) and (fact.number or 0) > 0:
            worst.setdefault("uncorrectable", []).append(fact)
    if not worst:
        return
    every = [f for group in worst.values() for f in group]
    gpus = listed(dict.fromkeys(f.device for f in every if f.device))
    parts = []
    if "uncorrectable" in worst:
        total = sum(int(f.number or 0) for f in _once(worst["uncorrectable"]))
        parts.append(f"{plural(total, 'uncorrectable memory error')} since the driver was loaded")
    parts += ["rows could not be remapped"] if "remap failed" in worst else []
    if "pending" in worst:
        words = (
            f"{f.name.removeprefix('gpu.').replace('_', ' ').replace('.', ' ')}: {f.value}" for f in worst["pending"]
        )
        parts.append(f"a reset is pending ({listed(words)})")
    parts += [listed(f.value for f in worst["unreadable"])] if "unreadable" in worst else []
    yield tools(
        "cuda-hardware-error.memory", every, gpus=gpus, parts=parts, broken={"remap failed", "unreadable"} & set(worst)
    )


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
    bad = [f for f in named(run, r"nvlink\..*error.*") if (f.number or 0) > 0]
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
    gpus = by_device(named(run, r"gpu\.(?:clock\.sm|utilization)")).items()
    loaded = ((at, own) for at, own in gpus if len(own) == 2 and (own["gpu.utilization"].number or 0) >= _AT_WORK)
    for clocks in grouped((at[:2], own["gpu.clock.sm"]) for at, own in loaded).values():
        usual = median([f.number or 0.0 for f in clocks])
        for fact in clocks:
            if len(clocks) >= _FEW and (fact.number or 0) < _OF_CLOCK * usual:
                yield fact, f"runs at {fact.value} MHz, others at {usual:g}"


def _held_back(reason: str) -> bool:
    """Whether a reason for lower clocks is more than the power cap that GPUs run at under load."""
    return reason in _SLOW_GPU_REASONS or (reason.endswith("violation_status") and "ppt" not in reason)


def dcgm(run: Run) -> Iterator[Said | Beside]:
    """Checks of DCGM that failed, and incidents of its health watches: one finding a check."""
    rows = list(named(run, r"dcgm\..*"))
    groups: dict[tuple[int, str], list[Fact]] = {}
    for fact in rows:
        health = fact.name.startswith("dcgm.health")
        if fact.value in ("Fail", "Failure") or (health and fact.value in ("Warn", "Warning")):
            groups.setdefault((fact.input_id, fact.name), []).append(fact)
    if any(name != "dcgm.health" for _, name in groups):
        groups = {key: facts for key, facts in groups.items() if key[1] != "dcgm.health"}
    for (input_id, check), facts in groups.items():
        test = check.removeprefix("dcgm.").removeprefix("health.").replace("_", " ")
        words = [f for f in rows if f.input_id == input_id and f.name in (f"{check}.warning", f"{check}.message")]
        text = shorten(words[0].value, 70) if words else ""
        yield tools(
            "host-check-failed.dcgm",
            [*facts[:3], *words[:3]],
            of=_named_fault(text) or _named_fault(f" {test} "),
            test=test,
            devices=listed(f.device for f in (*facts, *words) if f.device),
            text=text,
            first=facts[0],
            warns=facts[0].value.startswith("Warn"),
        )


def _named_fault(said: str) -> str:
    return next((name for name, pattern in _TOLD["dcgm"].items() if said and re.search(pattern, said, re.I)), "")


def peers(run: Run) -> Iterator[Said | Beside]:
    """Pairs of GPUs whose peer access is reported and does not carry what a link between them carries."""
    table = run.table("peer_bandwidth").filter(pl.col("gbps").is_finite() & pl.col("line").is_not_null())
    late = {(f.input_id, f.device): f for f in named(run, r"p2p\.latency\.peer") if (f.number or 0) >= _PEER_US}
    denied = {(f.input_id, f.device) for f in named(run, r"p2p\.access|p2p\.status") if f.value not in ("yes", "OK")}
    staged: list[tuple[Ref, str]] = []
    for (input_id, _), rows in table.group_by("input_id", "test", maintain_order=True):
        through = {
            (r["src"], r["dst"]): float(r["gbps"]) for r in rows.filter(~pl.col("peer_access")).iter_rows(named=True)
        }
        direct = list(rows.filter(pl.col("peer_access").fill_null(True)).iter_rows(named=True))
        usual = median([float(r["gbps"]) for r in direct]) if direct else 0.0
        for row in direct:
            pair = (row["src"], row["dst"])
            host = through.get(pair)
            rate = float(row["gbps"])
            if (input_id, f"{pair[0]}->{pair[1]}") in denied:
                continue  # an ordinary copy, under the title of peer access
            slower = host is not None and rate < _OF_HOST * host
            odd = len(direct) >= 4 and rate < _OF_PEERS * usual
            if slower or rate < _PEER_GBPS or odd or (input_id, f"{pair[0]}->{pair[1]}") in late:
                why = (
                    f"through the host {host:g}"
                    if slower
                    else f"other pairs {usual:g}"
                    if odd
                    else "a Gen3 x16 link carries 12"
                )
                staged.append(
                    (Ref(int(str(input_id)), int(row["line"])), f"GPU {pair[0]} -> {pair[1]}: {rate:g} GB/s, {why}")
                )
    if staged:
        texts = [text for _, text in staged]
        slow = f"; latency {next(iter(late.values())).value} us" if late else ""
        yield Said(
            "p2p-staged-through-host",
            says(
                "p2p-staged-through-host.peers",
                tuple(dict.fromkeys(ref for ref, _ in staged))[:6],
                texts=texts,
                slow=slow,
            ),
        )


def copies(run: Run) -> Iterator[Said | Beside]:
    """What nvbandwidth says where a copy failed or brought other data."""
    for told in named(run, r"nvbandwidth\.message"):
        if told.value.startswith("WAIVED"):
            continue
        wrong = "pattern" in told.value
        yield tools("cuda-unhandled.copies", [told], of="wrong-results" if wrong else "", told=told, wrong=wrong)
        return


def pairs(run: Run) -> Iterator[Said | Beside]:
    """Pairs of GPUs that are not linked as nearly all others of their host are."""
    tables: dict[tuple[int, str | None, str], dict[str, Fact]] = {}
    for fact in named(run, r"p2p\.(?:link|status|access)"):
        if "->GPU" in fact.device or ":" in fact.device:
            tables.setdefault((fact.input_id, fact.host, fact.name), {})[fact.device] = fact
    for (_, _, name), cells in tables.items():
        usual, times = Count(f.value for f in cells.values()).most_common(1)[0]
        odd = [f for f in cells.values() if f.value != usual]
        if not odd or not _DIRECT.fullmatch(usual) or times < _MOST_PAIRS * len(cells):
            continue
        yield tools(
            "p2p-not-available.pairs", odd, of="nvlink-degraded" if name == "p2p.link" else "", odd=odd, usual=usual
        )


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
    for fact in named(run, r"process\.memory_used"):
        pid = re.search(r"pid ([0-9]+)", fact.device)
        if pid and int(pid[1]) not in pids and (fact.number or 0) >= 1024:
            who = next(
                (
                    f.value
                    for f in named(run, r"process\.name")
                    if f.device == fact.device and f.input_id == fact.input_id
                ),
                "a process",
            )
            yield Beside(
                "holders",
                f"Process {pid[1]} ({who}), which is not of this job, holds {float(fact.value) / 1024:.1f} GiB "
                f"of {fact.device.split('/')[0]}: end it first (kill {pid[1]}).",
                (Ref(fact.input_id, fact.line),),
            )


JUDGES: Final[tuple[Judge, ...]] = (
    acs, links, memory, fabric, nvlinks, throttled, dcgm, peers, copies, pairs, capability, holders,
)  # fmt: skip

"""GPUs, PCIe links and bridges, and copies between GPUs, as host tools show them."""

import re
from collections import Counter as Count
from collections.abc import Iterator, Mapping
from statistics import median
from textwrap import shorten
from typing import Final

import polars as pl

from nccl_insight.base.model import Action, Confidence, Ref, Severity
from nccl_insight.base.units import plural
from nccl_insight.facts.errors import present
from nccl_insight.facts.host_facts import Fact, by_device, named
from nccl_insight.facts.paths import has_nvlink
from nccl_insight.rules._host_words import Beside, Judge, Said, by_facts, listed
from nccl_insight.rules.context import hit
from nccl_insight.tables.run import Run

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
        ends = [
            key[2]
            for key, kind in kinds.items()
            if key[:2] == (input_id, host)
            and kind in ("gpu", "nic")
            and "pci.buses" in own
            and key[2][:4] == name[:4]
            and _below(own["pci.buses"].value, key[2])
        ]
        any_end = any(kind == "gpu" for key, kind in kinds.items() if key[:2] == (input_id, host))
        # Bridges of which the listing shows what stands behind them count only where that is a GPU or a NIC.
        if ends or not any_end or "pci.buses" not in own:
            found.append(control)
            above += ends
    if not found:
        return
    gpus = [a for a in above if any(k[2] == a and v == "gpu" for k, v in kinds.items())]
    p2p = run.table("connections").filter(pl.col("transport").cast(pl.String) == "P2P").height
    joined = bool(p2p) and not has_nvlink(run)
    where = listed(f.device[5:] for f in found if f.device)
    yield by_facts(
        "p2p-acs-iommu-hang",
        "ACS sends peer-to-peer traffic through the root complex"
        + (f": request redirection is on at {where}" if where else ": request redirection is on")
        + (f", above GPUs {listed(g[5:] for g in gpus)}" if gpus else ""),
        found,
        "sudo setpci -s <bridge> ECAP_ACS+0x6.w=0000   # each bridge named here, on bare metal, until the next boot; "
        "then check: sudo lspci -vvv | grep ACSCtl",
        Severity.WARNING,
        explanation="With ReqRedir+ a switch does not pass requests from GPU to GPU (or GPU to NIC) on, but sends them "
        "up to the root complex. Peer-to-peer copies get slow there, or hang where the IOMMU does not let them through."
        + (" The job's ranks talk over P2P without NVLink, so their first collective meets it." if joined else "")
        + " In a virtual machine ACS cannot be off: use NCCL_P2P_DISABLE=1 there.",
        observed=f"ReqRedir+ at {plural(len(found), 'bridge')}",
        expected="ACSCtl with ReqRedir- on bridges above GPUs and NICs",
        confidence=Confidence.HIGH if joined else Confidence.MEDIUM,
        action=Action.CONFIG,
    )


def links(run: Run) -> Iterator[Said | Beside]:
    """PCIe links that came up below what both ends can."""
    devices = by_device(named(run, r"pci\..*|gpu\.(?:utilization|performance_state|name)"))
    narrow: list[tuple[Fact, str]] = []
    slow: list[tuple[Fact, str]] = []
    for (input_id, host, name), own in devices.items():
        partner = next(
            (d for (i, h, n), d in devices.items() if (i, h) == (input_id, host) and n[:4] == name[:4] and ":" in name
             and "pci.buses" in d and d["pci.buses"].value.partition("-")[0] == name[5:7]), {},
        )  # fmt: skip
        kind = (
            own["pci.kind"].value if "pci.kind" in own else "gpu" if any(n.startswith("gpu.") for n in own) else "other"
        )
        if kind not in ("gpu", "nic"):
            continue
        width, most = _least(own, partner, "link_width", "link_max_width")
        if width and most and width.number is not None and width.number < most:
            narrow.append(
                (
                    width,
                    f"{name} x{width.value}, both ends can x{most:g}"
                    if partner
                    else f"{name} x{width.value} of x{most:g}",
                )
            )
        for key in ("link_speed", "link_generation"):
            rate, top = _least(own, partner, key, "link_max_speed" if key == "link_speed" else "link_max_generation")
            if rate and top and rate.number is not None and rate.number < top and not _idle(kind, own, rate.number):
                unit = " GT/s" if key == "link_speed" else ""
                slow.append((rate, f"{name} at {'Gen' if not unit else ''}{rate.value}{unit} of {top:g}{unit}"))
    narrow += _narrower(devices)
    if narrow or slow:
        worst = [*narrow, *slow]
        yield by_facts(
            "pcie-link-degraded",
            f"PCIe link trained below what it can: {listed(text for _, text in worst)}",
            [fact for fact, _ in worst],
            "sudo lspci -vvv -s <device> | grep -E 'LnkCap|LnkSta'   # on that host, under load; then reseat the "
            "card or riser, or drain the host",
            Severity.WARNING,
            explanation="A link that came up with fewer lanes or a lower rate carries that share of the traffic only; "
            "every copy to the host, to the NIC or to a PCIe peer of that device is slower, and all ranks wait for it.",
            observed=listed(text for _, text in worst),
            expected="the width and rate that both ends of the link support",
            confidence=Confidence.HIGH if narrow else Confidence.MEDIUM,
            action=Action.ISOLATE,
        )


def _narrower(devices: Mapping[tuple[int, str | None, str], Mapping[str, Fact]]) -> list[tuple[Fact, str]]:
    """GPUs with fewer lanes than their like on the host, where nothing says how many they can have."""
    widths: dict[tuple[int, str | None], list[Fact]] = {}
    for (input_id, host, name), own in devices.items():
        if name.startswith("GPU") and "pci.link_width" in own and "pci.link_max_width" not in own:
            widths.setdefault((input_id, host), []).append(own["pci.link_width"])
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


def _idle(kind: str, own: Mapping[str, Fact], rate: float) -> bool:
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
        if name == "gpu.unreadable":
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
    yield by_facts(
        "cuda-hardware-error",
        f"GPU {gpus}: {', '.join(parts)}" if gpus else f"GPUs do not answer: {', '.join(parts)}",
        every,
        "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT   # on that host; then drain it, reset the GPU (nvidia-smi "
        "--gpu-reset) or reboot, and replace it if rows cannot be remapped or errors come back",
        Severity.ERROR if {"remap failed", "unreadable"} & set(worst) else Severity.WARNING,
        explanation="A program that touches such memory is ended with an ECC error, and a GPU that the driver cannot "
        "read takes part in nothing; the other ranks then wait or report lost connections.",
        observed=", ".join(parts),
        expected="no uncorrectable error, nothing pending, every GPU readable",
        action=Action.ISOLATE,
    )


def _once(errors: list[Fact]) -> list[Fact]:
    """Errors of a device by part only where there is no total of all its parts."""
    totals = {(f.input_id, f.device) for f in errors if f.name.endswith(".total")}
    return [f for f in errors if f.name.endswith(".total") or (f.input_id, f.device) not in totals]


def fabric(run: Run) -> Iterator[Said | Beside]:
    """The NVSwitch fabric as each GPU sees it."""
    bad = [
        f for f in named(run, r"gpu\.fabric\..*")
        if (f.name.endswith(".state") and f.value.lower() != "completed")
        or (f.name.endswith(".status") and f.value.lower() != "success")
        or (".health." in f.name and re.fullmatch(r"(?i)true|yes|degraded|unhealthy|full|incorrect.*"
            r"|.*error.*", f.value))
    ]  # fmt: skip
    if bad:
        said = listed(f"{f.device} {f.name.removeprefix('gpu.fabric.').replace('.', ' ')} {f.value}" for f in bad)
        health = all(".health." in f.name for f in bad)
        yield by_facts(
            "fabric-manager-issue",
            f"The NVLink fabric is not ready: {said}" if not health else f"The NVLink fabric reports a problem: {said}",
            bad,
            "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A 8 Fabric   # on that host; fix: systemctl "
            "restart nvidia-fabricmanager with no job on the GPUs, in the version of the driver; in a virtual machine "
            "or multi-node fabric see the service on its host",
            Severity.ERROR if not health else Severity.WARNING,
            explanation="On machines with NVSwitch the fabric manager has to register each GPU before CUDA can use it "
            "with others. Until State is Completed and Status is Success, multicast (NVLS) and often CUDA itself fail.",
            observed=said,
            expected="Fabric State: Completed, Status: Success",
        )


def nvlinks(run: Run) -> Iterator[Said | Beside]:
    """NVLinks that are off, and error counters of links, where no table of links tells of them."""
    off = [f for f in named(run, r"nvlink\.active") if f.value == "0"]
    if off:
        yield by_facts(
            "nvlink-degraded", f"All NVLinks of {listed(f.device for f in off)} are inactive", off,
            "nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager; dmesg -T | grep -iE 'xid|nvlink' "
            "  # on that host; fix: start the fabric manager, else reset the GPU or drain the host",
            Severity.WARNING, explanation="Copies of this GPU go over PCIe, if at all; every collective waits.",
            observed="all links inactive", expected="all links active", action=Action.TRIAGE,
        )  # fmt: skip
    bad = [f for f in named(run, r"nvlink\..*error.*") if (f.number or 0) > 0]
    if bad and run.table("nvlinks").is_empty():
        said = listed(
            f"{f.device} link {f.name.split('.')[1]}: {f.name.split('.')[2].replace('_', ' ')} {f.value}" for f in bad
        )
        yield by_facts(
            "nvlink-degraded", f"NVLinks count errors: {said}", bad,
            "nvidia-smi nvlink -e; dmesg -T | grep -i xid   # on that host, twice while the job runs; if they grow "
            "drain the host and reset the GPU",
            Severity.WARNING, explanation="Packets on an NVLink arrive damaged and are sent again. Counters run since "
                "the last reset of the GPU.",
            observed=said, expected="0, or not growing", action=Action.TRIAGE,
        )  # fmt: skip


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
        yield by_facts(
            "gpu-throttled",
            f"GPUs are held back by the hardware: {said}",
            slow,
            "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER   # on that host, under load; then see to cooling "
            "and power supply, or drain the host",
            Severity.WARNING,
            explanation="Heat or a power brake lowers the clocks of a GPU. All others wait for the slowest in "
            "every step.",
            observed=said,
            expected="no hardware or thermal slowdown active",
            action=Action.ISOLATE,
        )


def _slower_clocks(run: Run) -> Iterator[tuple[Fact, str]]:
    """GPUs at work whose clock is far below that of the others of their host."""
    at_work: dict[tuple[int, str | None], list[Fact]] = {}
    for (input_id, host, _), own in by_device(named(run, r"gpu\.(?:clock\.sm|utilization)")).items():
        if len(own) == 2 and (own["gpu.utilization"].number or 0) >= _AT_WORK:
            at_work.setdefault((input_id, host), []).append(own["gpu.clock.sm"])
    for clocks in at_work.values():
        usual = median([f.number or 0.0 for f in clocks])
        for fact in clocks:
            if len(clocks) >= _FEW and (fact.number or 0) < _OF_CLOCK * usual:
                yield fact, f"runs at {fact.value} MHz, others at {usual:g}"


def _held_back(reason: str) -> bool:
    """Whether a reason for lower clocks is more than the power cap that GPUs run at under load."""
    return reason in _SLOW_GPU_REASONS or (reason.endswith("violation_status") and "ppt" not in reason)


# What a failed check of DCGM means, by its own words (dcgm_errors.h).
_DCGM: Final = (
    ("nvlink-degraded", r"nv ?link"),
    ("cuda-hardware-error", r"memory|ecc|row.?remap|retired|double-bit|dbe|inforom|faulty|fallen|lost"),
    ("pcie-link-degraded", r"pcie? |pci[_ ]|replay|link (?:generation|width)"),
    ("gpu-throttled", r"thermal|power|clocks? event|temperature|throttl"),
    ("xid-error", r"xid"),
    ("fabric-manager-issue", r"fabric|nvswitch"),
)


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
        devices = listed(f.device for f in (*facts, *words) if f.device)
        text = shorten(words[0].value, 70) if words else ""
        name = _named_fault(text) or _named_fault(f" {test} ") or "host-check-failed"
        yield by_facts(
            name,
            f"DCGM: {test} fails" + (f" on {devices}" if devices else "") + (f": {text}" if text else ""),
            [*facts[:3], *words[:3]],
            "dcgmi diag -r 3   # on that host, with no job on it; then drain it and open a ticket with the output",
            Severity.WARNING if facts[0].value.startswith("Warn") else Severity.ERROR,
            explanation="DCGM's own check of this GPU failed. What a job sees of it depends on which part it uses.",
            observed=text or f"{test}: {facts[0].value}",
            expected="Pass",
            action=Action.ISOLATE,
        )


def _named_fault(said: str) -> str:
    return next((name for name, pattern in _DCGM if said and re.search(pattern, said, re.I)), "")


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
            hit(
                tuple(dict.fromkeys(ref for ref, _ in staged))[:6],
                title=f"Peer-to-peer copies are slower than a direct link: {texts[0]}"
                + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""),
                next_step="NCCL_P2P_DISABLE=1 <the same job>   # if that works: sudo lspci -vvv | grep ACSCtl; "
                "cat /proc/cmdline | grep -o 'iommu[^ ]*'; fix: ACS off on the bridges above the GPUs, or "
                "iommu=pt on the kernel command line",
                explanation="The driver reports peer access, but the copies do not go the direct way: ACS or an IOMMU "
                "sends them through the root complex or the host's memory. NCCL trusts the report and picks P2P, which "
                "is then slower than shared memory, or hangs.",
                observed=listed(texts, 3) + slow,
                expected="about 12 GB/s (Gen3 x16), 25 (Gen4), 50 (Gen5) between PCIe peers, more over NVLink",
                severity=Severity.WARNING,
                confidence=Confidence.HIGH,
            ),
        )


def copies(run: Run) -> Iterator[Said | Beside]:
    """What nvbandwidth says where a copy failed or brought other data."""
    for told in named(run, r"nvbandwidth\.message"):
        if told.value.startswith("WAIVED"):
            continue
        wrong = "pattern" in told.value
        yield by_facts(
            "wrong-results" if wrong else "cuda-unhandled",
            "nvbandwidth: a copy between GPUs brought other data"
            if wrong
            else f"nvbandwidth failed: {told.value[:80]}",
            [told],
            "nvbandwidth -t device_to_device_memcpy_read_sm; dmesg -T | grep -i xid; lspci -vvv | grep ACSCtl   # on "
            "that host, with no job on it; then drain it",
            Severity.ERROR,
            explanation="The test copies without NCCL: what fails here fails in any program.",
            observed=told.value,
            expected="the test ends with a bandwidth",
            action=Action.ISOLATE,
        )
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
        linked = name == "p2p.link"
        yield by_facts(
            "nvlink-degraded" if linked else "p2p-not-available",
            f"GPUs are not linked like the others of their host: {listed((f'{f.device} {f.value}' for f in odd), 2)}, "
            f"other pairs {usual}",
            odd,
            "nvidia-smi nvlink -s; nvidia-smi topo -m; dmesg -T | grep -iE 'xid|nvlink|xgmi'   # on that host (AMD: "
            "amd-smi topology); then reset the GPUs or drain the host",
            Severity.WARNING,
            explanation="On a host whose GPUs are all linked alike, one pair that is not has lost a link or its "
            "configuration. NCCL goes around it or through the host, and all ranks wait for that.",
            observed=listed(f"{f.device} {f.value}" for f in odd),
            expected=f"{usual} between all GPUs",
            action=Action.ISOLATE,
        )


def capability(run: Run) -> Iterator[Said | Beside]:
    """nvidia-smi topo -p2p: pairs without peer-to-peer."""
    without = [f for f in named(run, r"p2p\.status") if f.value not in ("OK", "X", "U")]
    denied = [f for f in named(run, r"p2p\.access") if f.value == "no"]
    if without or denied:
        words = {
            "CNS": "chipset not supported",
            "GNS": "GPU not supported",
            "TNS": "topology not supported",
            "NS": "not supported",
            "DR": "disabled by a registry key",
        }
        why = (
            listed(dict.fromkeys(f"{f.value} ({words.get(f.value, f.value)})" for f in without))
            or "cudaDeviceCanAccessPeer says no"
        )
        rows = without or denied
        yield by_facts(
            "p2p-not-available",
            f"No peer-to-peer between {plural(len(rows), 'pair')} of GPUs "
            f"({listed((f.device for f in rows), 2)}): {why}",
            rows,
            "nvidia-smi topo -p2p r; nvidia-smi topo -m   # on that host",
            Severity.INFO,
            explanation="NCCL copies between these GPUs through shared memory of the host. On consumer cards, "
            "and across sockets, that is how the machine is.",
            observed=why,
            expected="OK between GPUs that shall talk directly",
        )


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
                ("cuda-oom-init",),
                f"Process {pid[1]} ({who}), which is not of this job, holds {float(fact.value) / 1024:.1f} GiB "
                f"of {fact.device.split('/')[0]}: end it first (kill {pid[1]}).",
                (Ref(fact.input_id, fact.line),),
            )


JUDGES: Final[tuple[Judge, ...]] = (
    acs, links, memory, fabric, nvlinks, throttled, dcgm, peers, copies, pairs, capability, holders,
)  # fmt: skip

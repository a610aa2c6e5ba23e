"""Health of the GPUs as NVML tells it, or nvidia-smi where NVML is missing: one record, one set of checks."""

import re
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from nccl_insight.base.data import dataclass
from nccl_insight.base.fabric_health import fabric_states
from nccl_insight.base.model import Action
from nccl_insight.base.objects import object_of
from nccl_insight.base.words import words
from nccl_insight.live.capture.processes import Output
from nccl_insight.live.preflight import nvml
from nccl_insight.live.preflight.model import Check, Status, check_of
from nccl_insight.live.preflight.node import Node

QUERY = words("""index pci.bus_id ecc.errors.uncorrected.volatile.total remapped_rows.pending remapped_rows.failure
    clocks_throttle_reasons.hw_thermal_slowdown clocks_throttle_reasons.hw_power_brake_slowdown compute_mode
    mig.mode.current memory.used pcie.link.width.current pcie.link.width.max""")
TOOL_S = 4.0
_USED_MIB = 1024.0
_MANY = 100
_FAR = 10
#: Programs that may keep a context on an idle node.
_SERVICES = re.compile(r"nvidia-cuda-mps|nv-hostengine|dcgm|nvidia-persist|Xorg|gnome-shell|nvtop")
#: What the driver asks for (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION of nvml.h).
_RECOVERY = {
    1: "a reset of the GPU", 2: "a restart of the node", 3: "to drain peer-to-peer traffic",
    4: "to drain and reset the GPU", 5: "to recover the IMEX domain", 6: "a reset of the bus",
    7: "a restart of the system",
}  # fmt: skip
_IMEX = 5
_FABRIC = {1: "not started", 2: "still in progress"}
#: What a healthy GPU tells, as a thing and as a sentence.
_ASKED = (
    ("ecc", "ECC", "no uncorrected ECC error"),
    ("remap_pending", "remapped rows", "no row waits for remapping"),
    ("hot", "clocks", "clocks not throttled"),
)
#: Part of the default power limit below which the limit counts as lowered.
_POWER_SHARE = 0.95


@dataclass(frozen=True)
class Link:
    """An NVLink: whether it is up, and its replays and recoveries since the driver started (None: not told)."""

    number: int
    up: bool
    errors: int | None = None


@dataclass(frozen=True)
class Health:
    """State of one GPU; None is not known. Memory in MiB, power in W, ``link_gbps`` as the driver rates a link.

    ``bare_banks``: banks of memory without a spare row. ``fabric_place``: cluster and clique of the NVLink domain.
    """

    index: str
    bus_id: str = ""
    name: str = ""
    error: str = ""
    ecc: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    hot: bool | None = None
    power_brake: bool | None = None
    slowed: bool | None = None
    sram_exceeded: bool | None = None
    bare_banks: int | None = None
    vbios: str = ""
    compute_mode: str = ""
    mig: bool | None = None
    memory_mib: float | None = None
    processes: tuple[tuple[int, float | None], ...] = ()
    generation: int | None = None
    gpu_generation: int | None = None
    replays: int | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    clock_mhz: int | None = None
    links: tuple[Link, ...] = ()
    link_gbps: float | None = None
    fabric_state: int | None = None
    fabric_status: int | None = None
    fabric_health: int | None = None
    fabric_place: tuple[str, int] | None = None
    recovery: int | None = None


@dataclass(frozen=True)
class Answer:
    """What the driver said about all GPUs. ``state`` as of :class:`Output`; ``source`` is NVML or nvidia-smi."""

    state: str
    source: str = ""
    error: str = ""
    gpus: tuple[Health, ...] = ()

    @property
    def domain(self) -> str:
        """Cluster and clique of the GPUs, where all are in one NVLink domain that may hold more nodes; else empty."""
        places = {gpu.fabric_place or ("", 0) for gpu in self.gpus}
        cluster, clique = places.pop() if len(places) == 1 else ("", 0)
        return f"{cluster}/{clique}" if cluster.strip("0") else ""


def ask(node: Node) -> Answer:
    """Asks NVML, and nvidia-smi where that is not installed. A driver that hangs is asked once only."""
    done = node.nvml()
    if done.state == "hung":
        return Answer("hung", "NVML")
    if done.state == "ok":
        answer = object_of(done.text)
        if "gpus" in answer:
            return Answer("ok", "NVML", gpus=tuple(_of_nvml(item) for item in answer["gpus"]))
        if answer and answer.get("code") not in nvml.NO_LIBRARY:
            return Answer("failed", "NVML", str(answer.get("error", "no answer")))
    return _of_tool(
        node.tool("nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits", timeout_s=TOOL_S)
    )


def _of_nvml(item: dict[str, Any]) -> Health:
    fabric = item.get("fabric") or {}
    plain = words("""bus_id name error ecc remap_pending remap_failed hot power_brake slowed sram_exceeded bare_banks
        vbios mig memory_mib generation gpu_generation replays power_limit_w power_default_w clock_mhz link_gbps
        recovery""")
    return Health(
        index=str(item.get("index", "?")),
        compute_mode=item.get("compute_mode") or "",
        processes=tuple((p["pid"], p["mib"]) for p in item.get("processes", ())),
        links=tuple(Link(k["link"], k["up"], k["errors"]) for k in item.get("links", ())),
        fabric_state=fabric.get("state"),
        fabric_status=fabric.get("status"),
        fabric_health=fabric.get("health"),
        fabric_place=(fabric["cluster"], fabric["clique"]) if fabric.get("state") == 3 else None,
        **{key: item[key] for key in plain if item.get(key) is not None},
    )


def _of_tool(done: Output) -> Answer:
    if done.state in ("missing", "hung"):
        return Answer(done.state, "nvidia-smi")
    rows = [dict(zip(QUERY, (v.strip() for v in line.split(",")), strict=False)) for line in done.text.splitlines()]
    rows = [row for row in rows if len(row) == len(QUERY)]
    if done.state == "failed" or not rows:
        said = next((line.strip() for line in (done.error + done.text).splitlines() if line.strip()), "no answer")
        return Answer("failed", "nvidia-smi", said)
    return Answer("ok", "nvidia-smi", gpus=tuple(_of_row(row) for row in rows))


def _of_row(row: dict[str, str]) -> Health:
    mode, used = row["compute_mode"], row["memory.used"]
    ecc = row["ecc.errors.uncorrected.volatile.total"]
    return Health(
        index=row["index"],
        bus_id=row["pci.bus_id"].lower()[-12:],
        ecc=int(ecc) if ecc.isdigit() else None,
        remap_pending=_flag(row["remapped_rows.pending"]),
        remap_failed=_flag(row["remapped_rows.failure"]),
        hot=_flag(row["clocks_throttle_reasons.hw_thermal_slowdown"]),
        power_brake=_flag(row["clocks_throttle_reasons.hw_power_brake_slowdown"]),
        compute_mode="" if mode.lower() in ("[n/a]", "n/a") else mode,
        mig=row["mig.mode.current"].lower() == "enabled",
        memory_mib=float(used) if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", used) else None,
    )


def _flag(value: str) -> bool | None:
    """A count above 0, Yes or Active is trouble; ``[N/A]`` and unknown words say nothing."""
    if value.isdigit():
        return int(value) > 0
    return {"yes": True, "active": True, "no": False, "not active": False}.get(value.lower())


def health_checks(node: Node, answer: Answer, known_lost: int = 0) -> Iterator[Check]:
    """What the answer says about the GPUs. A driver that does not answer is a finding by itself.

    ``known_lost``: GPUs that the bus has already shown to be gone.
    """
    if answer.state == "missing":
        yield check_of("gpu-health")
        return
    if answer.state == "hung":
        yield check_of("driver", answer=answer, tool_s=TOOL_S)
        return
    if answer.state == "failed":
        yield check_of("driver-failed-answer", answer=answer)
        return
    silent = [gpu for gpu in answer.gpus if gpu.error]
    gpus = [gpu for gpu in answer.gpus if not gpu.error]
    if len(silent) > known_lost:
        shown = "; ".join(f"GPU {gpu.index} does not answer ({gpu.error[:60]})" for gpu in silent[:4])
        yield check_of("silent-gpus", silent=shown, answer=answer)
    bad = [*_memory_and_clocks(gpus), *_fabric(gpus)]
    yield from bad
    yield from _modes(gpus)
    yield from _leftovers(node, gpus)
    yield from _siblings(gpus)
    if not bad and gpus:
        told = [any(getattr(gpu, field) is not None for gpu in gpus) for field, _, _ in _ASKED]
        fine = ", ".join(words for (_, _, words), read in zip(_ASKED, told, strict=True) if read) or "they answer"
        untold = ", ".join(name for (_, name, _), read in zip(_ASKED, told, strict=True) if not read)
        yield check_of("gpu-health-fine", gpus=gpus, answer=answer, fine=fine, untold=untold)


def _named(gpus: Sequence[Health]) -> str:
    return ", ".join(gpu.index for gpu in gpus[:8])


_TROUBLES = words("ecc remap_failed sram_exceeded bare_banks remap_pending hot power_brake slowed")


def _memory_and_clocks(gpus: Sequence[Health]) -> Iterator[Check]:
    for trouble in _TROUBLES:
        if bad := [gpu for gpu in gpus if getattr(gpu, trouble)]:
            yield check_of(f"gpu-shows-{trouble}", named=_named(bad))
    asking = [gpu for gpu in gpus if gpu.recovery in _RECOVERY]
    if asking:
        wish = _RECOVERY[asking[0].recovery or 0]
        domain = all(gpu.recovery == _IMEX for gpu in asking)
        yield check_of("recovery", named=_named(asking), wish=wish, domain=domain)


def _fabric(gpus: Sequence[Health]) -> Iterator[Check]:
    waiting = [gpu for gpu in gpus if gpu.fabric_state in _FABRIC]
    refused = [gpu for gpu in gpus if gpu.fabric_state == 3 and gpu.fabric_status]
    if waiting:
        stage = _FABRIC[waiting[0].fabric_state or 1]
        yield check_of("nvlink-fabric", named=_named(waiting), state=stage)
    if refused:
        yield check_of("nvlink-fabric-gpu-registration", named=_named(refused), refused=refused)

    weak: dict[str, list[Health]] = {}
    for gpu in gpus:
        for state in fabric_states(gpu.fabric_health or 0)[0]:
            weak.setdefault(state, []).append(gpu)
    if weak:
        shown = "; ".join(f"GPU {_named(those)}: {state}" for state, those in weak.items())
        yield check_of("nvlink-fabric-healthy-fabric", shown=shown)


def _modes(gpus: Sequence[Health]) -> Iterator[Check]:
    exclusive = [gpu for gpu in gpus if gpu.compute_mode.lower() not in ("", "default")]
    if exclusive:
        yield check_of("compute-mode", named=_named(exclusive), exclusive=exclusive)
    split = [gpu for gpu in gpus if gpu.mig]
    if split:
        yield check_of("mig", named=_named(split))


def _leftovers(node: Node, gpus: Sequence[Health]) -> Iterator[Check]:
    left = []
    for gpu in gpus:
        for pid, mib in gpu.processes:
            name = node.read(f"/proc/{pid}/comm")
            if not _SERVICES.match(name):
                size = "" if mib is None else f", {mib:,.0f} MiB"
                left.append(f"GPU {gpu.index}: {name or 'process'} {pid}{size}")
    if left:
        more = f" and {len(left) - 4} more" if len(left) > 4 else ""
        yield check_of("leftovers", left="; ".join(left[:4]), more=more)
        return
    busy = [f"GPU {g.index} {g.memory_mib:,.0f} MiB" for g in gpus if (g.memory_mib or 0) > _USED_MIB]
    if busy:
        yield check_of("gpu-memory", busy=", ".join(busy))


def _siblings(gpus: Sequence[Health]) -> Iterator[Check]:
    """GPUs that differ from the others of their model on this node."""
    slots = "compare the slots in the BIOS and with lspci -vv; reseat the GPU or riser"
    yield from _different(
        gpus, "generation", "pcie generation", "the slot gives PCIe Gen{0}", "Gen{0}, as the others", slots
    )
    lowered = "sudo nvidia-smi -pl WATTS, or find who lowered it"
    yield from _different(gpus, "power_limit_w", "power limit", "{0:.0f} W", "{0:.0f} W, as the others", lowered)
    yield from _below(gpus)
    releases = sorted({gpu.vbios for gpu in gpus if gpu.vbios})
    if len(releases) > 1 and len({gpu.name for gpu in gpus}) == 1:
        yield check_of("vbios", releases=releases, first_releases=", ".join(releases[:3]))
    taken = "nvidia-smi -q -d CLOCK; sudo nvidia-smi -rgc takes a limit away"
    yield from _different(gpus, "clock_mhz", "clock limit", "at most {0} MHz", "{0} MHz, as the others", taken)
    far = _far({g.index: g.replays for g in gpus if g.replays is not None})
    if far:
        shown = ", ".join(f"GPU {i} {n:,}" for i, n in far.items())
        yield check_of("pcie-replays", shown=shown)


def _below(gpus: Sequence[Health]) -> Iterator[Check]:
    """What all GPUs have alike, below what they could have: the power limit, and the generation of their slots."""
    limits = {(g.power_limit_w, g.power_default_w) for g in gpus}
    if len(limits) == 1:
        limit, usual = limits.pop()
        if limit and usual and limit < _POWER_SHARE * usual:
            yield check_of("power-limit", limit=limit, all=_all(gpus), usual=usual)
    slots = {(g.generation, g.gpu_generation) for g in gpus}
    if len(slots) == 1:
        slot, able = slots.pop()
        if slot and able and slot < able:
            yield check_of("pcie-generation", slot=slot, all=_all(gpus), able=able)


def _all(gpus: Sequence[Health]) -> str:
    return "the GPU" if len(gpus) == 1 else f"all {len(gpus)} GPUs"


def _different(gpus: Sequence[Health], field: str, name: str, seen: str, expected: str, fix: str) -> Iterator[Check]:
    """Fewer than half of at least three GPUs of a model have less than the rest."""
    for model in sorted({gpu.name for gpu in gpus}):
        values = {g.index: getattr(g, field) for g in gpus if g.name == model and getattr(g, field) is not None}
        if len(values) < 3:
            continue
        usual = statistics.mode(values.values())
        low = {index: value for index, value in values.items() if value < usual}
        if low and 2 * len(low) < len(values):
            shown = ", ".join(f"GPU {index}: {seen.format(value)}" for index, value in low.items())
            yield Check(name, Status.WARN, shown, expected.format(usual), fix, "NI601", Action.TRIAGE)


def _far(counts: dict[str, int]) -> dict[str, int]:
    """Counters run since the driver started, so only one far above its siblings stands out."""
    typical = statistics.median(counts.values()) if len(counts) > 2 else None
    if typical is None:
        return {}
    return {i: n for i, n in counts.items() if n > _MANY and n > _FAR * max(1.0, typical)}


def link_errors(answer: Answer) -> Iterator[Check]:
    """GPUs whose NVLinks repeat far more than those of the others, with the worst link of each."""
    told = {g.index: [(k.errors, k.number) for k in g.links if k.errors is not None] for g in answer.gpus}
    far = _far({index: sum(count for count, _ in links) for index, links in told.items() if links})
    for gpu in answer.gpus:
        if gpu.index in far:
            errors, number = max(told[gpu.index])
            yield check_of("nvlink-errors", gpu=gpu, far=far[gpu.index], errors=errors, number=number)

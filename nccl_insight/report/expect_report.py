"""The results of ``expect`` as text for people and as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nccl_insight.advise.expect.machine import Machine, direct_memory
from nccl_insight.advise.expect.model import Expected, Parts, parts_of
from nccl_insight.advise.expect.training import Job, Share
from nccl_insight.base import toml
from nccl_insight.base.data import asdict, dataclass
from nccl_insight.base.objects import json_text
from nccl_insight.base.units import format_bytes, format_gbps, format_ns, plural
from nccl_insight.report.prose import aligned

_ALGORITHMS: Final[Mapping[str, str]] = toml.beside(__file__)["algorithms"]
_TEXT_SIZES: Final = (8, 1 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30, 8 << 30)


@dataclass(frozen=True)
class Question:
    """One machine of the answer: the asked one first, changed ones with the change as title."""

    title: str
    machine: Machine
    expected: tuple[Expected, ...]


def render_json(questions: Sequence[Question]) -> str:
    """The first machine's expectations under ``expectations``, changed machines under ``what_if``."""
    first = questions[0]
    document: dict[str, Any] = {
        "schema": 1,
        "machine": _machine(first.machine),
        "expectations": [_rounded(e) for e in first.expected],
        "what_if": [
            {"change": q.title, "machine": _machine(q.machine), "expectations": [_rounded(e) for e in q.expected]}
            for q in questions[1:]
        ],
    }
    return json_text(document)


def _machine(machine: Machine) -> dict[str, Any]:
    return {
        "gpu": machine.gpu.name,
        "gpus_per_node": machine.gpus_per_node,
        "nodes": machine.nodes,
        "ranks": machine.ranks,
        "fabric": machine.fabric,
        "nics_per_node": machine.nics or None,
        "nic_gbit": machine.nic_gbit or None,
        "network": None if machine.network.name == "unknown" else machine.network.name,
        "gdr": direct_memory(machine) if machine.domains > 1 else None,
        "notes": _notes(machine),
    }


def _rounded(expected: Expected) -> dict[str, Any]:
    return {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in asdict(expected).items()}


def render_text(questions: Sequence[Question], ops: Sequence[str], sizes: Sequence[int] | None) -> str:
    """A table for each operation, what bounds it and why; then what each change would do."""
    first = questions[0]
    lines = [f"Expected on {first.machine.describe()}", *(f"  {n}" for n in _notes(first.machine))]
    for op in ops:
        parts = parts_of(first.machine, op)
        if parts is None:
            continue
        lines += ["", op, *_table(parts, sizes or _TEXT_SIZES)]
    for other in questions[1:]:
        lines += ["", *_changed(first, other, ops, sizes)]
    sources = sorted({e.source for e in first.expected if e.source})
    lines += ["", "Figures from the hardware table of this package, not from a log:", *(f"  {s}" for s in sources)]
    return "\n".join(lines) + "\n"


def _table(parts: Parts, sizes: Sequence[int]) -> list[str]:
    rows = [("size", "time", "busbw GB/s", "healthy GB/s", "bound by")]
    for size in sizes:
        e = parts.at(size)
        healthy = f"{_plain(e.busbw_low_gbps)} to {_plain(e.busbw_high_gbps)}"
        rows.append((format_bytes(size), format_ns(e.time_us * 1e3), _plain(e.busbw_gbps), healthy, e.bound_by))
    turn = f"  latency and bandwidth take the same time at about {format_bytes(parts.turning_bytes)}"
    return [*aligned(rows, 4, "  "), turn, f"  {_algorithm(parts)}"]


def _busbw(value: float) -> str:
    return format_gbps(value) if value >= 10 else f"{value:.2g} GB/s"


def _plain(value: float) -> str:
    return _busbw(value).removesuffix(" GB/s")


def _changed(first: Question, other: Question, ops: Sequence[str], sizes: Sequence[int] | None) -> list[str]:
    lines = [f"With {other.title}: {other.machine.describe()}"]
    for op in ops:
        before, after = parts_of(first.machine, op), parts_of(other.machine, op)
        if before is None or after is None:
            lines.append(f"  {op}: no expectation (one rank, or no rate of the NICs)")
            continue
        for size in sizes or (1 << 20, 1 << 30):
            a, b = before.at(size), after.at(size)
            ratio = b.time_us / a.time_us
            word = "the same time" if 0.95 < ratio < 1.05 else f"{ratio:.2g} x the time"
            lines.append(
                f"  {op} {format_bytes(size)}: {format_ns(a.time_us * 1e3)} -> {format_ns(b.time_us * 1e3)} ({word}), "
                f"{_busbw(a.busbw_gbps)} -> {_busbw(b.busbw_gbps)}, bound by {b.bound_by}"
            )
    return lines


def job_text(job: Job, machine: Machine, shares: Sequence[Share]) -> str:
    """What a training step moves: one line for each way of splitting, with the time of healthy machines."""
    lines = [
        f"A training step of {job.params:.3g} parameters in {job.dtype} on {machine.describe()}",
        f"  {job.layers} layers, {job.width:,} wide (from the parameters: 12 x layers x width x width)",
        f"  {job.micro} micro-batches of {job.batch} x {job.seq:,} tokens; tp {job.tp}, pp {job.pp}, dp {job.dp}",
    ]
    for s in shares:
        low, typical, high = (format_ns(t * 1e3) for t in (s.time_low_us, s.time_us, s.time_high_us))
        lines += [
            "",
            f"{s.what}: {plural(s.calls, 'call')} of {s.op} among {s.ranks} ranks, {format_bytes(s.size_bytes)} each",
            f"  {format_bytes(s.total_bytes)} a step, {typical} (healthy {low} to {high})",
        ]
    lines += ["", "Times are those of the communication; how much of it runs beside computation is up to the program."]
    return "\n".join(lines) + "\n"


def job_json(job: Job, machine: Machine, shares: Sequence[Share]) -> str:
    """The same as JSON."""
    rows = [
        {"total_bytes": s.total_bytes}
        | {k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in asdict(s).items()}
        for s in shares
    ]
    about = {**asdict(job), "ranks": job.ranks, "layers": job.layers, "width": job.width}
    document = {"schema": 1, "machine": _machine(machine), "job": about, "step": rows}
    return json_text(document)


def _algorithm(parts: Parts) -> str:
    """Which algorithm carries large messages, and why."""
    name = parts.rate.algorithm
    small = ""
    if parts.op == "AllReduce":
        small = "; small ones take LL or LL128, whose steps are short and whose rate is lower"
    return f"large messages take {_ALGORITHMS.get(name, name)}{small}"


def _notes(machine: Machine) -> list[str]:
    """What was assumed because nobody said it, and which choices hold the machine back."""
    notes: list[str] = []
    if machine.domains > 1:
        if machine.network.name == "unknown":
            notes.append("kind of network not given (--network ib|roce|efa|tcp): an RDMA network assumed")
        if not machine.nics:
            notes.append("no NICs given (--nics COUNTxGBITS): nothing can be expected between nodes")
        if machine.gdr is None:
            direct = direct_memory(machine)
            notes.append(f"GPUDirect RDMA not stated: assumed {'on' if direct else 'off'} (--gdr or --no-gdr)")
    if machine.gpu.get("nvls_share") and machine.fabric == "nvswitch" and machine.nvls is None:
        notes.append("NVLS assumed to work; the band reaches down to the ring (--no-nvls)")
    return notes

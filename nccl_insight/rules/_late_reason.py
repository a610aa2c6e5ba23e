"""Why ranks are late, in words, and where to look for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nccl_insight.facts.late_reason import Kind, reason
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ns

_LOOK: dict[Kind, str] = {
    "kernels": "nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE {where}; then look for other work on these GPUs, "
    "and larger inputs",
    "work": "compare what the ranks are given {where}: micro-batches, sequence lengths, tokens of experts",
    "host": "top -H; py-spy dump --pid <pid> {where}; then look for data loading, garbage collection, logging, "
    "busy or unpinned CPUs",
    "copies": "look at the copies in the trace {where}: checkpoints, pageable memory, .item() and .cpu() calls",
}
_ANY = "nvidia-smi -q -d PERFORMANCE,CLOCK {where}; look for CPU contention, data loading, logging"


@dataclass(frozen=True)
class Why:
    """``short``: a verb phrase for a title, ``text``: sentences, each empty where nothing is known; ``step``: what to
    do next."""

    short: str = ""
    text: str = ""
    step: str = ""


def why_late(
    run: Run, ranks: Sequence[int], among: Sequence[int], steps: Sequence[int] = (), where: str = ""
) -> Why:
    """Why the ranks are later than the rest of ``among``, in ``steps`` where given."""
    found = reason(run, ranks, among, steps)
    if found is None:
        return Why(step=_ANY.format(where=where))
    many = len(ranks) > 1
    their, they, s = ("Their", "They", "") if many else ("Its", "It", "s")
    per = (
        "in all"
        if found.whole
        else "per step of these"
        if len(steps) > 1
        else "in it"
        if steps
        else "per step"
    )
    excess, others = format_ns(found.excess_ns), format_ns(found.others_ns)
    words = {
        "kernels": f"{their} compute kernels take {found.ratio - 1:.0%} longer than those of the others, as many as "
        f"theirs ({excess} more {per}): slower GPUs or larger inputs.",
        "work": f"{they} run{s} {found.ratio - 1:.0%} more kernels than the others ({excess} more {per}), none slower: "
        f"{they.lower()} ha{'ve' if many else 's'} more work.",
        "host": f"{their} GPU{'s' if many else ''} stand{'' if many else 's'} idle until the CPU launches, {excess} "
        f"{per} longer than the others' ({others}): {their.lower()} CPU{'s launch' if many else ' launches'} kernels "
        "late.",
        "copies": f"{their} copies that no kernel hides take {excess} {per} longer than those of the others.",
    }
    short = {
        "kernels": f"compute{s} {found.ratio - 1:.0%} slower",
        "work": f"run{s} {found.ratio - 1:.0%} more kernels",
        "host": f"leave{s} {their.lower()} GPU{'s' if many else ''} idle {excess} longer",
        "copies": f"cop{'y' if many else 'ies'} {excess} longer",
    }
    return Why(short[found.kind], f" {words[found.kind]}", _LOOK[found.kind].format(where=where))

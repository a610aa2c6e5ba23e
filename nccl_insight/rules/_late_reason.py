"""Why ranks are late, in words, and where to look for it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import polars as pl

from nccl_insight.base import late, texts
from nccl_insight.base.data import dataclass
from nccl_insight.base.units import format_ns
from nccl_insight.facts.idle import Why as Idle
from nccl_insight.facts.idle import why_idle
from nccl_insight.facts.late_reason import reason
from nccl_insight.tables.run import Run

_LOOK: Final = texts.of_file(Path(__file__).with_suffix(".txt"))
_CALLS: Final = {
    "allocator": r"(?:cuda|hip)(?:Malloc|Free)",
    "data-loader": r"(?i)data ?loader",
    "checkpoint": r"(?i)checkpoint|\bsave\b",
    "waits": r"_local_scalar_dense|::item|nonzero|Synchronize|aten::copy_|_to_copy",
    "garbage": r"(?i)\bcollect\b|\bgc\b",
    "compiles": r"(?i)compil|dynamo|inductor|triton",
}
_TITLE: Final = 60
# <built-in function sleep>, <built-in method run_backward of torch._C._EngineBase object at 0x7f91753b07f0>
_BUILT_IN: Final = late.compiled(r"<built-in (?:function|method) (\w+)(?: of [^<>]*)?>")


@dataclass(frozen=True)
class Why:
    """``short``: a verb phrase for a title, ``text``: sentences, each empty where nothing is known; ``step``: what to
    do next; ``what``: what the CPU does meanwhile, in a few words; ``calls``: these are calls of the program."""

    short: str = ""
    text: str = ""
    step: str = ""
    what: str = ""
    calls: bool = False


def why_late(run: Run, ranks: Sequence[int], among: Sequence[int], steps: Sequence[int] = (), where: str = "") -> Why:
    """Why the ranks are later than the rest of ``among``, in ``steps`` where given."""
    found = reason(run, ranks, among, steps)
    idle = why_idle(run, ranks, steps) if found is None or found.kind in ("host", "copies") else None
    told = _idle_words(idle, where) if idle is not None else Why()
    if found is None:
        cpu = (run.table("collectives")["source"].cast(pl.String) == "cpu_op").all()  # no GPU is in these traces
        return Why(told.short, told.text, told.step or _LOOK["kind"]["cpu" if cpu else "any"].format(where=where))
    many = len(ranks) > 1
    their, they, s = ("Their", "They", "") if many else ("Its", "It", "s")
    per = "in all" if found.whole else "per step of these" if len(steps) > 1 else "in it" if steps else "per step"
    excess, others = format_ns(found.excess_ns), format_ns(found.others_ns)
    words = {
        "kernels": f"{their} compute kernels take {found.ratio - 1:.0%} longer than those of the others, as many as "
        f"theirs ({excess} more {per}): slower GPUs or larger inputs.",
        "work": f"{they} run{s} {found.ratio - 1:.0%} more kernels than the others ({excess} more {per}): "
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
    step = told.step or _LOOK["kind"][found.kind].format(where=where)
    return Why(short[found.kind], f" {words[found.kind]}{told.text}", step)


def why_all_idle(run: Run, ranks: Sequence[int], steps: Sequence[int] = ()) -> Why:
    """Why the GPUs of all ranks wait; in ``steps`` against the others where given."""
    idle = why_idle(run, ranks, steps)
    return _idle_words(idle, "on the hosts") if idle is not None else Why()


def _idle_words(idle: Idle, where: str) -> Why:
    total = format_ns(idle.idle_ns)
    if idle.kind == "launches":
        others = f", that of its peers {format_ns(idle.others_ns)}" if idle.others_ns else ""
        return Why(
            text=f" It is CPU-bound: the launching thread needs {format_ns(idle.per_ns)} for each launch{others}, and "
            "the GPU waits for it.",
            step=f"py-spy record -d 30 --pid <pid> {where}; fewer and larger kernels: CUDA graphs, torch.compile, "
            "larger batches; pin the process to cores of the GPU's NUMA node",
            what=f"the CPU needs {format_ns(idle.per_ns)} for each launch",
        )
    if idle.kind == "nothing":
        return Why(
            text=f" Nothing on the launching thread explains the {total} in which the GPU waits: no recorded event "
            "stands there.",
            step=f"py-spy dump --native --pid <pid> {where} while it is slow, or record with with_stack=True",
        )
    names = " and ".join(_BUILT_IN.sub(r"\1()", name) for name in idle.names)
    at = f" ({idle.line})" if idle.line else ""
    share = f"{format_ns(idle.named_ns)} of the {total}"
    words = (
        f" {names}{at} {'wait' if len(idle.names) > 1 else 'waits'} until the GPU has nothing left to do, and {share} "
        "in which it then stands idle more than usual follow from that"
        if idle.drains
        else f" {names}{at} {'stand' if len(idle.names) > 1 else 'stands'} in {share} in which the GPU waits more than "
        "usual"
    )
    told = (_LOOK["call"][name] for name, sign in _CALLS.items() if re.search(sign, f"{names} {idle.line}"))
    step = next(told, _LOOK["kind"]["call"])
    within = f" ({idle.steps} of {idle.of_steps} steps)" if idle.of_steps > 1 else ""
    what = f"{names}{at}"
    short = what if len(what) <= _TITLE else f"{what[:_TITLE]} ..."
    told_step = f"{what}: {share} of waiting{within}; {step.format(where=where)}"
    return Why(text=f"{words}{within}.", step=told_step, what=short, calls=True)

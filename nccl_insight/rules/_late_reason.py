"""Why ranks are late, in words, and where to look for it."""

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from nccl_insight.base import late, texts
from nccl_insight.base.data import dataclass
from nccl_insight.base.units import format_ns
from nccl_insight.facts.lateness.idle import Why as Idle
from nccl_insight.facts.lateness.idle import why_idle
from nccl_insight.facts.lateness.late_reason import reason
from nccl_insight.tables.run import Run

_LOOK: Final = texts.of_file(__file__)
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
    idle = why_idle(run, tuple(ranks), tuple(steps)) if found is None or found.kind in ("host", "copies") else None
    told = _idle_words(idle, where) if idle is not None else Why()
    if found is None:
        cpu = (run.table("collectives")["source"].cast(pl.String) == "cpu_op").all()  # no GPU is in these traces
        return Why(told.short, told.text, told.step or _LOOK["kind"]["cpu" if cpu else "any"].format(where=where))
    given = {"found": found, "one": len(ranks) == 1, "more": found.ratio - 1, "steps": steps, "few": len(steps) > 1}
    said = texts.fields(_LOOK[found.kind], given, ())
    step = told.step or _LOOK["kind"][found.kind].format(where=where)
    return Why(said["short"], f" {said['text']}{told.text}", step)


def why_all_idle(run: Run, ranks: Sequence[int], steps: Sequence[int] = ()) -> Why:
    """Why the GPUs of all ranks wait; in ``steps`` against the others where given."""
    idle = why_idle(run, tuple(ranks), tuple(steps))
    return _idle_words(idle, "on the hosts") if idle is not None else Why()


def _idle_words(idle: Idle, where: str) -> Why:
    if idle.kind in ("launches", "nothing"):
        said = texts.fields(_LOOK[idle.kind], {"idle": idle, "where": where}, ())
        return Why(text=f" {said['text']}", step=said["step"], what=said.get("what", ""))
    names = " and ".join(_BUILT_IN.sub(r"\1()", name) for name in idle.names)
    at = f" ({idle.line})" if idle.line else ""
    share = f"{format_ns(idle.named_ns)} of the {format_ns(idle.idle_ns)}"
    given = {"what": f"{names}{at}", "share": share, "several": len(idle.names) > 1}
    words = texts.filled(_LOOK["gap"]["drains" if idle.drains else "stands"], given)
    told = (_LOOK["call"][name] for name, sign in _CALLS.items() if re.search(sign, f"{names} {idle.line}"))
    step = next(told, _LOOK["kind"]["call"])
    within = f" ({idle.steps} of {idle.of_steps} steps)" if idle.of_steps > 1 else ""
    what = f"{names}{at}"
    short = what if len(what) <= _TITLE else f"{what[:_TITLE]} ..."
    told_step = f"{what}: {share} of waiting{within}; {step.format(where=where)}"
    return Why(text=f" {words}{within}.", step=told_step, what=short, calls=True)

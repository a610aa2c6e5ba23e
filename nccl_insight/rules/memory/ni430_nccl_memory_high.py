"""NCCL takes a lot of GPU memory.

What it finds
-------------
Processes whose NCCL buffers on the GPU add up to gigabytes, by purpose.

Why it matters
--------------
Memory that NCCL holds is missing for the model; frameworks count it as used by "others", and an allocation of NCCL
may fail when the first large collective or all-to-all runs.

How it decides
--------------
At least 3 GiB (threshold `bytes`) of device allocations in the lines of the subsystem ALLOC. Without such lines, the
P2P connections of the log times NCCL's buffer sizes (10 MiB at the receiver, 2 MiB at the sender, unless settings say
otherwise).

What to do
----------
Fewer point-to-point channels or smaller buffers where all-to-all is not the bottleneck; share resources between
split communicators (splitShare); destroy communicators that are no longer needed.

False positives
---------------
NCCL prints no line when it frees: processes that destroy communicators hold less than the sum.

References
----------
NVIDIA/nccl issues 864, 986, 1685 and 2363; NVIDIA/nccl src/include/device.h.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.memory import connection_memory, device_memory, possible_savings
from nccl_insight.facts.thresholds import threshold
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, plural

CLASS = "P"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("ranks",)
THRESHOLDS = {"bytes": float(3 << 30)}
SOURCES = ("NVIDIA/nccl 1685", "NVIDIA/nccl src/include/device.h")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding, for the process that takes most."""
    limit = threshold(run, "nccl-memory-high", "bytes", THRESHOLDS["bytes"])
    best = possible_savings(run)
    step = "; ".join(f"{s.setting} saves about {format_bytes(s.saved_bytes)} ({s.cost})" for s in best[:2])
    step = step or "destroy communicators that are no longer needed; ncclCommSplit with splitShare=1"
    logged = device_memory(run)
    if logged:
        if logged[0].bytes < limit:
            return
        most = logged[0]
        who = "a process" if most.rank is None else f"rank {most.rank}"
        many = f" for {plural(most.communicators, 'communicator')}" if most.communicators else ""
        yield Hit(
            title=f"NCCL allocates {format_bytes(most.bytes)} of GPU memory on {who}{many}",
            explanation=f"{most.words()}. {plural(sum(m.bytes >= limit for m in logged), 'process', 'processes')} of "
            f"{len(logged)} allocate {format_bytes(limit)} or more.",
            observed=format_bytes(most.bytes),
            expected=f"less than {format_bytes(limit)} (a threshold)",
            next_step=step,
            ranks=() if most.rank is None else (most.rank,),
            hosts=() if most.host is None else (most.host,),
            evidence=(Ref(most.input_id, most.line),),
        )
        return
    links = connection_memory(run)
    if links is None or links.bytes < limit:
        return
    yield Hit(
        title=f"The P2P connections of rank {links.rank} need about {format_bytes(links.bytes)} of GPU memory",
        explanation=f"{plural(links.receives, 'receiving connection')} and "
        f"{plural(links.sends, 'sending connection')}, of which {links.p2p_receives + links.p2p_sends} are for send, "
        f"receive and all-to-all, times NCCL's buffer sizes.",
        observed=f"about {format_bytes(links.bytes)} by NCCL's formula",
        expected=f"less than {format_bytes(limit)} (a threshold)",
        next_step=f"{step}; NCCL_DEBUG_SUBSYS=INIT,ENV,ALLOC shows every allocation",
        ranks=(links.rank,),
        evidence=(Ref(links.input_id, links.line),),
    )

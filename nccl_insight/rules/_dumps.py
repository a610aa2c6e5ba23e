"""Findings that Flight Recorder dumps give to more than one rule."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import Confidence, Hit, Ref
from nccl_insight.base.units import rank_words
from nccl_insight.facts.flight_recorder import verdict
from nccl_insight.facts.flight_recorder.differences import Mismatch
from nccl_insight.facts.flight_recorder.entries import Operation
from nccl_insight.rules.context import hit
from nccl_insight.tables.run import Run


def mismatches(run: Run) -> Iterator[Hit]:
    """One finding per process group in which ranks issued different operations under one sequence number."""
    judged = verdict(run)
    for found in judged.mismatches if judged is not None else ():
        yield _mismatch(found)


def _mismatch(found: Mismatch) -> Hit:
    odd, usual = found.variants[0], found.variants[-1]
    pairs = [_issued(operation, ranks) for operation, ranks in found.variants]
    clear = len(odd[1]) < len(usual[1])
    return hit(
        tuple(Ref(o.input_id, 0, f"{_issued(o, r)} as collective {found.seq}") for o, r in found.variants[:6]),
        whom=odd[1] if clear else (),
        title=f"Collective {found.seq} of process group {found.group.label} differs in its {found.what}: "
        f"{'; '.join(pairs[:4])}",
        next_step="TORCH_DISTRIBUTED_DEBUG=DETAIL <the same job>   # names the Python line of the differing call",
        explanation="The dumps of all ranks number the collectives of a group alike. From this one on the ranks are "
        "not in the same collective.",
        observed=odd[0].label if clear else "; ".join(v[0].label for v in found.variants[:4]),
        expected=usual[0].label if clear else "the same operation on all ranks",
        confidence=Confidence.HIGH,
    )


def _issued(operation: Operation, ranks: tuple[int, ...]) -> str:
    return f"{rank_words(ranks)} issued {operation.label}"

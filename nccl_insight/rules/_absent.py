"""What several sources say about the ranks that others wait for, in one finding."""

from __future__ import annotations

from dataclasses import replace

from nccl_insight.facts.absent import Absent
from nccl_insight.model import Confidence, Hit, Severity


def with_others(hit: Hit, item: Absent) -> Hit:
    """The hit with what the other sources say, their evidence, and the confidence that all of them allow."""
    low = item.confidence is Confidence.LOW
    return replace(
        hit,
        explanation=" ".join(filter(None, (hit.explanation, item.sentences))),
        evidence=(*hit.evidence, *(r for c in (*item.support, *item.against) for r in c.evidence[:1])),
        confidence=item.confidence,
        severity=Severity.WARNING if low else hit.severity,
    )

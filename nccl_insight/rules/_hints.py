"""Candidates: causes outside of the log that an error often has. Never a verdict."""

from collections.abc import Iterator

from nccl_insight.base.model import Confidence, Hit, Severity
from nccl_insight.facts.mentions import mentions
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context


def hint(
    ctx: Context,
    beside: tuple[str, ...],
    named: str,
    title: str,
    next_step: str,
    explanation: str,
    expected: str,
    *,
    stated: bool = False,
) -> Iterator[Hit]:
    """A candidate beside errors of the given causes.

    Information of low confidence; a warning of medium confidence when NCCL's own advice is ``named``
    (topic ``advice``) or a setting (``stated``) speaks for it.
    """
    found = trouble(ctx.run, *beside)
    if found is None or not found.loud:
        return
    sure = stated or not mentions(ctx.run, "advice", named).is_empty()
    yield from ctx.report(
        title,
        next_step=next_step,
        explanation=explanation,
        expected=expected,
        severity=Severity.WARNING if sure else Severity.INFO,
        confidence=Confidence.MEDIUM if sure else Confidence.LOW,
        rows=found,
    )

"""The comparison of two runs as text, markdown and JSON."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from nccl_insight.base.model import Ref, Severity
from nccl_insight.base.natures import names
from nccl_insight.base.objects import json_text
from nccl_insight.base.units import listed, plural
from nccl_insight.engine.compare import Change, Comparison
from nccl_insight.report import fill
from nccl_insight.report import markdown as markdown_of
from nccl_insight.report.json_ import row
from nccl_insight.report.sanitize import one_line

_LIMIT = 400
_TITLE = 200
_BRIEF = 40
_STATUSES = ("new", "worse", "other", "better", "gone")


def text(comparison: Comparison) -> str:
    """For a terminal: findings that differ, then changes with the likeliest explanation first, then effects."""
    return _filled(partial(fill.text, "comparison.txt"), comparison)


def markdown(comparison: Comparison) -> str:
    """GitHub-flavoured markdown for a ticket."""
    return _filled(partial(markdown_of.fill, "comparison.md"), comparison)


def _filled(filled: Callable[..., str], comparison: Comparison) -> str:
    helpers = {f.__name__: f for f in (headline, counts, absent, ratio, places)}
    footer = [f"The same: {', '.join(comparison.same)}."] if comparison.same else []
    footer += [f"Not compared: {n.area} ({n.reason})." for n in comparison.not_compared]
    return filled(comparison=comparison, diff=helpers, footer="\n".join(footer)).rstrip() + "\n"


def to_json(comparison: Comparison) -> str:
    """The whole comparison, schema version 1; the same runs always give the same bytes."""
    return json_text(to_dict(comparison))


def to_dict(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        "schema_version": 1,
        "good": [one_line(path, _LIMIT) for _, path in comparison.good],
        "bad": [one_line(path, _LIMIT) for _, path in comparison.bad],
        "differs": comparison.differs,
        "step": one_line(comparison.step, _LIMIT) or None,
        "findings": [{**row(f), "title": one_line(f.title, _LIMIT)} for f in comparison.findings],
        "changes": [
            {
                **row(c, "area", "subject", "good", "bad", "ratio", "effect", "score", "explains"),
                "subject": one_line(c.subject, _LIMIT),
                "good": one_line(c.good, _LIMIT) or None,
                "bad": one_line(c.bad, _LIMIT) or None,
                "hosts": [one_line(h, _LIMIT) for h in c.hosts],
                "evidence_good": places(comparison.good, c.evidence_good),
                "evidence_bad": places(comparison.bad, c.evidence_bad),
            }
            for c in comparison.changes
        ],
        "same": list(comparison.same),
        "not_compared": [row(n) for n in comparison.not_compared],
    }


def headline(comparison: Comparison) -> str:
    """What changed most and in which direction, in words: a new fault, a speed, or the likeliest explanation."""
    if not comparison.differs:
        return "No difference in what both runs show"
    loud = [f for f in comparison.findings if (f.severity_bad or f.severity_good) is not Severity.INFO]
    # The way of the data outranks seconds of init: GPUDirect, RDMA or peer-to-peer lost.
    ways = [f for f in comparison.findings if f.name in names("path")]
    raised = next((f for f in (*loud, *ways) if f.status in ("new", "worse")), None)
    causes = [c for c in comparison.changes if not c.effect]
    if raised:
        word = raised.severity_bad.word if raised.severity_bad else "finding"
        said = f"{'New' if raised.status == 'new' else 'Worse:'} {word}: {one_line(raised.title, _TITLE)}"
        return said + _explained(causes, raised.name)
    if speed := _speed(comparison.changes):
        return speed + _explained(causes)
    settled = next((f for f in loud if f.status in ("gone", "better")), None)
    if settled is not None:
        return f"No longer there: {one_line(settled.title, _TITLE)}"
    return _brief(causes[0]) if causes else one_line(comparison.findings[0].title, _TITLE)


def _speed(changes: Iterable[Change]) -> str:
    """The measured value that changed most; empty where none did."""
    most = max((c for c in changes if c.effect and c.ratio), key=lambda c: abs(math.log(c.ratio or 1)), default=None)
    if most is None:
        return ""
    worse = ((most.ratio or 1) > 1) == (most.area == "timings")
    return f"{'Slower' if worse else 'Faster'}: {_change(most)}"


def _explained(likely: Iterable[Change], finding: str = "") -> str:
    told = (change for change in likely if not finding or finding in change.explains)
    return next((f" (likeliest explanation: {_brief(change)})" for change in told), "")


def counts(comparison: Comparison) -> str:
    """How much differs, and where the time of a step went: ``3 findings differ (2 new, 1 gone), 12 changes``."""
    parts = []
    if comparison.findings:
        found = {s: sum(f.status == s for f in comparison.findings) for s in _STATUSES}
        words = ", ".join(f"{n} {s}" for s, n in found.items() if n)
        verb = "differs" if len(comparison.findings) == 1 else "differ"
        parts.append(f"{plural(len(comparison.findings), 'finding')} {verb} ({words})")
    parts.append(plural(len(comparison.changes), "change"))
    return ", ".join(parts) + (f". {one_line(comparison.step, _LIMIT)}" if comparison.step else "")


def absent(change: Change) -> str:
    """What stands for a value that a run does not have."""
    return "(unset)" if change.area == "environment" else "(not in this run)"


def _change(change: Change) -> str:
    good, bad = (one_line(v, 60) or absent(change) for v in (change.good, change.bad))
    return f"{one_line(change.subject, 80)} {good} -> {bad}{ratio(change)}"


def _brief(change: Change) -> str:
    """The same for a headline: of long lists only what one run has and the other one lacks."""
    good, bad = ((v or "").split(",") for v in (change.good, change.bad))
    if max(len(change.good or ""), len(change.bad or "")) <= _BRIEF or min(len(good), len(bad)) < 2:
        return _change(change)
    gone, more = [v for v in good if v not in bad], [v for v in bad if v not in good]
    told = [
        f"{word} {listed((one_line(v.strip(), _BRIEF) for v in values), 3)}"
        for word, values in (("without", gone), ("now with", more))
        if values
    ]
    return f"{one_line(change.subject, 80)} {' and '.join(told) or 'in another order'}"


def ratio(change: Change) -> str:
    """How the bad run's value stands to the good one's; empty where they are no numbers."""
    return "" if change.ratio is None else f" ({change.ratio:.2f}x)"


def places(inputs: Sequence[tuple[int, str]], refs: Sequence[Ref]) -> list[str]:
    """Path and line of what shows a change."""
    paths = dict(inputs)
    return [f"{one_line(paths.get(r.input_id, ''), _LIMIT)}:{r.line}" for r in refs]

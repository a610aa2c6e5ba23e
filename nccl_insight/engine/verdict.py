"""The verdict: its status, which has to be earned, and its headline, which is the cause in words."""

from collections.abc import Sequence

from nccl_insight.base.data import replace
from nccl_insight.base.model import Analysis, Confidence, Coverage, Finding, InputInfo, Severity
from nccl_insight.base.units import capital, plural
from nccl_insight.engine.journey import ENDED_BY_USER, NO_PROBLEM, doubts
from nccl_insight.engine.summary import has_matter
from nccl_insight.tables.run import Run

_MOST = 110
_LOUD = (Severity.ERROR, Severity.WARNING)


def status_of(
    run: Run, findings: Sequence[Finding], coverage: Coverage, min_coverage: float
) -> tuple[str, tuple[str, ...]]:
    """``findings``, ``ok``, ``inconclusive`` or ``not_judged``, and why it is not ok where nothing was found.

    ``ok`` needs proof: every rank of every communicator that started finished its init, nothing at warning or above,
    and the output does not end in the middle (:mod:`nccl_insight.facts.progress.journey`).
    """
    if not has_matter(run):
        return "not_judged", ("no line of NCCL and no trace in the inputs",)
    if coverage.nccl_lines and coverage.understood < min_coverage:
        share = f"{coverage.understood * 100:.1f}%"
        return "not_judged", (f"only {share} of the NCCL lines are known, less than the {min_coverage:.0%} asked for",)
    if any(f.severity in _LOUD for f in findings):
        return "findings", ()
    found = doubts(run)
    return ("inconclusive", found) if found else ("ok", ())


def _with_since(finding: Finding) -> str:
    """The title with since when, and how sure where it is not certain; what it says already is not said again."""
    parts: list[str] = []
    since = f"about {finding.begun_time}" if finding.begun_time else finding.first_time
    if since and since not in finding.title and len(finding.title) + len(since) <= _MOST:
        parts.append(f"since {since}")
    if finding.severity is Severity.ERROR and finding.confidence is not Confidence.HIGH:
        parts.append("probable" if finding.confidence is Confidence.MEDIUM else "not certain")
    title = finding.title
    if not parts:
        return title
    more = ", ".join(parts)
    return f"{title}; {more}" if title.endswith(")") else f"{title} ({more})"


def headline(
    status: str,
    findings: Sequence[Finding],
    reasons: Sequence[str],
    inputs: Sequence[InputInfo],
    order_known: bool = True,
) -> str:
    """The cause in words; where there is none, how far the job got and what is missing to say more."""
    loud = [f for f in findings if f.severity in _LOUD]
    if status == "findings" and loud:
        said = _with_since(loud[0])
        return said if order_known else f"First error in the log: {said}"
    if status == "ok":
        return "No problem found"
    if status == "inconclusive" and reasons and reasons[0].startswith((ENDED_BY_USER, NO_PROBLEM)):
        return capital(reasons[0])
    if status == "inconclusive":
        return f"No cause found: {reasons[0]}" if reasons else "No cause found"
    if not inputs:
        return "Nothing to judge"
    if len(inputs) == 1:
        return f"Nothing to judge: {inputs[0].taken_for or 'no line of NCCL'}"
    return f"Nothing to judge in {plural(len(inputs), 'input')}: {reasons[0] if reasons else 'no line of NCCL'}"


def as_running(analysis: Analysis, quiet_s: float) -> Analysis:
    """The analysis of a log that still grows: no verdict is due, how far it got is the news."""
    if analysis.status != "inconclusive" or analysis.headline.lower().startswith(ENDED_BY_USER):
        return analysis
    seen = analysis.progress.text if analysis.progress is not None else ""
    said = f"{seen or 'no init of a communicator yet'}; last line {max(quiet_s, 0):,.0f} s ago"
    return replace(analysis, status="running", headline=said, reasons=())

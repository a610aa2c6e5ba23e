"""Steps came in a rhythm, and then none."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.clock import clock_text
from nccl_insight.facts.ends import ends
from nccl_insight.facts.last_words import unwell
from nccl_insight.facts.progress import stalled
from nccl_insight.facts.thresholds import symptom
from nccl_insight.model import CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules.context import Context
from nccl_insight.units import format_span_s


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """At most one finding; a note where a failure is known, whose time it tells."""
    run = ctx.run
    found = stalled(run, symptom(run) == "hang")
    if found is None:
        return
    one, at = found.series, found.series.rows["time_s"][-1]
    last = one.at(-1)
    when = f" at {clock_text(at)}" if at is not None else ""
    span = format_span_s(found.quiet_s) if found.quiet_s is not None else ""
    quiet = f", then nothing for {span}" if span else ""
    known = unwell(run).height > 0 or bool(ends(run))
    yield Hit(
        title=f"Steps stopped: the last is {last}{when}{quiet}"
        + (
            f", while it was at {'an' if found.pause[:1] in 'aeiou' else 'a'} {found.pause}"
            if found.pause
            else ""
        ),
        next_step="py-spy dump --native --pid <pid>   # of every rank, while it stands: the one that is outside the "
        "collective is why; no longer there: the lines of all hosts from that time on (dmesg -T, journalctl), and "
        'the next run with eval "$(nccl-insight record-env --symptom hang)"',
        explanation="A line came every "
        f"{format_span_s(found.usual_s)} until then. The job stood still from that moment on, whatever was reported "
        "later: ranks wait in a collective, or one of them waits for data, storage or its CPU.",
        observed=f"{last}, and no further one" + (f" in {span}" if span else ""),
        expected=f"a line every {format_span_s(found.usual_s)}",
        severity=Severity.INFO if known else None,
        confidence=Confidence.MEDIUM if span else Confidence.LOW,
        ranks=() if one.rank is None else (one.rank,),
        evidence=(one.ref(-1), one.ref(-2)),
        first_s=at,
        absence="no later count in this input",
    )

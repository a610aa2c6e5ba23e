"""A self-diagnosis of NCCL found something wrong.

What it finds
-------------
`NCCL DIAG` lines (2.31 and later) that are not OK: peer-to-peer edges that fail, ranks whose network
bandwidth is far from the median, checks that returned an error.

Why it matters
--------------
NCCL checks links and settings itself on request; what it finds explains slow or failing jobs.

How it decides
--------------
NCCL marks problems and notices alike as INFO, so the text decides: failed edges, incomplete sums,
outliers and error results are warnings, lines marked FAIL or ERROR are errors, summaries of bandwidth and
complete sums are left out, and other lines are information.

What to do
----------
Do what the line says; it names ranks, devices or hosts.

False positives
---------------
Peer-to-peer edges that the machine does not offer by design.

References
----------
NCCL troubleshooting guide, diagnostics (2.31).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.errors import causes
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import Trouble, report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
NEEDS = ("errors", "diagnostics")
_STATED = r"^\s*\[(?:FAIL|FAILED|ERROR|WARN)\]"
_PROBLEM = r"only [0-9]+/|off median|returned [1-9]|failed|srcRank="
_NOTICE = r"min/median/max|^\s*\[OK\]|^\s*===|completed in"


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines of the worst kind."""
    text = pl.col("text").fill_null("")
    lines = causes(run).filter((pl.col("level") == "DIAG") | (pl.col("cause") == "nccl-diag-failed"))
    lines = lines.filter(~text.str.contains(_NOTICE))
    passed = text.str.extract(r"([0-9]+)/[0-9]+ ") == text.str.extract(r"[0-9]+/([0-9]+) ")
    lines = lines.filter(~passed.fill_null(False))
    problem = text.str.contains(_PROBLEM) | (text.str.extract(r"([0-9]+/[0-9]+) ").is_not_null())
    for severity, part in (
        (Severity.ERROR, lines.filter(text.str.contains(_STATED))),
        (Severity.WARNING, lines.filter(~text.str.contains(_STATED) & problem)),
        (Severity.INFO, lines.filter(~text.str.contains(_STATED) & ~problem)),
    ):
        if part.height:
            yield from report(
                run,
                "nccl-diag-failed",
                "NCCL's own diagnosis reports a problem"
                if severity is not Severity.INFO
                else "NCCL's own diagnosis has a remark",
                "NCCL_RUN_DIAGNOSTICS=1 <the same job>   # to repeat it; the first line names the check",
                explanation="The text of the first line is NCCL's own judgement.",
                expected="NCCL DIAG [OK]",
                severity=severity,
                quiet=severity,
                rows=Trouble(part),
            )
            return

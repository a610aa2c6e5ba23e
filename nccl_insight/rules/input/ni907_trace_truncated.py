"""A trace ends in the middle or is damaged; what could be read was used.

What it finds
-------------
Files that were cut while written or copied, damaged compression, events that are not valid JSON.

Why it matters
--------------
Sums and counts are then lower bounds, and the last step may be missing on one rank only.

How it decides
--------------
The readers note where reading had to stop and how much was read before.

What to do
----------
Copy or export the file again; let the process finish writing (``torch.profiler`` writes at the end of each cycle).

False positives
---------------
None: it is a statement about the input.

References
----------
Trace Event Format: a list without its end is still accepted by viewers.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._trace_notes import noted
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.RETRY
NEEDS = ("inputs",)

_NAMED = 8


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs."""
    texts, evidence = noted(run, "trace-truncated")
    if texts:
        names = [text.split(": ", 1)[0] for text in texts[1:]]
        beyond = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        more = f" (also {', '.join(names[:_NAMED])}{beyond})" if names else ""
        yield Hit(
            title=f"An input ends early or is damaged: {texts[0]}{more}",
            explanation="; ".join(texts[1:6]) or "What could be read before the damage was used.",
            observed=plural(len(texts), "damaged input", "damaged inputs"),
            next_step="copy or export the file again",
            evidence=evidence,
            absence=None if evidence else texts[0],
        )

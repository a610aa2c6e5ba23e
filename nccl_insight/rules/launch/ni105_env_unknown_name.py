"""A variable is set that no NCCL version reads.

What it finds
-------------
Names such as NCCL_SOCKET_IFNAMES that nothing reads, with the nearest valid name. In a log it is reported as a
note, because the job runs as it would without the name; ``lint`` warns of it, because the line to correct is at hand.

Why it matters
--------------
NCCL ignores unknown names silently. The setting seems to be in force and is not.

How it decides
--------------
Names are compared with the list of variables of NCCL, RCCL, their known plugins and PyTorch that ships with
this tool. NCCL logs only names that it reads, so an NCCL log can show this only where NCCL looked the name up on
behalf of somebody (its parameter registry) or where settings come from another source than NCCL's own lines.

What to do
----------
Correct the name. ``nccl-insight lint SCRIPT`` and ``lint --env`` find such names before the job starts.

False positives
---------------
A plugin or framework of your own may read a name that is not on the list.

References
----------
NCCL user guide, environment variables; parameter definitions in the NCCL sources.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.settings import hosts_of, refs
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.settings.check import check_name
from nccl_insight.tables.run import Run

CLASS = "I"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("env", "env_rejected")
SPEAKS = True
SOURCES = ("NCCL user guide: environment variables",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding a name."""
    for (name,), rows in _names(run).group_by(["name"], maintain_order=True):
        issue = check_name(str(name))
        if issue is not None:
            yield Hit(
                title=issue.title,
                next_step=issue.next_step,
                explanation=issue.explanation,
                observed=issue.observed,
                expected=issue.expected,
                hosts=hosts_of(rows),
                evidence=refs(rows),
            )


def _names(run: Run) -> pl.DataFrame:
    """Names that NCCL itself did not show to know: other sources of ``env``, look-ups that failed."""
    columns = ["name", "host", "input_id", "line"]
    env = run.table("env").filter(pl.col("origin").cast(pl.String).is_in(["environment", "file"]))
    env = env.filter(pl.col("message").is_null())
    unknown = run.table("env_rejected").filter(pl.col("message") == "env_key_unknown")
    both = [env.select(columns), unknown.select(columns)]
    return pl.concat(both, how="vertical_relaxed").drop_nulls("name")

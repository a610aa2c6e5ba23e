"""Lines are missing from the log.

What it finds
-------------
Notes of log collectors and tools that say that they left lines out, and inputs that end in the middle of
a line. Inputs that were compressed without a checksum, once for all of them: nobody can tell whether their text is
whole.

Why it matters
--------------
What is not in such a log may still have happened, so nothing is concluded from absence.

How it decides
--------------
The collector's own note (Ray's "repeated N times", "...", cut lines) as ingest found it. For the checksum: the flag
in the head of a zstd frame, the kind of check in the head of an xz stream. The text itself is read and judged as ever.

What to do
----------
Collect again without loss: RAY_DEDUP_LOGS=0, NCCL_DEBUG_FILE=/path/nccl.%h.%p on every rank. Compress with a checksum:
`zstd` and `xz` write one unless told otherwise, python-zstandard does with `write_checksum=True`.

False positives
---------------
A stream without a checksum is most often whole: that finding says what cannot be known, and changes no verdict.

References
----------
Ray documentation, log deduplication; NCCL user guide, NCCL_DEBUG_FILE. RFC 8878, 3.1.1.1.1 (Content_Checksum_flag); The
.xz File Format, 2.1.1.2 (stream flags).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._log_notes import log_notes
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "L"
SEVERITY = Severity.INFO
ACTION = Action.NONE
NEEDS = ("inputs",)
_NAMED = 3


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all inputs that lack lines, one for all without a checksum."""
    yield from log_notes(
        run,
        "log-truncated",
        "Lines are missing from the log",
        "NCCL_DEBUG_FILE=/tmp/nccl.%h.%p <the same job>   # one complete file per process; under Ray also "
        "RAY_DEDUP_LOGS=0",
        "Conclusions that need a complete log were not drawn.",
        "every line that NCCL printed",
    )
    yield from _unchecked(run)


def _unchecked(run: Run) -> Iterator[Hit]:
    notes = run.table("notes").filter(pl.col("kind") == "no-checksum")
    if notes.is_empty():
        return
    paths = run.table("inputs").join(notes.select("input_id"), on="input_id", how="semi")["path"]
    names = [str(path).replace("\\", "/").rsplit("/", 1)[-1] for path in paths.head(_NAMED)]
    more = f" and {paths.len() - len(names):,} more" if paths.len() > len(names) else ""
    listed = ", ".join(names) + more
    one = paths.len() == 1
    yield Hit(
        title=f"Damage inside {names[0] if one else plural(paths.len(), 'compressed input')} would not show: "
        f"{'it has' if one else 'they have'} no checksum",
        next_step="zstd run.log   # writes a checksum unless --no-check is given; python-zstandard: "
        "ZstdCompressor(write_checksum=True)",
        explanation=f"{'The stream ends' if one else 'The streams end'} where "
        f"{'its' if one else 'their'} blocks say, but nothing tells whether the text is what was written.",
        observed=f"no checksum: {listed}",
        absence=f"the head of the compressed stream says that no checksum follows: {listed}",
    )

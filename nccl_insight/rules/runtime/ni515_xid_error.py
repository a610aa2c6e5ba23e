"""The NVIDIA driver reported an Xid.

What it finds
-------------
Kernel messages of the NVIDIA driver (Xid) or of an NVSwitch (SXid) mixed into the log.

Why it matters
--------------
Many Xids mean that a GPU or NVLink is broken or was reset, which is why the job failed.

How it decides
--------------
The number decides: hardware Xids (48, 63, 64, 74, 79, 92, 94, 95, 119, 120 and others) are errors; those
that programs cause (13, 31, 43, 45) are warnings.

What to do
----------
Drain the host and run dcgmi diag for hardware Xids; for 13 and 31 run the program under compute-sanitizer
first.

False positives
---------------
Old messages of an earlier job in the same kernel log.

References
----------
NVIDIA GPU deployment, Xid errors; NCCL troubleshooting guide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._diag import events
from nccl_insight.rules._errors import Trouble, report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.ISOLATE
NEEDS = ("errors", "diagnostics")
MEANINGS = {
    13: "graphics engine exception, usually an illegal access by a kernel",
    31: "GPU memory page fault, usually an illegal access by a kernel",
    43: "GPU stopped processing; the process was at fault or was killed",
    45: "preemptive cleanup after an earlier error or a killed process",
    48: "double-bit ECC error",
    61: "internal microcontroller error",
    62: "internal microcontroller halt",
    63: "memory row remapping or page retirement recorded",
    64: "memory row remapping or page retirement failed",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch time-out",
    119: "GSP firmware time-out",
    120: "GSP firmware error",
    140: "unrecovered ECC error",
    149: "NVLink error",
}
_BY_PROGRAM = (13, 31, 43, 45, 69)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for each Xid number, at most five."""
    yield from _told_by_nccl(run)
    found = trouble(run, "xid-error")
    if found is None:
        return
    found = Trouble(found.rows.filter(pl.col("level").ne_missing("DIAG")))
    if not found.rows.height:
        return
    number = pl.col("text").str.extract(r"Xid \([^)]*\): ([0-9]+)").cast(pl.Int32, strict=False)
    rows = found.rows.with_columns(number.alias("xid"))
    for key, part in list(rows.group_by("xid", maintain_order=True))[:5]:
        xid = key[0] if isinstance(key[0], int) else None
        meaning = MEANINGS.get(xid, "see NVIDIA's list") if xid is not None else "number not readable"
        by_program = xid in _BY_PROGRAM
        yield from report(
            run,
            "xid-error",
            f"The driver reported Xid {xid if xid is not None else '?'}: {meaning}",
            "compute-sanitizer <the program>; dcgmi diag -r 2"
            if by_program
            else "dcgmi diag -r 3; nvidia-smi -q -d ECC,ROW_REMAPPER   # and drain the host",
            explanation="Programs can cause this Xid by themselves; hardware is the second suspect."
            if by_program
            else "It points at the GPU, its memory or its links. Jobs on this host will fail until it is serviced.",
            expected="no Xid during the job",
            severity=Severity.WARNING if by_program else None,
            action=Action.TRIAGE if by_program else None,
            quiet=None,
            rows=Trouble(part.drop("xid")),
        )


def _told_by_nccl(run: Run) -> Iterator[Hit]:
    """Events that NCCL's diagnostics found in the kernel logs of the hosts, since boot and not only in this job."""
    for number, switch, hit in events(run):
        by_program = not switch and number in _BY_PROGRAM
        meaning = "" if switch else MEANINGS.get(number, "")
        yield replace(
            hit,
            title=f"{hit.title}: {meaning}" if meaning else hit.title,
            severity=hit.severity or Severity.WARNING,
            action=Action.TRIAGE if by_program else None,
        )

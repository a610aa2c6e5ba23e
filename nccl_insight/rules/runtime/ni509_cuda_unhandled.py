"""A CUDA call of NCCL failed.

What it finds
-------------
CUDA failures inside NCCL that no more specific diagnosis covers: launch failures, illegal memory
accesses, unknown errors and the like.

Why it matters
--------------
CUDA errors are often sticky and late: the kernel that caused one ran earlier, in NCCL or in the program.

How it decides
--------------
The message decides. Failures that NCCL prints at level INFO were expected and are left out; known kinds
have their own names.

What to do
----------
Find the first CUDA error of the process; run with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer; look for
an Xid in dmesg.

False positives
---------------
An error that an earlier kernel of the program caused: then NCCL is only the messenger.

References
----------
CUDA runtime API, error codes; NCCL user guide, error handling.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("errors",)
CAUSED_BY = (
    "xid-error", "fabric-manager-issue", "mnnvl-imex-missing", "cuda-driver-too-old", "cuda-init-error",
    "cuda-oom-init", "kernel-sharedmem-limit", "cumem-import-failed",
)  # fmt: skip
_KNOWN = (
    (
        r"(?:failure|error) 700\b|illegal memory access",
        "an illegal memory access; the kernel that did it may be the program's own",
    ),
    (
        r"(?:failure|error) 719\b|launch failure",
        "a kernel that failed while it ran; the message comes with the next CUDA call",
    ),
    (
        r"(?:failure|error) 800\b|not permitted",
        "an operation that this container or user may not do (IMEX channel, capabilities)",
    ),
    (
        r"(?:failure|error) 999\b|unknown error",
        "an error that the driver cannot name; look for an Xid, and on WSL at its driver",
    ),
    (
        r"(?:failure|error) 98\b|invalid device function|no kernel image",
        "kernels that were not built for this GPU",
    ),
    (r"(?:failure|error) 46\b|busy or unavailable", "a GPU in exclusive mode that another process holds"),
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines, with what is known of that CUDA error."""
    found = trouble(run, "cuda-unhandled")
    if found is None:
        return
    reason = found.extract(r"(?:failure|error):? ?(?:[0-9]+ )?'([^']+)'") or "CUDA error"
    meaning = next(
        (text for pattern, text in _KNOWN if found.matching(pattern)),
        "an error of the CUDA driver or of an earlier kernel",
    )
    yield from report(
        run,
        "cuda-unhandled",
        f"A CUDA call inside NCCL failed: {reason}",
        "CUDA_LAUNCH_BLOCKING=1 compute-sanitizer <the program>; dmesg -T | grep -i xid   # on the hosts named",
        explanation=f"The message stands for {meaning}. CUDA reports errors late, so look for the first one of the "
        f"same process.",
        expected="CUDA success",
        quiet=Severity.WARNING,
    )

"""InfiniBand packets were not acknowledged in spite of all retries.

What it finds
-------------
Completions with transport retries exceeded (status 12, vendor error 129).

Why it matters
--------------
The connection is lost; the communicator aborts. It points at the path between two NICs, or at a peer that
stopped.

How it decides
--------------
The completion status decides. The peers named in the messages are listed; a port or device event, or a
failure at the peer, is taken as the cause when the log has one.

What to do
----------
Check link, cable, switch and error counters at both ends; with one host named by all messages start
there. Raising NCCL_IB_TIMEOUT helps only against short interruptions.

False positives
---------------
A peer that crashed or was killed for another reason; look for its own first error.

References
----------
NVIDIA/nccl issue 1405; NCCL user guide, NCCL_IB_TIMEOUT and NCCL_IB_RETRY_CNT.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.identity import identities
from nccl_insight.facts.links import devices_of
from nccl_insight.facts.settings import named
from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import Trouble, report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.TRIAGE
NEEDS = ("errors",)
SPEAKS = True
CAUSED_BY = (
    "ib-port-error", "link-flap", "ib-gid-changed", "ib-device-fatal", "cuda-hardware-error", "resource-exhausted",
    "memlock-limit", "ib-reg-mr-failed", "watchdog-stuck", "ib-queue-error", "xid-error", "cuda-oom-init",
    "cuda-unhandled", "shm-too-small", "ib-local-access-violation", "ib-completion-local-prot",
    "collective-mismatch", "invalid-argument",
)  # fmt: skip


def _one_peer(run: Run, found: Trouble) -> tuple[str, ...] | None:
    """The host that several hosts name, and no other, which has no such error itself: its end is the suspect."""
    known = identities(run)
    peers = known.hosts_at(found.rows)
    alone = next(iter(peers)) if len(peers) == 1 else None
    if alone is None or alone not in known.ranks_of_host or alone in found.hosts or len(found.hosts) < 2:
        return None
    return (alone,)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all completions, with the peers named."""
    found = trouble(run, "ib-completion-retry-exceeded")
    if found is None:
        return
    peers = sorted(found.rows["peer"].drop_nulls().str.split("<").list.first().unique())
    one = _one_peer(run, found)
    towards = f" by {named(peers)}" if peers else ""
    yield from report(
        run,
        "ib-completion-retry-exceeded",
        f"InfiniBand retries exceeded: packets were not acknowledged{towards}",
        "rdma statistic show link <device>/1; mlxlink -d <device> -m -c   # on both ends; fix: read the peer's "
        "own log first: "
        "where its process or host was gone before, that is the cause; else repair the link, or take the host "
        "out that is "
        "named again and again",
        explanation=(
            "Candidates in this order: the peer process or host is gone (its own log tells); a bad link, cable or "
            "switch port on the path; routing, partition or, on RoCE, flow control and GID set-up. One host named "
            "again and again is the suspect."
        ),
        expected="status 0",
        hosts=one,
        ranks=() if one else None,
        devices=devices_of(run, found.rows),
    )

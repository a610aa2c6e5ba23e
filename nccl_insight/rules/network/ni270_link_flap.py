"""A port of a NIC went down and came back.

What it finds
-------------
A port error event followed by port active on the same device of the same host.

Why it matters
--------------
Within the retry time of the queue pairs (about half a minute by default) a flap costs only that time. Many flaps
are a sign of a bad cable, transceiver or switch port.

How it decides
--------------
Events are paired by host and device. One or two flaps of a job that went on are noted; three or more, or errors on
the same device within a minute of a flap, are a warning.

What to do
----------
Look at the link's error counters when the job is over.

False positives
---------------
Switch maintenance.

References
----------
ibv_get_async_event(3), IBV_EVENT_PORT_ERR and PORT_ACTIVE; NCCL 2.23 release notes; NCCL_IB_TIMEOUT.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.links import failed_after, flaps
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Ref, Severity
from nccl_insight.tables.run import Run
from nccl_insight.units import plural

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.MONITOR
NEEDS = ("errors",)
CAUSED_BY = ("ib-device-fatal",)
_MANY = 3


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for each device that came back."""
    for flap in flaps(run)[:5]:
        if not flap.back:
            continue
        hurt = failed_after(run, flap)
        span = f" for {flap.down_s:,.0f} s" if flap.down_s is not None else ""
        where = f" on {flap.host}" if flap.host else ""
        yield Hit(
            title=f"{flap.device or 'A port'}{where} went down{span} and came back ({plural(flap.count, 'time')})"
            + ("; errors on it followed" if hurt else ", and the job went on" if flap.went_on else ""),
            next_step=f"mlxlink -d {flap.device or '<device>'} -m -c   # link errors and transceiver; the switch "
            "port's log",
            explanation="Queue pairs survive as long as their retries last (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT: about "
            "half a minute by default).",
            observed=f"{plural(flap.count, 'flap')}{span}",
            severity=Severity.WARNING if hurt or flap.count >= _MANY else Severity.INFO,
            confidence=Confidence.HIGH if flap.host else Confidence.MEDIUM,
            ranks=flap.ranks,
            hosts=(flap.host,) if flap.host else (),
            evidence=tuple(Ref(i, n) for i, n in flap.lines[:4]),
            first_s=flap.first_s,
            last_s=flap.last_s,
            devices=(flap.key,) if flap.device else (),
        )

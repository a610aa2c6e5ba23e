"""The GID table of a NIC changed while the job ran.

What it finds
-------------
NCCL's message that the GID table of a device changed.

Why it matters
--------------
On RoCE the GID is the address. Queue pairs keep the address they were made with, so packets to it are lost once
another one stands there.

How it decides
--------------
The message decides. Alone it is a warning; with exhausted retries on the same device afterwards it is their cause.
It is noted only where the job went on to its end: every rank closed its communicators and nothing else failed.

What to do
----------
Find out what changed the address: DHCP, NetworkManager, a bond or a VLAN that was reconfigured.

False positives
---------------
Addresses that were added and not replaced.

References
----------
NVIDIA/nccl net_ib (ncclIbAsyncThreadMain); ibv_get_async_event(3), IBV_EVENT_GID_CHANGE.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.links import devices_of
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._closed import in_order
from nccl_insight.rules._errors import report, trouble
from nccl_insight.rules._outside import loud_besides
from nccl_insight.tables.run import Run

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
CONFIDENCE = Confidence.MEDIUM
NEEDS = ("errors",)
CAUSED_BY = ("ib-port-error",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    found = trouble(run, "ib-gid-changed")
    if found is None:
        return
    devices = devices_of(run, found.rows)
    names = ", ".join(sorted({d.split("/", 1)[1] for d in devices})[:4])
    harmless = in_order(run) and not loud_besides(run, ("ib-gid-changed",))
    yield from report(
        run,
        "ib-gid-changed",
        f"The GID table of {names or 'a NIC'} changed while the job ran{', which went on to its end' * harmless}",
        "show_gids; journalctl -u NetworkManager -u systemd-networkd --since -2h   # on the host named: which "
        "address "
        "came or went",
        explanation="Connections keep the address they were made with. If the address behind the GID changed, packets "
        "to it are lost and the peers' retries run out.",
        rows=found,
        devices=devices,
        severity=Severity.INFO if harmless else None,
    )

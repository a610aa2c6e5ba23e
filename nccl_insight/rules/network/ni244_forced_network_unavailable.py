"""The network that NCCL_NET asks for is not there.

What it finds
-------------
NCCL stopping because no network of the requested name could be initialized.

Why it matters
--------------
NCCL does not fall back when a network is asked for by name: init fails.

How it decides
--------------
The message decides; the value of NCCL_NET is added where NCCL printed it.

What to do
----------
Correct the name (IB, Socket, or the plugin's own name), make the device or plugin available in the
container, or unset NCCL_NET.

False positives
---------------
None known.

References
----------
NCCL user guide, NCCL_NET; NVIDIA/nccl src/plugin/net.cc.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.settings import value_of
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
CAUSED_BY = (
    "ib-open-device-failed",
    "ib-libibverbs-missing",
    "ofi-plugin-init-failed",
    "efa-provider-missing",
    "net-plugin-load-failed",
)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines, with the setting where NCCL printed it."""
    asked = value_of(run, "NCCL_NET")
    plugins = run.table("plugins")
    others = (plugins["kind"].cast(pl.String) == "net") & (plugins["outcome"].cast(pl.String) == "loaded")
    doubtful = asked is None and bool(others.any())
    yield from report(
        run,
        "forced-network-unavailable",
        f"The network that was asked for is not available{f' (NCCL_NET={asked})' if asked else ''}",
        'echo "$NCCL_NET $NCCL_NET_PLUGIN"; ibv_devinfo -l; ldconfig -p | grep nccl-net   # inside the container',
        explanation="NCCL_NET (or a plugin setting) leaves no choice, and that network did not start: no device of "
        "that kind is visible, its library is missing, or the name is misspelt."
        + (" Other processes of this log did start a network." if doubtful else ""),
        severity=Severity.WARNING if doubtful else None,
        confidence=Confidence.MEDIUM if doubtful else None,
    )

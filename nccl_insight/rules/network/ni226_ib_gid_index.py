"""The RoCE GID index may be wrong.

What it finds
-------------
Failing connection set-up on RoCE, for which an unsuitable GID is the most frequent reason.

Why it matters
--------------
The GID index selects address and RoCE version. With the wrong one there is no route to the peer.

How it decides
--------------
A hint, never a verdict: it accompanies ib-qp-unreachable and ib-qp-invalid-argument, and, unless all devices are
InfiniBand, lost packets and connections that time out.
NCCL's own hint (2.30), or NCCL_IB_GID_INDEX being set together with such an error, makes it a warning.

What to do
----------
From NCCL 2.21 on unset NCCL_IB_GID_INDEX. Before, choose the index of the RoCEv2 IPv4 entry in
`show_gids` that is the same on all hosts.

False positives
---------------
InfiniBand link layer, where the index hardly ever matters.

References
----------
NCCL user guide, NCCL_IB_GID_INDEX; NVIDIA/nccl-tests issue 185; NCCL troubleshooting guide, networking.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from nccl_insight.facts.settings import value_of
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._errors import trouble
from nccl_insight.rules._hints import hint
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
CONFIDENCE = Confidence.LOW
_REFUSED = ("ib-qp-unreachable", "ib-qp-invalid-argument")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """A candidate beside refused and unroutable connections, and off InfiniBand beside lost packets."""
    index = value_of(run, "NCCL_IB_GID_INDEX")
    layers = run.table("net_devices")["link_layer"].cast(pl.String)
    infiniband = bool((layers == "IB").any()) and not bool((layers == "RoCE").any())
    lost = () if infiniband and index is None else ("ib-completion-retry-exceeded", "ib-qp-timeout")
    yield from hint(
        run,
        (*_REFUSED, *lost),
        "gid-index",
        "Possible cause: the RoCE GID index is wrong" + (f" (NCCL_IB_GID_INDEX={index})" if index else ""),
        "show_gids   # on both hosts: same index, type RoCE v2, routable address; NCCL 2.21 or later: unset "
        "NCCL_IB_GID_INDEX",
        "The GID that was chosen has no route to the peer's, or does not exist at that index. The GID table is not "
        "in "
        "the log, so this is a possible cause, not confirmed by the log.",
        "a RoCEv2 GID with a route between the hosts, at both ends",
        stated=index is not None and index != "-1" and trouble(run, *_REFUSED) is not None,
    )

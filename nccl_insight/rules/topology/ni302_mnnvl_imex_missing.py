"""Multi-node NVLink is there and its IMEX channel is not usable.

What it finds
-------------
NCCL finding a fabric clique whose memory handles cannot be exchanged, and CUDA 800 (operation not
permitted) on fabric handles.

Why it matters
--------------
Ranks on MNNVL systems (GB200 NVL72 and the like) cannot start until it works or MNNVL is switched off.

How it decides
--------------
NCCL's message about the clique decides; a CUDA failure 800 beside it is its consequence.

What to do
----------
Check `nvidia-imex-ctl -N`; give the container an IMEX channel (/dev/nvidia-caps-imex-channels/channel0,
in Kubernetes a ComputeDomain); or set NCCL_MNNVL_ENABLE=0 to do without.

False positives
---------------
None known.

References
----------
NVIDIA/nccl issue 1925 and src/mnnvl.cc; NVIDIA IMEX guide.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report, trouble
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """NCCL's statement about the clique."""
    found = trouble(run, "mnnvl-imex-missing")
    size = found.value("clique_size") if found else None
    yield from report(
        run,
        "mnnvl-imex-missing",
        f"MNNVL is available{f' (clique of {size})' if size else ''} but its IMEX channel does not work",
        "nvidia-imex-ctl -N; ls -l /dev/nvidia-caps-imex-channels   # in the container of each host; or "
        "NCCL_MNNVL_ENABLE=0",
        explanation="Sharing memory over multi-node NVLink needs the IMEX daemon in state READY on all hosts and a "
        "channel device inside the container.",
        expected="IMEX domain UP and channel0 in the container",
        quiet=Severity.WARNING,
    )

"""libfabric offers no EFA provider.

What it finds
-------------
An OFI plugin whose provider search came back empty.

Why it matters
--------------
Without a provider NCCL falls back to TCP sockets, or stops when the plugin was required.

How it decides
--------------
The message of libfabric or of the plugin decides.

What to do
----------
Install the EFA driver on the host and libfabric with the efa provider in the image, and pass
/dev/infiniband/uverbs* to the container.

False positives
---------------
Instances without EFA that use an image made for EFA.

References
----------
AWS EFA user guide; aws/aws-ofi-nccl doc.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.WARNING
ACTION = Action.CONFIG
NEEDS = ("errors",)


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "efa-provider-missing",
        "libfabric finds no EFA provider",
        "fi_info -p efa; ls /dev/infiniband; lspci | grep -i efa   # inside the container",
        explanation="The plugin is there but the list of usable providers is empty: no EFA device in this "
        "container or instance, or a libfabric built without it.",
        expected="fi_info lists provider efa",
        quiet=Severity.WARNING,
    )

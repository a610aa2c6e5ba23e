"""The OFI network plugin (EFA, Slingshot) failed to initialise.

What it finds
-------------
Messages of aws-ofi-nccl about endpoints, completion queues, address vectors or protocols that could not
be set up.

Why it matters
--------------
NCCL silently goes on without the plugin, on TCP sockets, or stops when NCCL_NET asks for it.

How it decides
--------------
The plugin's own messages decide.

What to do
----------
Run fi_info in the container; check that all EFA devices are passed to it, that the memlock limit is
unlimited, and that libfabric, driver and plugin belong together.

False positives
---------------
Hosts without EFA that carry the plugin in their image: it then fails and sockets are right.

References
----------
aws/aws-ofi-nccl, doc/efa-env-var.md and issue 715.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Hit, Severity
from nccl_insight.rules._errors import report
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.ERROR
ACTION = Action.CONFIG
NEEDS = ("errors",)
CAUSED_BY = ("efa-provider-missing", "memlock-limit")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding for all lines."""
    yield from report(
        run,
        "ofi-plugin-init-failed",
        "The OFI network plugin could not initialise",
        "fi_info -p efa -t FI_EP_RDM; ls /dev/infiniband; ulimit -l   # inside the container",
        explanation='The first message names the libfabric call that failed. "Cannot allocate memory" on a '
        'queue or endpoint means locked memory or device limits, "Invalid argument" a libfabric '
        "that does not fit the driver.",
        expected='the plugin starts and NCCL says "Using network Libfabric" or "AWS Libfabric"',
    )

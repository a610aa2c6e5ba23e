"""The AWS security group may block EFA between the hosts.

What it finds
-------------
EFA requests that fail with unreachable or unknown peers.

Why it matters
--------------
EFA needs a security group that allows all traffic to and from itself, in both directions; otherwise
requests fail although TCP works.

How it decides
--------------
A hint, never a verdict: it accompanies ofi-request-error of the EFA provider.

What to do
----------
Allow all traffic from the group to itself, inbound and outbound, and run again.

False positives
---------------
Peers that stopped; they look the same.

References
----------
AWS EFA user guide (security groups); aws/aws-ofi-nccl documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._hints import hint
from nccl_insight.tables.run import Run

CLASS = "F"
SEVERITY = Severity.INFO
ACTION = Action.CONFIG
NEEDS = ("errors",)
SPEAKS = True
CONFIDENCE = Confidence.LOW


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """A candidate beside failed EFA requests."""
    yield from hint(
        run,
        ("ofi-request-error",),
        "security-group",
        "Possible cause: the security group does not allow EFA traffic between the hosts",
        "aws ec2 describe-instances --query 'Reservations[].Instances[].[InstanceId,SecurityGroups]'   # must "
        "allow all traffic from and to the group "
        "itself",
        "EFA traffic is subject to the security group, in both directions and also within one group. The rules are "
        "not in the log, so this is a possible cause, not confirmed by the log.",
        "all traffic allowed from and to the group itself",
    )

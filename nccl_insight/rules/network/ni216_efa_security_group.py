"""The AWS security group may block EFA between the hosts."""

from nccl_insight.rules._hints import hint
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """A candidate beside failed EFA requests."""
    yield from hint(
        ctx,
        ("ofi-request-error",),
        "security-group",
        "Possible cause: the security group does not allow EFA traffic between the hosts",
        "aws ec2 describe-instances --query 'Reservations[].Instances[].[InstanceId,SecurityGroups]'   # must allow "
        "all traffic from and to the group itself",
        "EFA traffic is subject to the security group, in both directions and also within one group. The rules are "
        "not in the log, so this is a possible cause, not confirmed by the log.",
        "all traffic allowed from and to the group itself",
    )

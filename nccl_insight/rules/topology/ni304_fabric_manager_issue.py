"""The NVIDIA Fabric Manager is not running properly."""

from nccl_insight.base.model import Confidence, Severity
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """CUDA's own statement, else a candidate beside NVLS failures."""
    run = ctx.run
    if ctx.lines() is not None:
        yield from ctx.report(
            "The GPU fabric is not initialized (CUDA 802): the Fabric Manager is not running or not ready",
            explanation="CUDA refuses work until the Fabric Manager has configured the NVSwitches. Its version has "
            "to be that of the driver.",
            quiet=None,
        )
        return
    nvls = trouble(run, "nvls-multicast-failed")
    if nvls is None:
        return
    stated = nvls.telling("advice", "fabric-manager") is not None
    yield from ctx.report(
        "Possible cause: the Fabric Manager was restarted or is not healthy",
        explanation="NVLS set-up fails like this when the Fabric Manager was restarted without a GPU reset, or runs in "
        "another version than the driver. The log cannot prove it; the command can.",
        severity=Severity.WARNING if stated else Severity.INFO,
        confidence=Confidence.MEDIUM if stated else Confidence.LOW,
        rows=nvls,
    )

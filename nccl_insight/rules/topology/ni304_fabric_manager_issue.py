"""The NVIDIA Fabric Manager is not running properly."""

from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """CUDA's own statement, else a candidate beside NVLS failures."""
    if ctx.lines() is not None:
        yield from ctx.tells("found-gpu-fabric", quiet=None)
        return
    nvls = trouble(ctx.run, *ctx.names("beside"))
    if nvls is None:
        return
    stated = nvls.telling("advice", "fabric-manager") is not None
    yield from ctx.tells("found", rows=nvls, stated=stated)

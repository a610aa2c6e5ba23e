"""/dev/shm is too small for NCCL's segments."""

from nccl_insight.base.model import Confidence, Severity
from nccl_insight.base.units import format_bytes
from nccl_insight.facts.said.errors import SHM_FAILED, present
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """Stated lack of space, else a failed creation without another reason."""
    run = ctx.run
    found = ctx.lines()
    confidence = None
    if found is None:
        if present(run) & {*ctx.names("unless")}:
            return
        found = trouble(run, SHM_FAILED)
        refused = trouble(run, *ctx.names("beside"))
        if refused is not None and found is not None and refused.telling("shared-memory"):
            return  # CUDA refused the segment, which was there
        confidence = Confidence.MEDIUM
    if found is None:
        return
    size = found.value("wanted_bytes")
    wanted = f": {format_bytes(int(size))} did not fit" if size and len(size) < 16 else ""
    yield from ctx.tells("found", confidence=confidence, quiet=Severity.WARNING, rows=found, found=found, wanted=wanted)

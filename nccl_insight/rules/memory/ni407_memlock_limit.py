"""The locked-memory limit of the ranks is too small for RDMA."""

from nccl_insight.language.load import witnesses
from nccl_insight.rules._errors import trouble
from nccl_insight.rules.context import Context, Hits


def check(ctx: Context) -> Hits:
    """A failed registration for lack of memory, else a failed queue."""
    said = ctx.lines()
    if said is not None and any(witnesses()[m].end for m in said.rows["message"].drop_nulls() if m in witnesses()):
        yield from ctx.tells("found-locked-memory", rows=said)
        return
    registration = trouble(ctx.run, "ib-reg-mr-failed")
    queue = trouble(ctx.run, "ib-create-cq-failed")
    certain = registration.telling("no-memory") if registration else None
    rows = certain or (queue.telling("no-memory") if queue else None)
    if rows is None or not rows.loud:
        return
    yield from ctx.tells("found", rows=rows, certain=certain)

"""A resource of the host or process is used up."""

from nccl_insight.base.model import Severity
from nccl_insight.rules.context import Context, Hits

# Words of the messages, and what is used up then.
_KINDS = {
    "too many open files": "files",
    "emfile": "files",
    "pthread_create": "threads",
    "thread": "threads",
    "assign requested address": "ports",
    "alloc": "memory",
}


def check(ctx: Context) -> Hits:
    """One finding for all lines: what is used up, and where to look."""
    found = ctx.lines()
    texts = " ".join(t.lower() for t in found.rows["text"].drop_nulls().head(20).to_list()) if found is not None else ""
    yield from ctx.tells(next((kind for word, kind in _KINDS.items() if word in texts), "any"), quiet=Severity.WARNING)

"""Lines are missing from the log."""

import polars as pl

from nccl_insight.rules._notes import log_notes
from nccl_insight.rules.context import Context, Hits

_NAMED = 3


def check(ctx: Context) -> Hits:
    """One finding for all inputs that lack lines, one for all without a checksum."""
    found = log_notes(ctx.run, ctx.name)
    if found is not None:
        yield ctx.says("log-notes", found.evidence, absence=found.absence, found=found)
    notes = ctx.run.table("notes").filter(pl.col("kind") == "no-checksum")
    if notes.is_empty():
        return
    paths = ctx.run.table("inputs").join(notes.select("input_id"), on="input_id", how="semi")["path"]
    names = [str(path).replace("\\", "/").rsplit("/", 1)[-1] for path in paths.head(_NAMED)]
    more = f" and {paths.len() - len(names):,} more" if paths.len() > len(names) else ""
    listed = ", ".join(names) + more
    one = paths.len() == 1
    yield ctx.says("unchecked", (), alone=one, listed=listed, names=names, paths=paths)

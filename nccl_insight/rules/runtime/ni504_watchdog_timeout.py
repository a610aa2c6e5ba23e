"""The framework's watchdog gave up on a collective."""

from textwrap import shorten

import polars as pl

from nccl_insight.facts.topics import plays
from nccl_insight.rules._absent import LIST_DUMPS
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.ends import EFFECT


def _first(rows: pl.DataFrame) -> bool:
    """Whether ranks wait together in the first collective of a group, which none of them has finished."""
    told = rows.filter(pl.col("completed_seq").is_not_null())
    waiting = rows.filter(pl.col("seq").is_not_null())
    same = waiting["seq"].n_unique() == 1 and waiting["rank"].drop_nulls().n_unique() > 1
    return same and told.height > 0 and bool((told["completed_seq"] == -1).all())


def check(ctx: Context) -> Hits:
    """One finding for all time-outs."""
    found = ctx.lines()
    if found is None:
        return
    rows = found.rows
    # Who gives up: the watchdog of PyTorch's process groups for NCCL, Gloo itself, or another program.
    by_gloo = bool(plays(rows, "gloo-wait").fill_null(False).all())
    if not by_gloo and not (plays(rows, "watchdog") | rows["message"].is_null()).any():
        yield from ctx.tells("other", quiet=None, text=shorten(str(found.value("text") or ""), 80, placeholder=" ..."))
        return
    works = rows.filter(pl.col("work_op").is_not_null())
    ops = works["work_op"].unique(maintain_order=True).to_list() if works.height else []
    numbers = works["seq"].drop_nulls().unique().sort().to_list() if works.height else []
    limit = found.value("timeout_ms")
    what = f"{ops[0]} " if ops else ""
    seq = (
        f"sequence {numbers[0]}" if len(numbers) == 1 else f"sequences {numbers[0]} to {numbers[-1]}" if numbers else ""
    )
    first = _first(rows)
    names = rows["pg_guid"].str.extract(r"\(([^()]+)\)").drop_nulls().unique()
    group = str(names[0]) if names.len() == 1 and not str(names[0]).startswith("default") else ""
    alone = not first and rows["completed_seq"].eq(-1).any() and numbers == [1]
    if first or alone:
        what = f"the first {what or 'collective '}of {group or 'a group'}, "
    elif group:
        what = f"{what or 'a collective '}of {group}, "
    who = "Gloo" if by_gloo else "The watchdog"
    # Whom NCCL told of an error did not wait until its time was up.
    over, every = rows.filter(plays(rows, "time-out")), ctx.run.table("errors")
    told = every.filter(plays(every, "standing") & (pl.col("diagnosis").cast(pl.String) == EFFECT))["rank"]
    timed = by_gloo or first or (over.height > 0 and set(told.drop_nulls()) <= set(over["rank"].drop_nulls()))
    verb = "timed out on" if timed else "gave up on"
    after = f" after {int(limit) / 1000:,g} s" if timed and limit and len(limit) < 12 else ""
    headline = " ".join(f"{who} {verb} {what or 'a collective '}{seq}{after}".split())
    yield from ctx.tells("found", quiet=None, headline=headline, first=first, dumps=LIST_DUMPS)

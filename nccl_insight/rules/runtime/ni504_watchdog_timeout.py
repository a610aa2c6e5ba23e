"""The framework's watchdog gave up on a collective."""

from textwrap import shorten

import polars as pl

from nccl_insight.base.units import listed
from nccl_insight.facts.progress.watchdog import given_up
from nccl_insight.facts.said.topics import plays
from nccl_insight.rules._absent import LIST_DUMPS
from nccl_insight.rules.context import Context, Hits

_NO_LIMIT = 10**11


def _span(values: pl.Series) -> tuple[float, ...]:
    """The least and the greatest of them; one where they are one."""
    found = values.drop_nulls().unique().sort()
    return (*found[:1], *found[1:][-1:])


def _first(rows: pl.DataFrame) -> bool:
    """Whether ranks wait together in the first collective of a group, which none of them has finished.

    Of torch that does not tell what was completed, operation 1 is the first (``ProcessGroupNCCL``: ``seq_``).
    """
    told = rows["completed_seq"].drop_nulls()
    waiting = rows.filter(pl.col("seq").is_not_null())
    same = waiting["seq"].n_unique() == 1 and waiting["rank"].drop_nulls().n_unique() > 1
    return same and bool((told == -1).all() if told.len() else (waiting["seq"] == 1).all())


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
    calls = works.select("work_op", "seq").unique().sort("seq", "work_op")
    each = calls.select(pl.coalesce(pl.format("{} {}", "work_op", "seq"), "work_op")).to_series()
    mixed = calls["work_op"].n_unique() > 1  # of several groups: one operation and a span of all numbers would mislead
    numbers, limits = () if mixed else _span(works["seq"]), rows["timeout_ms"].cast(pl.Int64, strict=False)
    first = _first(rows)
    names = rows["pg_guid"].str.extract(r"\(([^()]+)\)").drop_nulls().unique()
    timed = by_gloo or first or bool(plays(rows, "time-out").any())
    waits = given_up(ctx.run).drop_nulls("global_rank")
    # Whom NCCL told of an error did not wait until its time was up.
    over = waits.filter("timed")["global_rank"].implode()
    yield from ctx.tells(
        "found",
        quiet=None,
        by_gloo=by_gloo,
        timed=timed,
        first=first,
        opening=first or (rows["completed_seq"].eq(-1).any() and numbers == (1,)),
        op=listed(each, 3) if mixed else next(iter(works["work_op"]), ""),
        group=str(names[0]) if names.len() == 1 and not str(names[0]).startswith("default") else "",
        numbers=numbers,
        limits=_span(limits.filter(limits < _NO_LIMIT) / 1000) if timed else (),
        gave_up=tuple(waits.filter(~pl.col("global_rank").is_in(over))["global_rank"].unique()) if timed else (),
        dumps=LIST_DUMPS,
    )

"""NCCL reported trouble that no diagnosis explains."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.model import Hit, Severity
from nccl_insight.base.natures import names
from nccl_insight.facts.said.errors import BENIGN, CONSEQUENCE, OTHER, VAGUE, causes
from nccl_insight.facts.said.topics import telling, told
from nccl_insight.facts.said.unread import unread
from nccl_insight.facts.who.members import completed
from nccl_insight.language.load import playing
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules._outside import passed_on_alone
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_SHOWN = 8
# What is behind a result code as a rule, where nothing else is known.
_USUAL: Final = texts.patterns(__file__)


def _named() -> frozenset[str]:
    """What a finding of another rule can tell, and what tells nothing."""
    from nccl_insight.rules import discover

    return frozenset({*(rule.name for rule in discover()), *VAGUE} - {OTHER})


def check(ctx: Context) -> Hits:
    """At most one finding, and only where nothing else was recognized."""
    run = ctx.run
    if (alone := passed_on_alone(run)) is not None:
        yield from _passed_on(ctx, Trouble(alone))
        return
    rows = causes(run).with_columns(
        cause=pl.when(pl.col("cause").is_in(list(_named()))).then("cause").otherwise(pl.lit(OTHER))
    )
    if rows.filter(~pl.col("cause").is_in([BENIGN, CONSEQUENCE, OTHER, *names("aside")])).height:
        return
    thrown = rows.filter(pl.col("message").is_in(playing("thrown")))
    reached = telling(rows.filter(pl.col("cause") == CONSEQUENCE), "trail", "application")
    unknown = rows.filter((pl.col("cause") == OTHER) & pl.col("loud"))
    trail = _trail(run, rows)
    if thrown.height and unknown.height:
        severity, shown = Severity.ERROR, pl.concat([unknown, thrown])
    elif reached.height and unknown.height:
        severity = Severity.ERROR if trail is not None and trail[1] else Severity.WARNING
        shown = pl.concat([unknown, reached])
    elif unknown.height:
        severity, shown = Severity.INFO, unknown
    elif trail is not None:
        yield from _only_trail(ctx, *trail)
        return
    else:
        return
    found = Trouble(shown.unique(["input_id", "line"], keep="first", maintain_order=True))
    yield from ctx.tells("found", severity=severity, quiet=severity, rows=found, found=found)


def _passed_on(ctx: Context, found: Trouble) -> Iterator[Hit]:
    """The result of a call, or word of a failure elsewhere, that a launcher or framework passes on."""
    said = next(iter(told(found.rows, "result-words").drop_nulls()), "").replace("-", " ")
    if said:
        usual = _USUAL.get(said)
        yield from ctx.tells("found-nccl-failed", explanation=_USUAL["passed on"], rows=found, said=said, usual=usual)
        return
    yield from ctx.tells("passed-on", explanation=_USUAL["alone"], rows=found, found=found)


def _trail(run: Run, rows: pl.DataFrame) -> tuple[pl.DataFrame, bool] | None:
    """Result codes that left NCCL through a group call, or with which the log ends; and whether it was the former.

    Others prove nothing: probes that fail (an optional network, DMA-BUF) print them in healthy jobs, too.
    """
    traces = rows.filter((pl.col("cause") == CONSEQUENCE) & pl.col("message").is_in(playing("trail")))
    left = telling(traces, "trail-end")
    if left.height:
        thread = ["input_id", "host", "pid"]
        return traces.join(left.select(thread).unique(), on=thread, how="semi", nulls_equal=True), True
    sizes = dict(run.table("inputs").select("input_id", "lines").iter_rows())
    last = traces.filter(pl.col("line") == pl.col("input_id").replace_strict(sizes, default=0).cast(pl.UInt64))
    # Where init lines are worded in a new way, nothing says whether init completed; who is connected completed it.
    done = completed(run).height > 0 or run.has("connected") or any(u.about == "init" for u in unread(run))
    return (traces.tail(_SHOWN), False) if last.height and traces.height > 1 and not done else None


def _only_trail(ctx: Context, traces: pl.DataFrame, reached: bool) -> Iterator[Hit]:
    """Result codes on the way out of a call, and not a line that says why."""
    severity = Severity.ERROR if reached else Severity.WARNING
    yield from ctx.tells("only-trail", severity=severity, quiet=severity, rows=Trouble(traces), reached=reached)

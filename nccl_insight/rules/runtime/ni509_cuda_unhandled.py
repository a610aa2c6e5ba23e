"""A CUDA call of NCCL failed."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from nccl_insight.base.model import Hit, Severity
from nccl_insight.facts.said.topics import telling, told
from nccl_insight.rules._errors import Trouble, of_the_failed, trouble
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.normalise.ends import TIMED_OUT
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """One finding for all lines, with what is known of that CUDA error; those after a time-out's abort apart."""
    found = ctx.lines()
    if found is None:
        return
    late = _after_abort(ctx.run, found.rows)
    first = found.rows.join(late.select("input_id", "line"), on=["input_id", "line"], how="anti", maintain_order="left")
    if first.height:
        yield from _hit(ctx, of_the_failed(ctx.run, Trouble(first)), ())
    if late.height:
        yield from _hit(ctx, Trouble(late), (TIMED_OUT, "ib-completion-retry-exceeded"))


def _after_abort(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Late errors after the watchdog gave up: the abort of the communicators makes them."""
    watchdog = trouble(run, TIMED_OUT)
    if watchdog is None or watchdog.first_s is None:
        return rows.clear()
    return telling(rows, "cuda-late", "said").filter(pl.col("time_s") > watchdog.first_s)


def _quoted(found: Trouble) -> str | None:
    """The error that an exception quotes, without what CUDA adds to it."""
    said = found.value("exception")
    return said.partition("error: ")[2].partition(" was encountered")[0][:90] or said[:90] if said else None


_CALLERS: Final = {"nccl-tests": "nccl-tests", "either": "NCCL or the program", "program": "the program"}


def _hit(ctx: Context, found: Trouble, caused_by: tuple[str, ...]) -> Iterator[Hit]:
    reason = found.value("error_text") or _quoted(found) or "CUDA error"
    callers = set(told(found.rows, "cuda-caller"))
    caller = "either" if "either" in callers else callers.pop() if len(callers) == 1 else None
    where = _CALLERS.get(caller or "", "NCCL")
    yield from ctx.tells("found", quiet=Severity.WARNING, caused_by=caused_by, rows=found, where=where, reason=reason)

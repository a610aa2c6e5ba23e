"""Lines printed on the way out after another fault; where they are all there is, nothing says why the job failed."""

from typing import Final

import polars as pl

from nccl_insight.facts.course import course
from nccl_insight.facts.ends import FAILED, ends
from nccl_insight.facts.last_words import tails, unwell
from nccl_insight.facts.topics import told
from nccl_insight.language.load import playing
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules._outside import exits_passed_on
from nccl_insight.rules.context import Context, Hits

# What is behind a result code as a rule, where nothing else is known.
_USUAL: Final = {
    "unhandled cuda error": "an Xid of a GPU (dmesg -T | grep -i xid), driver and CUDA that do not fit, GPU "
    "memory full",
    "unhandled system error": "a network interface that peers cannot reach (NCCL_SOCKET_IFNAME), a small /dev/shm, "
    "ulimit -n or -l",
    "remote error": "another rank died or was killed first: read its output",
    "invalid usage": "two ranks on one GPU, or ranks that call NCCL differently",
    "invalid argument": "more ranks on a host than GPUs, a buffer or communicator that is not valid",
    "internal error": "driver, library or plugin that do not fit, a topology that NCCL cannot read",
}
_ALONE: Final = (
    "The line says that something failed elsewhere, and no other line of the inputs says what. The reason is in front "
    "of it in the output of the process that it is about, which is not here."
)
_PASSED_ON: Final = (
    "The exception passes on NCCL's result code. The reason stands in a line of level WARN, which is not in this "
    "input: NCCL_DEBUG was not set, or its output went elsewhere."
)


def check(ctx: Context) -> Hits:
    """At most one finding; an error only where nothing else is known and the program did not go on."""
    found = _only(ctx)
    if found is None:
        printed = ctx.lines()
        if printed is None or not printed.loud:
            return
        yield from ctx.tells("found-ranks-report")
        return
    said = next(iter(told(found.rows, "result-words").drop_nulls()), "").replace("-", " ")
    if said:
        usual = _USUAL.get(said)
        yield from ctx.tells("found-nccl-failed", explanation=_PASSED_ON, rows=found, said=said, usual=usual)
        return
    yield from ctx.tells("found", explanation=_ALONE, rows=found, found=found)


def _only(ctx: Context) -> Trouble | None:
    """What launchers and frameworks pass on, where nothing else failed and the job did not go on."""
    found = ctx.lines()
    coded = exits_passed_on(ctx.run)
    if found is None or (ends(ctx.run) and not coded):
        return None
    job = course(ctx.run)
    loud = job.not_stopped(unwell(ctx.run)).filter(~pl.lit(coded) | (pl.col("cause") != FAILED))
    if loud.is_empty() or bool((loud["cause"] != ctx.name).any()):
        return None
    well = {tail.input_id for tail in tails(ctx.run) if tail.good and not tail.words}
    # Where ranks go on to their init, or to a step, what was said before did not end them.
    first = (
        ctx.run.table("milestones").drop_nulls("init_started").group_by("input_id").agg(pl.col("init_started").min())
    )
    last = {**dict(first.iter_rows()), **{input_id: line for input_id, (line, _) in job.steps.items()}}
    trail = pl.col("message").is_in(playing("trail"))  # another check tells of it
    foreign = (pl.col("host").is_null() & pl.col("pid").is_null() & ~trail) | pl.col("message").str.starts_with(
        "tests_"
    )
    rows = loud.filter(foreign & ~pl.col("input_id").is_in(list(well)))
    rows = rows.filter(
        pl.col("line").cast(pl.Int64)
        > pl.col("input_id").cast(pl.Int64).replace_strict(last, default=-1, return_dtype=pl.Int64)
    )
    return Trouble(rows) if rows.height else None

"""Findings about ranks that others wait for: who they are, and what several sources say about them."""

from collections.abc import Collection, Iterator
from dataclasses import replace

import polars as pl

from nccl_insight.base.model import Confidence, Hit, Ref, Severity
from nccl_insight.base.units import capital, rank_words
from nccl_insight.facts.progress.absent import Absent
from nccl_insight.facts.progress.watchdog import WHO, apart, group_words
from nccl_insight.facts.setup.settings import ranks_on, refs
from nccl_insight.facts.who.members import joining
from nccl_insight.loading.assemble.places import places
from nccl_insight.readers.embedded.endings import LAST, OF_RANK, alike, rank_of, tells
from nccl_insight.tables.run import Run

#: What to do about ranks whose last words are not known; where they are, they stand there instead.
READ_LAST = "read what that rank printed last"
_QUOTED = 2

#: Where PyTorch leaves the dumps of its flight recorder: in the cache of the user; older releases in /tmp.
LIST_DUMPS = "ls ~/.cache/torch/*_trace_rank_* /tmp/nccl_trace_rank_*"

_MOST = 160


def last_said(run: Run, ranks: Collection[int]) -> tuple[tuple[int, Ref], ...]:
    """Each rank with its own last line: of its file beside those of others, or the last that begins with its number.

    Lines that count steps are no reason, nor what stands behind the first line of the watchdog of this rank; lines
    that differ in numbers and addresses alone are alike.
    """
    of_input = places(run).rank_of_input
    text = pl.col("text")
    rows = run.table("endings").filter(tells(text))
    own = pl.col("input_id").cast(pl.Int64).replace_strict(of_input, default=None, return_dtype=pl.Int64)
    who = WHO.cast(pl.Int64).alias("rank")
    gave_up = run.table("watchdog").group_by("input_id", who).agg(gave_up=pl.col("line").min())
    found = {
        rank: Ref(input_id, line, said)
        for kind, rank_ in ((OF_RANK, rank_of(text)), (LAST, own))
        for rank, input_id, line, said in _alone(rows.filter(pl.col("kind") == kind), rank_, gave_up).iter_rows()
        if rank in ranks
    }
    return tuple(sorted(found.items()))


def _alone(rows: pl.DataFrame, rank: pl.Expr, gave_up: pl.DataFrame) -> pl.DataFrame:
    """The last line of each rank in a form that no other rank's has; none where only one rank has lines."""
    rows = rows.with_columns(rank=rank, form=alike(pl.col("text"))).drop_nulls("rank")
    rows = rows.join(gave_up, on=("input_id", "rank"), how="left").filter(
        (pl.col("line") < pl.col("gave_up")).fill_null(True)
    )
    rows = rows.filter((pl.col("rank").n_unique().over("form") == 1) & (pl.col("rank").n_unique() > 1))
    last = rows.sort("rank", "input_id", "line").group_by("rank", maintain_order=True).last()
    return last.select("rank", "input_id", "line", pl.col("text").str.strip_chars().str.slice(0, _MOST))


def subject(item: Absent) -> str:
    """``Ranks 3,4 on gpu02``: those who did not come, to begin a sentence."""
    return ranks_on(item.lead.ranks, item.hosts)


def with_others(run: Run, hit: Hit, item: Absent, asks: bool = False) -> Hit:
    """The hit with the ranks and hosts it is about, what all sources say, and the confidence that they allow together.

    Evidence is the hit's own, else that of the best claim, a line of each other source, and what the ranks said last.
    ``asks``: the hit says that nobody can be blamed yet, which is sure.
    """
    low = item.confidence is Confidence.LOW
    last = last_said(run, item.lead.ranks)[:_QUOTED]
    quoted = " and ".join(f'rank {rank} last said: "{ref.text}"' for rank, ref in last)
    met = joining(run, item.lead.ranks[:_QUOTED])
    held = (
        f"rank {rank} waits in the init of a communicator of {one.nranks:,} ranks, "
        f"{'as for a first send or receive, ' if one.nranks == 2 else ''}"
        f"which {'no other rank' if one.came == 1 else f'only {one.came:,}'} joined"
        for rank, one in met.items()
    )
    stands = apart(run, item.lead.ranks).head(_QUOTED)
    return replace(
        hit,
        explanation=" ".join(filter(None, (hit.explanation, *_others(item)))),
        next_step=hit.next_step.replace(READ_LAST, f"find out why: {quoted}") if quoted else hit.next_step,
        observed="; ".join(
            filter(None, (*held, *_stands(stands), "" if READ_LAST in hit.next_step else quoted, hit.observed))
        ),
        ranks=item.lead.ranks if item.lead.world else (),
        hosts=item.hosts,
        evidence=(
            *(hit.evidence or item.lead.evidence),
            *(r for c in (*item.support, *item.against) for r in c.evidence[:1]),
            *(one.line for one in met.values()),
            *refs(stands),
            *(ref for _, ref in last),
        ),
        confidence=item.confidence,
        severity=Severity.WARNING if low and not asks else hit.severity,
    )


def _stands(rows: pl.DataFrame) -> Iterator[str]:
    """Where the ranks that others wait for gave up waiting themselves: nobody else did there."""
    for rank, op, seq, group in rows.select(WHO, "op", "timed_out_seq", "group").iter_rows():
        alone = "" if rows.height > 1 else ", no other rank did"
        yield f"rank {rank} itself timed out in {op} {seq:,} of {group_words(group)}{alone}"


def _others(item: Absent) -> Iterator[str]:
    """A sentence for each other source."""
    for claim in item.support:
        yield f"The same by {claim.source}: {claim.said}."
    if also := item.also:
        waiting, late = sorted({r for claim in also for r in claim.waiting}), "them" if also[0].ranks[1:] else "it"
        seq, op = also[0].seq, also[0].op or "operation unknown"
        one = f"another process group{'' if seq is None else f', in {seq:,} ({op})'}"
        where = f"{len(also)} other process groups" if also[1:] else one
        yield f"{capital(rank_words(waiting))} {'wait' if waiting[1:] else 'waits'} for {late} in {where}."
    for claim in item.against:
        yield f"{capital(claim.source)} says otherwise ({claim.said}); that is weaker evidence."

"""A send has no receive, or the reverse."""

from collections.abc import Sequence

import polars as pl

from nccl_insight.base.model import Ref
from nccl_insight.facts.progress import drained, flight_recorder
from nccl_insight.facts.progress.absent import held_up
from nccl_insight.facts.progress.calls import unmatched, waits_for
from nccl_insight.facts.progress.claims import CALLS
from nccl_insight.facts.progress.tallies import counted
from nccl_insight.facts.progress.waitfor import behind_data, verdict, waiting
from nccl_insight.facts.setup.settings import refs
from nccl_insight.loading.assemble.places import ranks_in_job
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Hits:
    """What the call logs show, and what Flight Recorder dumps do: one finding for all pairs of one direction and
    operation."""
    run = ctx.run
    if run.has("calls"):
        yield from _counted(ctx)
    here = flight_recorder.dumped(run)
    told = here - behind_data(run)
    found = [p for p in flight_recorder.unpaired(run) if p.missing in told]
    waits = waiting(run)
    found = [p for p in found if p.missing not in waits] or found
    if not found:
        return
    first = found[0]
    missing = {p.missing for p in found}
    # Whose dump shows that it waits for nobody is why, else either side may be.
    ranks = tuple(sorted(missing if not missing & waits else {r for p in found for r in (p.src, p.dst)}))
    follows = held_up(run, missing)
    members = {r for group in flight_recorder.instances(run) for r in group.members}
    unseen = not follows and not members <= here and missing <= waits
    yield ctx.says(
        "recorded",
        tuple(
            Ref(i.input_id, 0, f"group {i.group.label}: {i.op.lower()} {i.src} -> {i.dst} {i.sizes} open")
            for i in found[:5]
        ),
        whom=() if unseen else ranks,
        caused_by=("rank-desync",) if follows else (),
        first=first,
        sends=first.op == "Send",
        others=len(found) - 1,
        unseen=unseen,
        follows=follows,
    )


def _whom(pairs: Sequence[tuple[int, int] | None], waits: frozenset[int]) -> tuple[int, ...]:
    """The one rank that several wait for, if it waits for nobody; empty where either side may be to blame."""
    lacks = [None if p is None else p[1] for p in pairs if p is None or p[1] not in waits]
    return tuple(r for r in set(lacks) if r is not None) if len(set(lacks)) == 1 < len(lacks) else ()


def _roots(
    run: Run, rows: pl.DataFrame, pairs: Sequence[tuple[int, int] | None], late: frozenset[int] | None
) -> pl.DataFrame:
    """The pairs whose missing side does not wait itself, else all; none where who lacks there waits for others."""
    waits = waiting(run)
    after = [late is None and p is not None and drained.follows(run, *p) for p in pairs]
    first = [p is None or (p[1] in late if late else p[1] not in waits) for p in pairs]
    roots = rows.filter(pl.Series(first, dtype=pl.Boolean) & ~pl.Series(after, dtype=pl.Boolean))
    standing = {r for g in counted(run, CALLS) if g.world and g.comparable for r in g.ranks_inside}
    stuck = all(after) or any(p is not None and p[1] in standing for p in pairs)
    return rows if roots.is_empty() and not stuck else roots


def _counted(ctx: Context) -> Hits:
    run = ctx.run
    rows, waits, late = unmatched(run), waiting(run), drained.late(run)
    pairs = [waits_for(run, row) for row in rows.iter_rows(named=True)]
    missing = {p[1] for p in pairs if p is not None}
    follows = held_up(run, missing) or bool(missing - waits and missing <= verdict(run, CALLS).held)
    if late == frozenset() and not follows:
        return  # what lacks may wait for those that the log does not hold, or be cut off
    for comm_id, part in _roots(run, rows, pairs, late).group_by("comm_id", maintain_order=True):
        *pair, sends, recvs = part.select("src", "dst", "sends", "recvs").row(0)
        src, dst = ranks_in_job(run, comm_id[0], pair)
        yield ctx.says(
            "counted",
            refs(part.head(1).select(pl.col("lines").explode()).unnest("lines")),
            whom=_whom(pairs, waits) or tuple(sorted((late or set()) & {src, dst} or {src, dst})),
            caused_by=("rank-desync",) if follows else (),
            comm_id=str(comm_id[0]),
            src=src,
            sends=sends,
            dst=dst,
            recvs=recvs,
            others=part.height - 1,
            follows=follows,
        )

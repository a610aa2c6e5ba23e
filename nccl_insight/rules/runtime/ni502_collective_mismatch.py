"""Ranks of one communicator issue different collectives."""

from collections.abc import Iterator, Sequence

import polars as pl

from nccl_insight.base.data import replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Hit, Ref
from nccl_insight.base.units import rank_words
from nccl_insight.facts.progress import flight_recorder
from nccl_insight.facts.progress.absent import absences
from nccl_insight.facts.progress.calls import CALL, collectives_at, judgeable, log_is_cut, sums
from nccl_insight.facts.progress.claims import DUMPS, WATCHDOG
from nccl_insight.facts.progress.flight_recorder.differences import Mismatch
from nccl_insight.facts.progress.instances import UNNAMED
from nccl_insight.facts.progress.waitfor import Crossed, verdict
from nccl_insight.facts.progress.watchdog import Odd, odd_calls
from nccl_insight.facts.setup.settings import hosts_of, ranks_of, ranks_on, refs
from nccl_insight.language.load import playing
from nccl_insight.loading.assemble.places import places, ranks_in_job
from nccl_insight.rules._errors import Trouble
from nccl_insight.rules.context import Context, Hits

# NCCL 2.4 to 2.6: a kernel that waits compares its own operation counter with the one that the peer writes over the
# transport. A transport that delivers late or wrong data (a broken GPUDirect path) gives the same line.


def check(ctx: Context) -> Hits:
    """What NCCL says, what the dumps say, and what the call logs show."""
    run = ctx.run
    recorded = flight_recorder.mismatches(run)
    waits = grouped((any(_one_difference(odd, found) for found in recorded), odd) for odd in odd_calls(run))
    told = [*(_waits_elsewhere(ctx, odd) for odd in waits.get(True, ())), *_told(ctx)]
    yield from _joined([_recorded(ctx, found) for found in recorded], told)
    yield from (_waits_elsewhere(ctx, odd) for odd in waits.get(False, ()))
    crossed = verdict(run, DUMPS).crossed or verdict(run, WATCHDOG).crossed
    if not absences(run):
        yield from (_crossed(ctx, found) for found in crossed)
    if not run.has("calls"):
        return
    if log_is_cut(run):
        yield ctx.cannot("untold")
        return
    yield from _differences(ctx)


def _joined(recorded: Sequence[Hit], told: Sequence[Hit]) -> Hits:
    """Of one difference, which dumps and lines tell, the dumps' words with the lines, hosts and times of the others."""
    if len(recorded) != 1:
        yield from (*recorded, *told)
        return
    one, ranks = recorded[0], set(recorded[0].ranks)
    same = [hit for hit in told if not ranks or not hit.ranks or ranks <= set(hit.ranks) or ranks >= set(hit.ranks)]
    begun, ended = ([getattr(h, key) for h in same if getattr(h, key) is not None] for key in ("first_s", "last_s"))
    yield replace(
        one,
        ranks=one.ranks or tuple(sorted({r for hit in same for r in hit.ranks})),
        hosts=one.hosts or tuple(sorted({h for hit in same for h in hit.hosts})),
        evidence=(*one.evidence[:2], *(ref for hit in same for ref in hit.evidence[:2])),
        first_s=min(begun, default=one.first_s),
        last_s=max(ended, default=one.last_s),
    )
    yield from (hit for hit in told if hit not in same)


def _one_difference(found: Odd, dumped: Mismatch) -> bool:
    """Whether time-outs and dumps tell of one collective: number and group, where both name it, are the same."""
    group = dumped.group
    named = found.group != UNNAMED and group.desc
    return dumped.seq in found.numbers and (not named or group.desc in found.group or found.group in group.label)


def _told(ctx: Context) -> Iterator[Hit]:
    """What NCCL and torch's wrapper say."""
    said = ctx.lines()
    if said is not None:
        odd = _odd_rank(said)
        yield from ctx.tells(
            "found",
            whom=None if odd is None else (odd, *places(ctx.run).hosts((odd,))),
            guessed=bool(said.rows["message"].is_in(playing("counters")).fill_null(False).all()),
            has_odd=odd is not None,
            odd=odd,
        )


def _waits_elsewhere(ctx: Context, found: Odd) -> Hit:
    """Time-outs in one number of a process group that is not one operation, or in numbers that cannot be apart."""
    return ctx.says(
        "waits-elsewhere",
        found,
        whom=(*found.ranks, *found.hosts) if not found.others else (*found.ranks, *found.others),
        first_s=found.first_s,
        last_s=found.first_s,
        who=ranks_on(found.ranks, found.hosts),
        found=found,
    )


def _recorded(ctx: Context, found: Mismatch) -> Hit:
    """A process group in whose dumps ranks issued different operations under one sequence number."""
    (odd, _, few), (usual, _, most) = found.variants[0], found.variants[-1]
    issued = [f"{rank_words(ranks)} issued {operation}" for operation, _, ranks in found.variants]
    clear = len(few) < len(most)
    return ctx.says(
        "recorded",
        tuple(
            Ref(v[1], 0, f"{said} as collective {found.seq}")
            for v, said in zip(found.variants[:6], issued, strict=False)
        ),
        whom=few if clear else (),
        observed=odd if clear else "; ".join(v[0] for v in found.variants[:4]),
        found=found,
        first_issued="; ".join(issued[:4]),
        clear=clear,
        usual=usual,
    )


def _crossed(ctx: Context, found: Crossed) -> Hit:
    """Two groups whose operations ranks issued in another order: each side waits for the other."""
    hosts = places(ctx.run).hosts(found.ranks)
    # Of two sides of one size neither is the odd one.
    tied = found.others if len(found.others) == len(found.ranks) else ()
    return ctx.says(
        "crossed",
        found.evidence,
        whom=(*found.ranks, *tied, *hosts, *places(ctx.run).hosts(tied)),
        first_s=found.first_s,
        last_s=found.first_s,
        who=ranks_on(found.ranks, hosts),
        found=found,
    )


def _odd_rank(said: Trouble) -> int | None:
    """The rank that all others differ from: torch's wrapper tells each rank the first one with another call."""
    rows = said.rows.filter(pl.col("message").is_in(playing("pair-differs")))
    pairs = rows.select("rank", other=pl.col("other_rank").cast(pl.Int64)).drop_nulls().unique()
    votes = pairs.filter(pl.col("rank") != pl.col("other")).group_by("other").len().sort("len", descending=True)
    if votes.is_empty() or votes["len"][0] < 2 or (votes.height > 1 and votes["len"][1] > 1):
        return None
    odd = int(votes["other"][0])
    # The odd one itself names the first of the others.
    return odd if pairs.filter((pl.col("rank") != odd) & (pl.col("other") != odd)).is_empty() else None


def _differences(ctx: Context) -> Hits:
    run = ctx.run
    root = pl.col(CALL[3]).cast(pl.String)
    shown = pl.format("{} {} {}", *(pl.col(c).cast(pl.String).fill_null("-") for c in CALL[:3])) + pl.when(
        root.is_not_null()
    ).then(" root " + root).otherwise(pl.lit(""))
    differing = sums(run).differing.join(judgeable(run).select("comm_id"), on="comm_id", how="semi")
    first = differing.sort("comm_id").head(5).rows()
    calls = collectives_at(run, first).with_columns(shown.alias("call")) if first else None
    for comm_id, nth in first:
        assert calls is not None
        at = calls.filter(pl.col("comm_id") == comm_id)
        kinds = at.group_by("call", maintain_order=True).agg(pl.len().alias("n")).sort("n", descending=True)
        usual = kinds["call"][0]
        odd, same = at.filter(pl.col("call") != usual), at.filter(pl.col("call") == usual)
        few, most = (tuple(sorted(ranks_in_job(run, comm_id, ranks_of(side)))) for side in (odd, same))
        # Of two sides of one size neither is the odd one.
        tied = odd.height == same.height
        yield ctx.says(
            "differences",
            (*refs(odd, 2), *refs(same, 1)),
            whom=(*few, *(most if tied else ()), *hosts_of(at if tied else odd)),
            few=few,
            nth=nth + 1,
            odd=odd,
            rest=rank_words(most) if tied else "the others",
            usual=usual,
        )

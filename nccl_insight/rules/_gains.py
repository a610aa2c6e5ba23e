"""What mending would gain, as findings: one form for late ranks, uneven stages, slow transfers and slow steps."""

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, Final

import polars as pl

from nccl_insight.base import texts
from nccl_insight.base.bandwidth import BY_TOKENS
from nccl_insight.base.model import Confidence, Hit, Ref
from nccl_insight.facts.figures.overlap import wait_share
from nccl_insight.facts.lateness.replay import IDLE, Gain, what_if
from nccl_insight.facts.lateness.waiting import awaited
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules._late_reason import Why, why_late
from nccl_insight.rules._traces import input_of_rank, trace_refs, traced_ranks, with_hosts
from nccl_insight.rules.context import says
from nccl_insight.tables.run import Run, fact

_WORDS: Final = texts.of_file(__file__)
_HIDDEN: Final = 0.3
"""Of what it gains beside others, below which mended alone it gains little."""
_FEW: Final = 4
_REGULAR: Final = 0.8
_MOSTLY: Final = 0.5

_UNEQUAL: Final = 1.1


@fact
def routed_ranks(run: Run) -> frozenset[int]:
    """Ranks of groups of experts that get unequal numbers of tokens: their compute differs with these.

    Such are process groups in which most all-to-all exchanges have parts or sums that differ by 10 % or more.
    """
    table = run.table("collectives").filter(
        pl.col("op").cast(pl.String).is_in(BY_TOKENS)
        & (pl.col("size_bytes") > 0)
        & pl.col("process_group").is_not_null()
    )
    sums = (
        table.filter(pl.col("match_id").is_not_null())
        .group_by("process_group", "match_id")
        .agg(unequal=pl.col("size_bytes").max() / pl.col("size_bytes").mean())
    )
    parts = table.filter(pl.col("split_max_share").is_not_null()).select("process_group", unequal="split_max_share")
    each = pl.concat([sums.select("process_group", "unequal"), parts], how="vertical_relaxed")
    # An exchange of equal sums on its way out comes back in unequal ones, so half of them suffice.
    shares = each.group_by("process_group").agg(share=(pl.col("unequal") >= _UNEQUAL).mean())
    groups = shares.filter(pl.col("share") >= 0.4)["process_group"]
    rows = run.table("collectives").filter(pl.col("process_group").is_in(groups.implode()))
    return frozenset(rows["rank"].drop_nulls().to_list())


def replayed(run: Run) -> bool:
    """Whether the traces could be replayed, so that gains speak for late ranks and slow transfers."""
    found = what_if(run)
    return not found.refused and found.window_ns > 0


def mended(run: Run, kinds: Collection[str]) -> list[Gain]:
    """The gains of some kinds in the order in which to mend; none where nothing could be replayed."""
    return [gain for gain in what_if(run).gains if gain.scenario.kind in kinds]


def late_hit(run: Run, one: Gain) -> Hit:
    """Ranks, a host or a stage that the others wait for."""
    scenario = one.scenario
    ranks = scenario.ranks
    hosts = places(run).hosts(ranks)
    lone = f"on the host of rank {ranks[0]}" if len(ranks) == 1 else "on the hosts of these ranks"
    why = why_late(run, ranks, traced_ranks(run), scenario.steps, f"on {', '.join(hosts[:3])}" if hosts else lone)
    rows = awaited(run).head(1).iter_rows(named=True)
    return says(
        "straggler-rank.late",
        _evidence(run, ranks, one),
        whom=(*ranks, *hosts),
        why=why,
        single=len(ranks) == 1,
        one_stage=scenario.kind == "compute" and len(ranks) == 1,
        host=hosts[0] if scenario.kind == "host" and hosts else "",
        stage=scenario.kind == "compute",
        # Whom others wait for longest, where mending others gains more and its first collective tells why.
        unseen=next((r for r in rows if r["rank"] not in ranks and 2 * r["unseen_ns"] > r["wait_ns"]), None),
        **_given(run, one),
    )


def _given(run: Run, one: Gain, pauses: bool = False) -> dict[str, Any]:
    """What the words of all pages about gains may ask for; ``pauses`` as :func:`when` reads it."""
    replay, scenario = what_if(run), one.scenario
    hidden = one.alone_ns < _HIDDEN * one.own_ns
    given = {
        "one": one,
        "scenario": scenario,
        "replay": replay,
        "step": replay.steps > 1,
        "is_hidden": hidden,
        # What is hidden, but the larger part of what both lose, is worth as much as what hides it.
        "minor": hidden and 2 * one.own_ns < one.gain_ns,
        "alone": max(one.alone_ns, 0) / max(one.own_ns, 1),
        "error": abs(replay.base_error or 0.0),
        "confidence": (
            Confidence.HIGH if replay.steps >= 4 else Confidence.MEDIUM if replay.steps > 1 else Confidence.LOW
        ),
    }
    words = texts.fields(_WORDS["gain"], given, ())
    return {
        **given,
        "saves": words["saves"],
        "lost": words["lost"],
        "took": words["took"],
        "hidden": words["hidden"],
        "proof": words["proof"],
        "mended": words["mended"],
        "only_in": words["only_in"],
        "when": when(run, scenario.steps, pauses),
    }


def uneven_hit(run: Run, one: Gain) -> Hit:
    """Work that is uneven without one guilty rank."""
    ranks, seen = one.scenario.ranks, _evidence(run, one.scenario.ranks, one)
    tokens = not routed_ranks(run).isdisjoint(ranks)
    return says("collective-skew.uneven", seen, whom=with_hosts(run, ranks), tokens=tokens, **_given(run, one))


def wire_hit(run: Run, one: Gain) -> Hit:
    """Transfers of some ranks that are slower than those of others."""
    scenario = one.scenario
    known = places(run)
    hosts = known.hosts(scenario.ranks)
    others = "pairs" if scenario.kind == "pair" else "groups"
    slower = scenario.took_ns / scenario.usual_ns if scenario.usual_ns else 0.0
    return says(
        "busbw-outlier.wire",
        _evidence(run, scenario.ranks, one),
        whom=(*scenario.ranks, *hosts),
        pair=scenario.kind == "pair",
        node=hosts[0] if len(hosts) == 1 < len(known.hosts(known.ranks)) else "",
        slower=slower,
        others=others,
        **_given(run, one),
    )


def slow_steps_hit(run: Run, one: Gain, what: str, why: Why, look: str) -> Hit:
    """Steps of all ranks that take longer than the others."""
    scenario = one.scenario
    return says(
        "busbw-outlier.slow-steps",
        _evidence(run, traced_ranks(run)[:1], one),
        what=what,
        next_step=why.step or look,
        why=why,
        each_ns=one.own_ns / len(scenario.steps),
        one_steps=len(scenario.steps) == 1,
        **_given(run, one, scenario.cause == IDLE),
    )


def mend_first(run: Run, too_much: float) -> str:
    """What to do about much communication where most of the excess over its limit is waiting that a mend would end."""
    gains = what_if(run).gains
    if not gains or gains[-1].gain_share < _MOSTLY * too_much:
        return ""
    return texts.filled(_WORDS["first"]["said"], {"gain": gains[0]})


def late_first(run: Run) -> str:
    """What to do where most of the matched communication is waiting for the last rank; empty where it is not."""
    if (wait_share(run) or 0.0) <= _MOSTLY:
        return ""
    return texts.filled(_WORDS["late"]["said"], {"alike": replayed(run)})


def when(run: Run, steps: Sequence[int], pauses: bool = False) -> str:
    """`` in every 5th step``, `` in steps 2, 3, 7``; empty without steps. How long the ``pauses`` at the start of the
    first recorded step are is not known."""
    if not steps:
        return ""
    recorded = sorted(set(run.table("steps")["step"].drop_nulls()))
    if period := every(steps, recorded[1:] if pauses else recorded):
        return f" in every {ordinal(period)} step"
    named = ", ".join(map(str, steps[:_FEW])) + (" ..." if len(steps) > _FEW else "")
    if len(steps) > 2 and steps[-1] - steps[0] == len(steps) - 1:
        named = f"{steps[0]}-{steps[-1]}"
    return f" in step{'s' if len(steps) > 1 else ''} {named}"


def every(steps: Sequence[int], recorded: Sequence[int] = ()) -> int:
    """The period of steps at equal distances, 0 where there is none. Two tell one where no third could be recorded."""
    apart = [b - a for a, b in pairwise(steps)]
    if not apart:
        return 0
    period = math.gcd(*apart)
    if len(steps) == 2 and not (
        steps[0] - period < min(recorded, default=0) and steps[1] + period > max(recorded, default=0)
    ):
        return 0
    return period if period > 1 and apart.count(period) >= _REGULAR * len(apart) else 0


def ordinal(number: int) -> str:
    """``3rd``."""
    last = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else last}"


def _evidence(run: Run, ranks: Sequence[int], one: Gain) -> tuple[Ref, ...]:
    inputs = input_of_rank(run)
    text = _given(run, one)["mended"]
    return trace_refs([(inputs.get(r), text if len(ranks) == 1 else f"rank {r}: {text}") for r in ranks])

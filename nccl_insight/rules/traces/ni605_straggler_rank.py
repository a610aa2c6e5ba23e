"""One rank arrives last in matched collectives, more often than chance allows."""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.base.model import CannotJudge, Confidence, Hit
from nccl_insight.base.units import format_ns, format_ranks
from nccl_insight.facts.late import Straggler
from nccl_insight.facts.straggler import LateHost, arrivals, late_hosts
from nccl_insight.facts.waiting import waiting
from nccl_insight.rules._gains import LATE, Mended, late_hit, mended, replayed, uneven
from nccl_insight.rules._late_reason import why_late
from nccl_insight.rules._traces import input_of_rank, odds, trace_refs, with_hosts
from nccl_insight.rules.context import Context, hit
from nccl_insight.tables.run import Run


def check(ctx: Context) -> Iterator[Hit | CannotJudge]:
    """One finding per rank that is late; reasons when nothing could be compared."""
    run = ctx.run
    gains = [one for one in mended(run, LATE) if _late(one)] if replayed(run) else []
    found = arrivals(run)
    if gains:
        named = [_hit(run, late, input_of_rank(run)) for late in found.stragglers] if found else []
        for one in gains:
            # Where one rank of those is last by itself, the others wait for it in what was not recorded.
            within = [hit for hit in named if set(hit.ranks) < set(one.gain.scenario.ranks)]
            yield within[0] if len(within) == 1 and len(named) == 1 else late_hit(run, one)
        return
    if found is None:
        yield CannotJudge(
            "collectives of fewer than two ranks could be matched", "give the traces of all ranks of the same steps"
        )
        return
    inputs = input_of_rank(run)
    for late in found.stragglers:
        yield _hit(run, late, inputs)
    for host in () if found.stragglers else late_hosts(run):
        yield _host_hit(run, host, inputs.get(host.ranks[0]))


def _late(one: Mended) -> bool:
    """Whether it is late by itself in more than one step."""
    return not uneven(one) and len(one.gain.scenario.steps) != 1


def _hit(run: Run, late: Straggler, inputs: dict[int, int]) -> Hit:
    how = "start times on a common clock" if late.by_clock else "durations and own clocks (no common clock)"
    chance = late.expected_share * late.units
    many = len(late.ranks) > 1
    who = f"Ranks {format_ranks(late.ranks)}" if many else f"Rank {late.rank}"
    where = f" of group {late.group} (ranks {format_ranks(late.group_ranks)})" if late.group is not None else ""
    if late.group == "pipeline":
        where = f" of the pipeline (ranks {format_ranks(late.group_ranks)}; no collective compares its stages, so "
        where += "their own time per step is compared)"
    some = (
        f" It is late in steps {', '.join(map(str, late.steps[:12]))}{' ...' if len(late.steps) > 12 else ''} of "
        f"{late.of_steps} steps, not in the others: look for what happens in these."
        if late.steps
        else ""
    )
    elsewhere = f" {late.groups} process groups show it." if late.groups > 1 else ""
    inherited = (
        f" {format_ns(late.inherited_ns)} that it waited in other groups itself are not counted."
        if late.inherited_ns >= 0.01 * late.delay_ns and not many
        else ""
    )
    why = why_late(run, late.ranks, late.group_ranks, late.steps, f"on the host of rank {late.rank}")
    return hit(
        trace_refs(
            [
                (
                    inputs.get(r),
                    f"rank {r}: last {late.times_last} of {late.units}, worst {format_ns(late.worst_delay_ns)}",
                )
                for r in late.ranks
            ]
        ),
        whom=with_hosts(run, late.ranks),
        title=f"{who} arrive{'' if many else 's'} last in {late.times_last} of {late.units} {late.unit}: "
        f"the others wait {format_ns(late.delay_ns)} ({late.window_share:.0%} of the time)",
        explanation=f"The others wait inside the collective; the transfer itself is not slow.{why.text} "
        "Delay is the time from the next-to-last arrival to the last, at most the communication that another rank "
        f"could not hide: {late.delay_share:.0%} of it is for "
        f"{'them' if many else 'this rank'}, {late.window_share:.0%} of the recorded time, at worst "
        f"{format_ns(late.worst_delay_ns)} at once.{_waited(run, late)} In the collectives{where} it would be "
        f"last in {chance:.1f} of {late.units} by chance: {odds(late.p_value)}, after correction for the number of "
        f"ranks. Arrival from {how}.{inherited}{elsewhere}{some}",
        observed=f"last in {late.times_last} of {late.units} {late.unit}",
        expected=f"last in about {chance:.1f} of {late.units}, by chance",
        next_step=why.step,
        confidence=Confidence.HIGH if late.p_value < 0.001 else Confidence.MEDIUM,
    )


def _waited(run: Run, late: Straggler) -> str:
    """What the figure of the report shows, too: the waiting of all ranks together, and how much of it is for these."""
    found = waiting(run)
    if found is None or not found.total_ns or not any(found.for_rank.get(r) for r in late.ranks):
        return ""
    return (
        f" All ranks together wait {format_ns(found.total_ns)} in {found.collectives} matched collectives, "
        f"{found.share(late.ranks):.0%} of that for {'them' if len(late.ranks) > 1 else 'it'}."
    )


def _host_hit(run: Run, host: LateHost, input_id: int | None) -> Hit:
    late = host.test
    chance = late.expected_share * late.units
    ranks = format_ranks(host.ranks)
    every = run.table("trace_clocks")["rank"].drop_nulls().to_list()
    why = why_late(run, host.ranks, every, where=f"on {host.host}")
    return hit(
        trace_refs([(input_id, f"ranks {ranks}: worst {format_ns(late.worst_delay_ns)} at once")]),
        whom=(*host.ranks, host.host),
        title=f"The ranks of host {host.host} ({ranks}) arrive last in {late.times_last} of {late.units} {late.unit}: "
        f"the others wait {format_ns(late.delay_ns)} ({late.window_share:.0%} of the time)",
        explanation=f"No single rank stands out, but the host does: by chance it would be {chance:.1f} of "
        f"{late.units}, {odds(late.p_value)} after correction for the number of hosts. It causes "
        f"{late.delay_share:.0%} of the delay between hosts (from the next-to-last arrival to the last).{why.text}",
        observed=f"last in {late.times_last} of {late.units} {late.unit}",
        expected=f"last in about {chance:.1f} of {late.units}, by chance",
        next_step=why.step,
        confidence=Confidence.MEDIUM,
    )

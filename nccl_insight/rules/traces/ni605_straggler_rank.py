"""One rank arrives last in matched collectives, more often than chance allows.

What it finds
-------------
A rank for which the others wait: late arrival, not slow transfer.

Why it matters
--------------
Every synchronising collective runs at the pace of the last rank; its lateness is paid by all GPUs.

How it decides
--------------
Collectives are matched over ranks. The delay a rank causes is its arrival minus the second-last arrival. Per step
(per collective when there are fewer than four steps) the rank that delays most is counted, and the count is tested
against chance (binomial, corrected for the number of ranks; 5 % over steps, 1 % over single collectives, 1 in a
million over single collectives of CPU processes, which the scheduler makes depend on each other). With four to seven
steps the delays themselves are compared with random draws of a rank in each step. Rare but large delays are tested
among the outlying steps alone. The rank must also cause a large share of all delay and cost at least 1 % of the time;
where chance is out of the question, the longest delay by another rank is left out of that share (often a profiler
that starts late). If no rank passes, whole hosts are tested in the same way. Without a common clock, arrival is taken
from durations: all members end together.

What to do
----------
Look at that rank's host: CPU contention, data loading, GPU clocks and throttling (``nvidia-smi -q -d PERFORMANCE``),
a slower NIC or disk, extra work such as logging or checkpoints.

False positives
---------------
Pipeline stages with unequal work; a profiler that slows one rank; very short windows.

References
----------
Binomial test with Bonferroni correction; arrival definitions as in TraceLens and HolisticTraceAnalysis.
"""

from __future__ import annotations

from collections.abc import Iterator

from nccl_insight.facts.straggler import LateHost, Straggler, arrivals, late_hosts
from nccl_insight.model import Action, CannotJudge, Confidence, Hit, Severity
from nccl_insight.rules._traces import hosts_of, input_of_rank, trace_refs
from nccl_insight.tables.run import Run
from nccl_insight.units import format_ns, format_ranks

CLASS = "P"
SEVERITY = Severity.WARNING
ACTION = Action.TRIAGE
NEEDS = ("collectives",)
SOURCES = ("TraceLens implicit sync analysis", "binomial test, Bonferroni correction")


def check(run: Run) -> Iterator[Hit | CannotJudge]:
    """One finding a rank that is late; reasons when nothing could be compared."""
    found = arrivals(run)
    if found is None:
        yield CannotJudge(
            "collectives of fewer than two ranks could be matched",
            "give the traces of all ranks of the same steps",
        )
        return
    inputs = input_of_rank(run)
    for late in found.stragglers:
        yield _hit(run, late, inputs.get(late.rank))
    for host in () if found.stragglers else late_hosts(run):
        yield _host_hit(host, inputs.get(host.ranks[0]))


def _hit(run: Run, late: Straggler, input_id: int | None) -> Hit:
    how = "start times on a common clock" if late.by_clock else "durations (no common clock)"
    chance = late.expected_share * late.units
    return Hit(
        title=f"Rank {late.rank} arrives last in {late.times_last} of {late.units} {late.unit} and delays the others "
        f"by {format_ns(late.delay_ns)} in all",
        explanation=f"By chance it would be {chance:.1f} of {late.units}: p = {late.p_value:.2g} after correction for "
        f"the number of ranks. It causes {late.delay_share:.0%} of all delay, {late.window_share:.0%} of the recorded "
        f"time, at worst {format_ns(late.worst_delay_ns)} at once. The others wait inside the collective; the transfer "
        f"itself is not slow. Arrival from {how}.",
        observed=f"last in {late.times_last} of {late.units} {late.unit}",
        expected=f"about {chance:.1f} of {late.units}",
        next_step=f"on the host of rank {late.rank}: nvidia-smi -q -d PERFORMANCE,CLOCK; look for CPU contention, data "
        "loading, logging",
        confidence=Confidence.HIGH if late.p_value < 0.001 else Confidence.MEDIUM,
        ranks=(late.rank,),
        hosts=hosts_of(run, (late.rank,)),
        evidence=trace_refs(
            [
                (
                    input_id,
                    f"rank {late.rank}: last {late.times_last} of {late.units}, worst {format_ns(late.worst_delay_ns)}",
                )
            ]
        ),
    )


def _host_hit(host: LateHost, input_id: int | None) -> Hit:
    late = host.test
    chance = late.expected_share * late.units
    ranks = format_ranks(host.ranks)
    return Hit(
        title=f"The ranks of host {host.host} ({ranks}) arrive last in {late.times_last} of {late.units} {late.unit} "
        f"and delay the others by {format_ns(late.delay_ns)} in all",
        explanation=f"No single rank stands out, but the host does: by chance it would be {chance:.1f} of "
        f"{late.units}, p = {late.p_value:.2g} after correction for the number of hosts. It causes "
        f"{late.delay_share:.0%} of all delay between hosts.",
        observed=f"last in {late.times_last} of {late.units} {late.unit}",
        expected=f"about {chance:.1f} of {late.units}",
        next_step=f"on {host.host}: nvidia-smi -q -d PERFORMANCE,CLOCK; compare CPU load, disks, network with others",
        confidence=Confidence.MEDIUM,
        ranks=host.ranks,
        hosts=(host.host,),
        evidence=trace_refs([(input_id, f"ranks {ranks}: worst {format_ns(late.worst_delay_ns)} at once")]),
    )

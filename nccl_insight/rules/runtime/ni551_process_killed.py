"""A process of the job was killed from outside."""

import polars as pl

from nccl_insight.base.model import Step
from nccl_insight.facts.said.clock import DAY_S, SKEW_S
from nccl_insight.facts.said.ends import KILLED, End
from nccl_insight.facts.said.errors import causes
from nccl_insight.facts.setup.settings import named
from nccl_insight.rules import _outside as outside
from nccl_insight.rules._closed import behind_the_close
from nccl_insight.rules.context import Context, Hits
from nccl_insight.rules.says import said
from nccl_insight.tables.normalise.ends import GONE
from nccl_insight.tables.run import Run


def _of_its_day(run: Run, found: tuple[End, ...]) -> tuple[End, ...]:
    """Without those of a day before peers lost one: a process of an earlier job may have had the same number."""
    lost_s = causes(run).filter(pl.col("cause") == GONE)["time_s"].drop_nulls()
    begun = lost_s.min() if lost_s.len() else None
    if isinstance(begun, float):
        found = tuple(e for e in found if e.time_s is None or e.time_s > begun - DAY_S) or found
    return found


def _of_one_time(found: list[End]) -> list[End]:
    """Without those of nobody known, long before the first of a rank: the kernel's log holds other jobs', too."""
    known = [e.time_s for e in found if e.ranks and e.time_s is not None]
    first = min(known, default=None)
    return [e for e in found if e.ranks or first is None or e.time_s is None or e.time_s > first - SKEW_S]


def _one_death(run: Run) -> list[End]:
    """The first that was killed, those killed for memory before all others, and all witnesses of the same deaths,
    whatever each of them knows."""
    killed = outside.of_kind(run, KILLED)
    found = _of_its_day(run, tuple(e for e in killed if not e.beside) or killed)
    if not found:
        return []
    memory = _of_one_time([e for e in found if e.memory])
    first = outside.first_of(memory or found)
    dead = {rank for e in memory or [first] for rank in e.ranks}
    return [first, *(e for e in found if e is not first and (e in memory or dead.intersection(e.ranks)))]


def check(ctx: Context) -> Hits:
    """At most one finding: those killed for memory, else the first one killed."""
    run = ctx.run
    chosen = _one_death(run)
    if not chosen:
        return
    first, ranks, hosts = chosen[0], outside.ranks_of(chosen), outside.hosts_of(chosen)
    before, who = outside.led_to(run, first), outside.subject(chosen)
    # Another container than that of the ranks, or every rank in the log closed its communicators later on.
    other = not ranks and all(e.beside or behind_the_close(run, e.ref) < 0 for e in chosen)
    hit = ctx.says(
        "found",
        (),
        steps=(
            Step(
                "check",
                "dmesg -T | grep -iE 'oom|killed process'",
                f"on {named(hosts)}" if hosts else "on the hosts of the job",
            ),
            Step("check", "<record of the job>"),
            *([Step("do", said("process-killed.less", {})["next_step"])] if first.memory else ()),
        ),
        caused_by=before,
        other=other,
        who=who,
        whose=f"{who[0].lower()}{who[1:]}",
        several=len(ranks) > 1,
        worker=first.message == "worker",
        memory=first.memory,
        since=outside.since(chosen),
        echo=before or other or outside.bare_echo(run, first),
        sure=first.memory or hosts,
    )
    yield outside.placed(run, hit, first, chosen)

"""The scheduler ended the job."""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Final

import polars as pl

from nccl_insight.base.model import Severity, Step
from nccl_insight.base.natures import names
from nccl_insight.facts.ends import BARE, CRASHED, ENDED, FAILED, KILLED, End, ends
from nccl_insight.facts.errors import CONSEQUENCE, causes
from nccl_insight.facts.scheduler import scheduler
from nccl_insight.facts.settings import named
from nccl_insight.facts.topics import told
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules import _outside as outside
from nccl_insight.rules._closed import after_the_close
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_BEFORE_S = 60.0
_ASK: Final = Step("check", "<record of the job>")
_EVICTED: Final = Step("check", "kubectl get events --field-selector reason=Evicted", "and kubectl describe pod")
_ADVICE: Final[Mapping[str, tuple[Step, ...]]] = {
    "hangup": (Step("do", "start it so that it outlives the session: sbatch, tmux, or nohup"),),
    "time": (
        _ASK,
        Step(
            "do",
            "ask for more time (--time, walltime, activeDeadlineSeconds), or save before the end "
            "(sbatch --signal=USR1@300)",
        ),
    ),
    "storage": (
        _EVICTED,
        Step("do", "raise the pod's request and limit of ephemeral-storage, or write to a volume that is mounted"),
    ),
    "memory": (
        _EVICTED,
        Step("do", "raise the pod's request and limit of memory to what it takes, or move it to a node with more"),
    ),
    "preempted": (_ASK, Step("do", "save often enough to resume, or ask for capacity that nobody takes away")),
}
_LOST = {"node-lost": "The scheduler", "node-lost-mpi": "mpirun", "node-lost-ray": "Ray"}


def check(ctx: Context) -> Hits:
    """At most one finding."""
    run = ctx.run
    found = outside.of_kind(run, ENDED)
    if not found:
        return
    strong = [e for e in found if e.strong]
    first = outside.first_of(strong or [e for e in found if not _passing(e)] or found)
    before = outside.strong_before(run, first, (CRASHED, FAILED))
    if any(e.memory and outside.earlier(e, first) is not False for e in outside.of_kind(run, KILLED)):
        before = (KILLED, *before)
    elif not strong:
        before = (*outside.strong_before(run, first, (KILLED,)), *before)
    # The host of a step's line is where the step began; a lost node has a line of its own.
    lost = [e for e in strong if not e.parts.isdisjoint(_LOST)]
    hosts = outside.hosts_of(lost) or outside.hosts_of([e for e in [first] if "cancelled" not in e.parts])
    told_to = ""
    gone = bool(lost) or "NODE FAIL" in first.text.upper()
    if strong:
        # Slurm takes minutes to find that a node is gone; its peers saw that before.
        severity, caused_by = None, (*(() if gone else _earlier(run, first.time_s)), *before)
    elif told_first := _told_first(run, found):
        # Some were told to end, and what the others report is that these are gone.
        first, hosts = told_first[0], outside.hosts_of(told_first)
        severity, caused_by = None, before
        told_to = (
            f"Processes on {named(hosts)} were told to end (SIGTERM){outside.since(told_first)}; nothing failed before"
        )
    else:
        # SIGTERM or a cancelled step, and no reason: an effect of whatever failed.
        begun = _first_failure(run)
        effect = bool(before) or not outside.network_only(run) or bool(outside.of_kind(run, FAILED))
        effect |= begun is not None and first.time_s is not None and begun < first.time_s - _BEFORE_S
        severity, caused_by = (Severity.INFO if effect else None), before
    passing = _passing(first)
    if passing:
        # Said of steps that fail by themselves too.
        others = any(e.kind != ENDED for e in ends(run)) or outside.bare_echo(run, first)
        severity = Severity.INFO if others or severity is Severity.INFO else Severity.WARNING
    begin, end = outside.times_of([first])
    said = pl.DataFrame({"text": [first.text]})
    if not strong and not told_to and (first.signal == 2 or told(said, "interrupted").item() is not None):
        yield ctx.says(
            "found",
            outside.refs_of([first, *(e for e in found if e is not first)]),
            whom=hosts,
            observed=first.text,
            caused_by=caused_by,
            first_s=begin,
            last_s=end,
            deliberate=True,
            since=outside.since([first]),
            strip=first.text.strip("* "),
        )
        return
    why = first.text.strip("* ").split(". Threshold")[0].rpartition(" DUE TO ")[2].removeprefix("JOB ")
    why = outside.PACKAGE.sub("", why)
    what = f"The job was ended from outside{outside.since([first])}: {shorten(why, 60)}"
    cancelled = not strong and "cancelled" in first.parts
    hangup = not strong and told(said, "hangup").item() is not None
    what, chosen = told_to or what, False
    late = all(after_the_close(run, e.ref) for e in found)
    if lost and hosts:
        who = next(who for part, who in _LOST.items() if part in lost[0].parts)
        what = f"{who} lost {'nodes' if len(hosts) > 1 else 'node'} {named(hosts)}{outside.since([first])}"
    elif cancelled:
        what = f"The job was cancelled{outside.since([first])} (scancel: by a person, a script or the launcher)"
        # The user's own choice is no fault, and who chose is not in the log. Of the launcher's there is an effect.
        chosen, severity = severity is None, severity or Severity.WARNING
    elif hangup:
        what = f"The terminal or login session that the job ran in was closed{outside.since([first])} (SIGHUP)"
    if late:
        # What the job still had to do, such as saving, is not in the log; who cancels it knows.
        what += ", after all its communicators were closed"
        severity = Severity.INFO if cancelled else severity or Severity.WARNING
    yield ctx.says(
        "found-scheduler-signal",
        outside.refs_of([first, *(e for e in found if e is not first)]),
        whom=(*(first.ranks if strong else ()), *hosts),
        title=what,
        steps=_steps(run, "hangup" if hangup else "node" if lost else told(said, "end-advice").item(), hosts),
        observed=first.text,
        severity=severity,
        caused_by=caused_by,
        first_s=_seen(run, begin) if gone else begin,
        last_s=end,
        deliberate=chosen,
        strong=strong,
    )


def _passing(end: End) -> bool:
    """Whether the line is said of steps that fail by themselves, too."""
    return end.message == BARE or "passing" in end.parts


def _steps(run: Run, reason: str | None, hosts: Sequence[str]) -> tuple[Step, ...]:
    """What to look at and to change, by the reason of the end."""
    node = hosts[0] if len(hosts) == 1 else ""
    if reason == "node" and node:
        kind = scheduler(run).kind
        ask = {
            "slurm": f"scontrol show node {node}; sinfo -R -n {node}",
            "kubernetes": f"kubectl describe node {node}",
        }.get(kind, f"ping -c 3 {node}; ssh {node} 'uptime; dmesg -T | tail -50'")
        without = f" (--exclude={node})" if kind == "slurm" else ""
        return (
            Step("check", ask, "why did it go?"),
            Step("do", f"start the job again without {node}{without} until its logs say why"),
        )
    return _ADVICE.get(reason or "", (_ASK,))


def _first_failure(run: Run) -> float | None:
    """When anything but an end from outside was first reported."""
    rows = causes(run).filter(pl.col("loud") & ~pl.col("cause").is_in([*outside.QUIET, CONSEQUENCE, ENDED]))
    first = rows["time_s"].min()
    return first if isinstance(first, float) else None


def _told_first(run: Run, found: Sequence[End]) -> tuple[End, ...]:
    """Ends by SIGTERM on some hosts of the job before anything failed on the others: a failed job is ended on all."""
    known = set(places(run).machines) or {h for e in ends(run) for h in e.hosts}
    told = tuple(e for e in found if e.hosts and e.time_s is not None)
    hosts = set(outside.hosts_of(told))
    first = min((e.time_s for e in told if e.time_s is not None), default=None)
    if first is None or not hosts or not hosts < known:
        return ()
    begun = _first_failure(run)
    failed = [e for e in ends(run) if e.kind != ENDED and not set(e.hosts) <= hosts]
    if (begun is not None and begun < first) or any(e.time_s is None or e.time_s < first for e in failed):
        return ()
    return told


def _seen(run: Run, begin: float | None) -> float | None:
    """When a lost node was first missed: by its peers, minutes before the scheduler notices."""
    rows = causes(run).filter(pl.col("cause").is_in(list(names("echo"))) & pl.col("loud"))
    return min([t for t in (*rows["time_s"].drop_nulls().to_list(), begin) if t is not None], default=None)


def _earlier(run: Run, time_s: float | None) -> tuple[str, ...]:
    """Failures that clocks put well before the end."""
    if time_s is None:
        return ()
    rows = causes(run).filter(
        pl.col("cause").is_in(list(names("startup", "own"))) & pl.col("loud") & (pl.col("time_s") < time_s - _BEFORE_S)
    )
    return tuple(sorted(set(rows["cause"].to_list())))

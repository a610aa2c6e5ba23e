"""The scheduler ended the job."""

from collections.abc import Sequence
from textwrap import shorten
from typing import Any, Final

import polars as pl

from nccl_insight.base.natures import names
from nccl_insight.facts.said.course import course
from nccl_insight.facts.said.ends import BARE, CRASHED, ENDED, FAILED, End, ends
from nccl_insight.facts.said.errors import CONSEQUENCE, causes
from nccl_insight.facts.said.topics import told
from nccl_insight.facts.setup.settings import named
from nccl_insight.facts.who.scheduler import scheduler
from nccl_insight.loading.assemble.places import places
from nccl_insight.rules import _outside as outside
from nccl_insight.rules._closed import behind_the_close
from nccl_insight.rules.context import Context, Hits
from nccl_insight.tables.run import Run

_BEFORE_S = 60.0
_FAILURE: Final = ~pl.col("cause").is_in([*outside.QUIET, CONSEQUENCE, ENDED])
_LOST = ("node-lost", "node-lost-mpi", "node-lost-ray")


def check(ctx: Context) -> Hits:
    """At most one finding: the end that gives a reason, else who was told to end before anything failed, else a signal
    or a cancelled step, which may be an effect."""
    run = ctx.run
    found = outside.of_kind(run, ENDED)
    if not found:
        return
    strong = [e for e in found if e.strong]
    told_first = () if strong else _told_first(run, found)
    first = outside.first_of(strong or told_first or [e for e in found if not _passing(e)] or found)
    lines = outside.refs_of([first, *(e for e in found if e is not first)])
    late = all(behind_the_close(run, e.ref) > 0 for e in found)
    if strong:
        yield ctx.says("reason", lines, late=late, **_said(first), **_by_reason(run, first, strong))
    elif told_first:
        who, led = outside.hosts_of(told_first), outside.led_to(run, first)
        yield ctx.says("told", lines, who, late=late, first_s=first.time_s, caused_by=led, **_said(first))
    else:
        yield ctx.says("signal", lines, late=late, **_said(first), **_by_signal(run, first, late))


def _said(first: End) -> dict[str, Any]:
    """What the line itself says of the end: why, and when."""
    why = first.text.strip("* ").split(". Threshold")[0].rpartition(" DUE TO ")[2].removeprefix("JOB ")
    why = shorten(outside.PACKAGE.sub("", why), 60)
    return {"observed": first.text, "last_s": first.time_s, "since": outside.since([first]), "why": why}


def _passing(end: End) -> bool:
    """Whether the line is said of steps that fail by themselves, too."""
    return end.message == BARE or "passing" in end.parts


def _hosts(run: Run, first: End, lost: Sequence[End]) -> tuple[str, ...]:
    """The hosts that are gone, else the one that the scheduler speaks of."""
    known = outside.hosts_of(lost)
    if lost and not known:  # a line about a process on that node tells which it is
        known = outside.hosts_of([e for e in outside.of_kind(run, ENDED) if e.lost and e.parts & lost[0].parts])
    # The host of a step's line is where the step began.
    return known or outside.hosts_of([e for e in [first] if "cancelled" not in e.parts])


def _by_reason(run: Run, first: End, strong: Sequence[End]) -> dict[str, Any]:
    """A scheduler says why: a limit, preemption, or a node that is gone, which has a line of its own."""
    lost = [e for e in strong if not e.parts.isdisjoint(_LOST)]
    hosts, gone = _hosts(run, first, lost), bool(lost) or "NODE FAIL" in first.text.upper()
    said = {
        # Another pod's end is not that of a job that went well.
        "well": all(e.strange and "kubernetes" in e.parts for e in strong) and outside.went_well(run),
        "through": (through := course(run).behind([e.ref for e in strong])),
        "says_more": through,
        "whom": (*first.ranks, *hosts),
        "lost": next((part for part in _LOST if lost and hosts and part in lost[0].parts), ""),
        "nodes": f"{'nodes' if len(hosts) > 1 else 'node'} {named(hosts)}",
        "ask": "",
    }
    led = outside.led_to(run, first)
    if not gone:
        return said | {"caused_by": (*_earlier(run, first), *led), "first_s": first.time_s}
    # Slurm takes minutes to find that a node is gone; its peers saw that before.
    asked = (scheduler(run).kind or "host") if len(hosts) == 1 else ""
    return said | {"caused_by": led, "first_s": _seen(run, first.time_s), "ask": asked}


def _by_signal(run: Run, first: End, late: bool) -> dict[str, Any]:
    """A signal or a cancelled step, without a reason: an effect of whatever failed, else somebody's choice."""
    word = pl.DataFrame({"text": [first.text]})
    typed = first.signal == 2 or told(word, "interrupted").item() is not None
    cancelled, effect = "cancelled" in first.parts and not typed, _effect(run, first)
    return {
        "first_s": first.time_s,
        "caused_by": outside.led_to(run, first),
        "whom": () if "cancelled" in first.parts else outside.hosts_of([first]),
        # The user's own choice is no fault, and who chose is not in the log. Of the launcher's there is an effect.
        "deliberate": typed or (cancelled and not effect),
        # What the job still had to do, such as saving, is not in the log; who cancels it knows.
        "noted": typed or effect or (cancelled and late),
        "typed": typed,
        "cancelled": cancelled,
        "passing": _passing(first),
        "hangup": told(word, "hangup").item() is not None,
        "strip": first.text.strip("* "),
    }


def _effect(run: Run, first: End) -> bool:
    """Whether something else failed, of which an end without a reason is the effect."""
    begun = _first_failure(run)
    if begun is not None and first.time_s is not None:
        if begun < first.time_s - _BEFORE_S:
            return True
        if "cancelled" in first.parts and begun >= first.time_s and not _failed_above(run, first):
            return False
    if _passing(first) and (any(e.kind != ENDED for e in ends(run)) or outside.bare_echo(run, first)):
        return True
    return bool(outside.led_to(run, first) or outside.of_kind(run, FAILED)) or not outside.network_only(run)


def _failed_above(run: Run, first: End) -> bool:
    """Whether something failed before, or without a time that says when, above the line of an end."""
    above = (pl.col("input_id") != first.ref.input_id) | (pl.col("line") < first.ref.line)
    rows = causes(run).filter(_FAILURE & pl.col("loud") & pl.col("time_s").is_null() & above)
    return rows.height > 0 or any(e.kind != ENDED and not outside.earlier(first, e) for e in ends(run))


def _first_failure(run: Run) -> float | None:
    """When anything but an end from outside was first reported."""
    return _first_time(run, _FAILURE)


def _first_time(run: Run, wanted: pl.Expr) -> float | None:
    first = causes(run).filter(pl.col("loud") & wanted)["time_s"].min()
    return first if isinstance(first, float) else None


def _told_first(run: Run, found: Sequence[End]) -> tuple[End, ...]:
    """Ends by SIGTERM on some hosts of the job before anything failed on the others: a failed job is ended on all."""
    # The host of a cancelled step's line is where the step began.
    told = tuple(e for e in found if e.hosts and e.time_s is not None and "cancelled" not in e.parts)
    begin, _ = outside.times_of(told)
    hosts = set(outside.hosts_of(told))
    # Of all ends where NCCL's lines name none.
    machines = set(places(run).machines) or set[str]().union(*(e.hosts for e in ends(run)))
    begun = _first_failure(run)
    if begin is None or not hosts < machines or (begun is not None and begun < begin):
        return ()
    failed = [e for e in ends(run) if e.kind != ENDED]
    apart = [e for e in failed if not hosts.issuperset(e.hosts)]
    before = any(e.time_s is None or e.time_s < begin for e in apart)
    return () if before or any(outside.earlier(e, told[0]) for e in failed) else told


def _seen(run: Run, begin: float | None) -> float | None:
    """When a lost node was first missed: by its peers, minutes before the scheduler notices."""
    missed = _first_time(run, pl.col("cause").is_in(list(names("echo"))))
    return min((t for t in (missed, begin) if t is not None), default=None)


def _earlier(run: Run, first: End) -> tuple[str, ...]:
    """Failures that the job did not get over, well before the end: by the clock or, without one, by the place in the
    file of the line, where that is Slurm's, which stands where the job was cancelled."""
    before = (pl.col("time_s") < pl.lit(first.time_s, pl.Float64) - _BEFORE_S).fill_null(False)
    if "cancelled" in first.parts:
        here = (pl.col("input_id") == first.ref.input_id) & (pl.col("line") < first.ref.line)
        before |= here & pl.col("time_s").is_null()
    # What a rank died of that is gone before: the others waited for it until the end.
    died = any(e.kind in (CRASHED, FAILED) and e.ranks and outside.earlier(e, first) for e in ends(run))
    own = pl.col("cause").is_in(list(names("startup", "own"))) | (pl.lit(died) & _FAILURE)
    own = own & ~pl.col("cause").is_in(list(names("echo"))) & pl.col("loud") & before
    job, rows = course(run), causes(run).filter(own).select("cause", "input_id", "line", "time_s")
    return tuple(sorted({str(cause) for cause, *at in rows.iter_rows() if not job.counted_on(*at)}))

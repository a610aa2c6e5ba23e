"""The scheduler ended the job."""

from collections.abc import Sequence
from textwrap import shorten

import polars as pl

from nccl_insight.base.model import Severity, Step
from nccl_insight.base.natures import names
from nccl_insight.facts.course import course
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
    elif "cancelled" in first.parts and any(outside.earlier(e, first) for e in outside.of_kind(run, KILLED)):
        before = (KILLED, *before)
    # The host of a step's line is where the step began; a lost node has a line of its own.
    lost = [e for e in strong if not e.parts.isdisjoint(_LOST)]
    hosts = outside.hosts_of(lost) or outside.hosts_of([e for e in [first] if "cancelled" not in e.parts])
    gone = bool(lost) or "NODE FAIL" in first.text.upper()
    told_first = () if strong else _told_first(run, found)
    severity, caused_by = None, before
    if strong:
        # Slurm takes minutes to find that a node is gone; its peers saw that before.
        caused_by = (*(() if gone else _earlier(run, first)), *before)
    elif told_first:
        # Some were told to end, and what the others report is that these are gone.
        first, hosts = told_first[0], outside.hosts_of(told_first)
    else:
        # SIGTERM or a cancelled step, and no reason: an effect of whatever failed.
        begun = _first_failure(run)
        effect = bool(before) or not outside.network_only(run) or bool(outside.of_kind(run, FAILED))
        effect |= begun is not None and first.time_s is not None and begun < first.time_s - _BEFORE_S
        severity = Severity.INFO if effect else None
    if _passing(first):
        # Said of steps that fail by themselves too.
        others = any(e.kind != ENDED for e in ends(run)) or outside.bare_echo(run, first)
        severity = Severity.INFO if others or severity is Severity.INFO else Severity.WARNING
    begin, end = outside.times_of([first])
    said = pl.DataFrame({"text": [first.text]})
    typed = not strong and not told_first and (first.signal == 2 or told(said, "interrupted").item() is not None)
    cancelled = not strong and "cancelled" in first.parts and not typed
    # The user's own choice is no fault, and who chose is not in the log. Of the launcher's there is an effect.
    chosen = typed or (cancelled and severity is None)
    if cancelled:
        severity = severity or Severity.WARNING
    late = all(after_the_close(run, e.ref) for e in found)
    if late:
        # What the job still had to do, such as saving, is not in the log; who cancels it knows.
        severity = Severity.INFO if cancelled else severity or Severity.WARNING
    why = first.text.strip("* ").split(". Threshold")[0].rpartition(" DUE TO ")[2].removeprefix("JOB ")
    yield ctx.says(
        "found",
        outside.refs_of([first, *(e for e in found if e is not first)]),
        whom=(*(first.ranks if strong else ()), *hosts),
        typed=typed,
        severity=Severity.INFO if typed else severity,
        steps=_steps(run, hosts[0]) if gone and len(hosts) == 1 else (),
        observed=first.text,
        caused_by=caused_by,
        first_s=_seen(run, begin) if gone else begin,
        last_s=end,
        deliberate=chosen,
        strong=strong,
        by=next((who for part, who in _LOST.items() if lost and hosts and part in lost[0].parts), ""),
        nodes=f"{'nodes' if len(hosts) > 1 else 'node'} {named(hosts)}",
        told=f"{named(hosts)} were told to end (SIGTERM){outside.since(told_first)}" if told_first else "",
        cancelled=cancelled,
        hangup=not strong and told(said, "hangup").item() is not None,
        late=late,
        since=outside.since([first]),
        why=shorten(outside.PACKAGE.sub("", why), 60),
        strip=first.text.strip("* "),
    )


def _passing(end: End) -> bool:
    """Whether the line is said of steps that fail by themselves, too."""
    return end.message == BARE or "passing" in end.parts


def _steps(run: Run, node: str) -> tuple[Step, ...]:
    """What to look at where a node was lost, and how to go on without it."""
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


def _first_failure(run: Run) -> float | None:
    """When anything but an end from outside was first reported."""
    return _first_time(run, ~pl.col("cause").is_in([*outside.QUIET, CONSEQUENCE, ENDED]))


def _first_time(run: Run, wanted: pl.Expr) -> float | None:
    first = causes(run).filter(pl.col("loud") & wanted)["time_s"].min()
    return first if isinstance(first, float) else None


def _told_first(run: Run, found: Sequence[End]) -> tuple[End, ...]:
    """Ends by SIGTERM on some hosts of the job before anything failed on the others: a failed job is ended on all."""
    known = set(places(run).machines) or {h for e in ends(run) for h in e.hosts}
    # The host of a cancelled step's line is where the step began.
    told = tuple(e for e in found if e.hosts and e.time_s is not None and "cancelled" not in e.parts)
    hosts = set(outside.hosts_of(told))
    first = min((e.time_s for e in told if e.time_s is not None), default=None)
    if first is None or not hosts or not hosts < known:
        return ()
    begun = _first_failure(run)
    failed = [e for e in ends(run) if e.kind != ENDED]
    apart = [e for e in failed if not set(e.hosts) <= hosts]
    before = any(e.time_s is None or e.time_s < first for e in apart) or any(
        outside.earlier(e, told[0]) for e in failed
    )
    if before or (begun is not None and begun < first):
        return ()
    return told


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
    own = pl.col("cause").is_in(list(names("startup", "own"))) & pl.col("loud") & before
    job, rows = course(run), causes(run).filter(own).select("cause", "input_id", "line", "time_s")
    return tuple(sorted({str(cause) for cause, *at in rows.iter_rows() if not job.counted_on(*at)}))

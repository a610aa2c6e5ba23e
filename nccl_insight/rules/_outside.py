"""Shared by the rules on ends of processes and jobs: which of the lines is the first cause, and how to say it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.model import Hit, Ref
from nccl_insight.base.natures import names
from nccl_insight.facts.fabric.links import flaps
from nccl_insight.facts.said.clock import SKEW_S, clock_text
from nccl_insight.facts.said.course import course, left_in_order
from nccl_insight.facts.said.ends import BARE, CRASHED, ENDED, FAILED, KILLED, LAST_WORDS, End, ends
from nccl_insight.facts.said.errors import CONSEQUENCE, causes, present
from nccl_insight.facts.said.last_words import tails, unwell
from nccl_insight.facts.said.topics import told
from nccl_insight.facts.setup.settings import named, ranks_on
from nccl_insight.language.load import playing
from nccl_insight.tables.normalise.ends import GONE
from nccl_insight.tables.run import Run, fact

ABORT = 6
# The package in front of the class of an exception.
PACKAGE: Final = late.compiled(r"^(?:\w+\.)+(?=\w+:)")
_EVIDENCE = 4
# What keeps an exit code 1, a SIGABRT or a cancelled step from being a cause of its own: NCCL or torch failed first.
_OWN = ("startup", "own", "watchdog-stuck")


def of_kind(run: Run, kind: str) -> tuple[End, ...]:
    """Ends of one kind in reading order."""
    return tuple(e for e in ends(run) if e.kind == kind)


def earlier(one: End, other: End) -> bool | None:
    """Whether the first came before the second: by clock, else by line in one input; None when nothing tells."""
    if one.time_s is not None and other.time_s is not None and abs(one.time_s - other.time_s) > SKEW_S:
        return one.time_s < other.time_s
    if one.ref.input_id == other.ref.input_id and "report" not in one.parts | other.parts:
        return one.order < other.order
    return None


def first_of(found: Sequence[End]) -> End:
    """The earliest end: by the clock where all have one, else in reading order."""
    if all(e.time_s is not None for e in found):
        return min(found, key=lambda e: (e.time_s or 0.0, e.order))
    return min(found, key=lambda e: e.order)


def ranks_of(found: Iterable[End]) -> tuple[int, ...]:
    """All ranks named."""
    return tuple(sorted({r for e in found for r in e.ranks}))


def hosts_of(found: Iterable[End]) -> tuple[str, ...]:
    """All hosts named; of names that NCCL uses and others (a node that runs a pod), those that it uses."""
    found = tuple(found)
    known = {h for e in found for h in e.hosts if h not in e.strange}
    return tuple(sorted(known or {h for e in found for h in e.hosts}))


def refs_of(found: Iterable[End]) -> tuple[Ref, ...]:
    """The first lines as evidence."""
    return tuple(e.ref for e in found)[:_EVIDENCE]


def subject(found: Sequence[End], otherwise: str = "A process of the job") -> str:
    """``Rank 11 on gpu02``, ``A process on gpu02``, or the other words when nobody is named."""
    ranks, hosts = ranks_of(found), hosts_of(found)
    if ranks:
        return ranks_on(ranks, hosts)
    local = {e.local_rank for e in found}
    if len(local) == 1 and None not in local and len(hosts) < 2:
        return f"Local rank {local.pop()} {f'on {hosts[0]}' if hosts else 'of a host'}"
    return f"A process on {named(hosts)}" if hosts else otherwise


def since(found: Sequence[End]) -> str:
    """`` at 2025-06-01 10:00:00``, or empty."""
    times = [e.time_s for e in found if e.time_s is not None]
    return f" at {clock_text(min(times))}" if times else ""


def times_of(found: Sequence[End]) -> tuple[float | None, float | None]:
    """First and last time."""
    times = [e.time_s for e in found if e.time_s is not None]
    return (min(times), max(times)) if times else (None, None)


_PID: Final = late.compiled(r"(?i)\b(?:killed process|pid(?:\(s\))?)[ :=]+([0-9]{2,9})\b")


def _parents(run: Run, found: Sequence[End]) -> tuple[int, ...]:
    """The rank whose exception names the process that ended: a data loader's worker, say, is no rank by itself."""
    pids, hosts = {pid for e in found for pid in _PID.findall(e.text)}, hosts_of(found)
    named_it = [
        e
        for e in ends(run)
        if e.exception and e.ranks and e.hosts == hosts and not pids.isdisjoint(_PID.findall(e.text))
    ]
    return ranks_of(named_it)


def placed(run: Run, hit: Hit, first: End, found: Sequence[End]) -> Hit:
    """The hit with its own words, else what ``first`` says, and ranks, hosts, lines and times of all ends found."""
    begin, end = times_of(found)
    return replace(
        hit,
        observed=hit.observed or first.text,
        ranks=ranks_of(found) or _parents(run, found),
        hosts=hosts_of(found),
        evidence=refs_of([first, *(e for e in found if e is not first)]),
        first_s=begin,
        last_s=end,
    )


def own_failures(run: Run, end: End) -> bool:
    """Whether NCCL or torch reported a failure that can have ended this process: on its rank, or anywhere before it."""
    reported = _reported(run)
    if end.pid in reported.unreached or (not (end.ranks or end.pid) and _behind(reported, end)):
        return True
    if end.ranks and (reported.lost.issuperset(end.ranks) or not reported.failed.isdisjoint(end.ranks)):
        return True
    if reported.startup and end.time_s is not None and reported.startup_s is not None:
        return reported.startup_s <= end.time_s + SKEW_S
    return reported.startup


@dataclass(frozen=True)
class _Reported:
    """Failures that NCCL or torch reported: ranks that lost a peer, those that failed by themselves, and whether, and
    since when, init failed. Processes that could not reach a peer, and the first such line of each input."""

    lost: frozenset[int]
    failed: frozenset[int]
    startup: bool
    startup_s: float | None
    unreached: frozenset[int]
    bootstrap: Mapping[int, int]


def _behind(reported: _Reported, end: End) -> bool:
    """Whether an exit that names no process stands behind a peer that could not be reached."""
    return end.exit_code in (None, 1) and end.ref.line > reported.bootstrap.get(end.ref.input_id, end.ref.line)


@fact
def _reported(run: Run) -> _Reported:
    rows = causes(run).select("cause", "rank", "loud", "time_s", "pid", "input_id", "line")
    own = rows.filter(pl.col("cause").is_in(list(names(*_OWN))))
    startup = own.filter(pl.col("cause").is_in(list(names("startup"))) & pl.col("loud"))
    first = startup["time_s"].min()
    alone = rows.filter(pl.col("cause").is_in(list(names("bootstrap"))) & pl.col("loud"))
    lines = alone.drop_nulls("line").group_by("input_id").agg(pl.col("line").min())
    return _Reported(
        frozenset(rows.filter(pl.col("cause") == GONE)["rank"].drop_nulls()),
        frozenset(own["rank"].drop_nulls()),
        startup.height > 0,
        first if isinstance(first, float) else None,
        frozenset(int(pid) for pid in alone["pid"].drop_nulls()),
        {int(i): int(n) for i, n in lines.iter_rows()},
    )


@fact
def exits_passed_on(run: Run) -> bool:
    """Whether all that ended are exit codes beside an exception that passes on what failed in NCCL or the store.

    A peer that is gone is no such failure where the exit names a rank: that rank is then what is to be told.
    """
    found = ends(run)
    if not found or any(e.kind != FAILED or e.exception or e.message == LAST_WORDS for e in found):
        return False
    rows = causes(run).filter((pl.col("cause") == CONSEQUENCE) & pl.col("loud"))
    result, first = told(rows, "result-words"), first_of(found)
    before = (pl.col("input_id") == first.ref.input_id) & (pl.col("line") < first.ref.line)
    if not first.ranks:
        return rows.filter(before).height > 0
    there = pl.col("rank").is_in(list(first.ranks)) & (result != "remote-error")
    alike = before & pl.col("rank").is_null() & ~result.is_in(["remote-error", "unhandled-system-error"])
    quoted = pl.col("input_id").eq(first.ref.input_id) & pl.lit("quotes" in first.parts) & pl.col("rank").is_null()
    return rows.filter(there | alike | quoted).height > 0


def _well(run: Run) -> set[int]:
    """The inputs whose last words are those of a program that is through."""
    return {tail.input_id for tail in tails(run) if tail.well}


def went_well(run: Run) -> bool:
    """Whether all inputs in which ranks speak end as a program that is through, or all ranks closed in order: what an
    event of the cluster says beside that did not end the job."""
    own = set(run.table("milestones")["input_id"])
    return left_in_order(run) or (bool(own) and own <= _well(run))


@fact
def passed_on_alone(run: Run) -> pl.DataFrame | None:
    """What launchers and frameworks pass on (rows of ``causes``) of a job that did not go on."""
    rows = causes(run)
    coded = exits_passed_on(run)
    if not rows["cause"].is_in([CONSEQUENCE]).any() or (not coded and (ends(run) or went_well(run))):
        return None
    job = course(run)
    loud = job.not_stopped(unwell(run)).filter(~pl.lit(coded) | (pl.col("cause") != FAILED))
    if loud.is_empty() or bool((loud["cause"] != CONSEQUENCE).any()):
        return None
    well = _well(run)
    # Where ranks go on to their init, or to a step, what was said before did not end them.
    first = run.table("milestones").drop_nulls("init_started").group_by("input_id").agg(pl.col("init_started").min())
    last = {**dict(first.iter_rows()), **{input_id: line for input_id, (line, _) in job.steps.items()}}
    trail = pl.col("message").is_in(playing("trail"))  # another check tells of it
    foreign = (pl.col("host").is_null() & pl.col("pid").is_null() & ~trail) | pl.col("message").str.starts_with(
        "tests_"
    )
    rows = loud.filter(foreign & ~pl.col("input_id").is_in(list(well)))
    rows = rows.filter(
        pl.col("line").cast(pl.Int64)
        > pl.col("input_id").cast(pl.Int64).replace_strict(last, default=-1, return_dtype=pl.Int64)
    )
    return rows if rows.height else None


QUIET: Final = ("benign", "other", "plain-note")


def loud_besides(run: Run, kinds: Iterable[str]) -> bool:
    """Whether NCCL, torch or a launcher reported anything loud that is none of these kinds."""
    return causes(run).filter(pl.col("loud") & ~pl.col("cause").is_in([*QUIET, *kinds])).height > 0


def bare_echo(run: Run, end: End) -> bool:
    """Whether a shell's word for a signal (``Killed``) stands behind failures, after which somebody ended the job."""
    if end.message != BARE:
        return False
    return loud_besides(run, (end.kind,)) or any(e.message != BARE for e in ends(run))


def network_only(run: Run) -> bool:
    """Whether all that NCCL reported can be the echo of a process that ended, but for ports that came back."""
    own = present(run) & set(names(*_OWN))
    return not own or (own <= set(names("link")) and all(flap.back for flap in flaps(run)))


# The kinds of ends that one of a kind may come of.
_LEADS: Final = {
    KILLED: (FAILED, CRASHED, ENDED),
    CRASHED: (KILLED, FAILED),
    ENDED: (KILLED, CRASHED, FAILED),
    FAILED: (KILLED, CRASHED, ENDED),
}


def led_to(run: Run, end: End) -> tuple[str, ...]:
    """Kinds of ends that this one may have come of: where a line proves one that is not later; none of a process that
    was killed for memory, nor what ended the job of an exception."""
    if end.kind == KILLED and end.memory:
        return ()
    kinds = (kind for kind in _LEADS[end.kind] if kind != ENDED or not end.exception)
    return tuple(kind for kind in kinds if any(e is not end and _leads(e, end) for e in of_kind(run, kind)))


def _leads(one: End, end: End) -> bool:
    before, cancelled = earlier(one, end), "cancelled" in one.parts | end.parts
    # A scheduler that gives a reason ends all processes of the job, some by SIGKILL; memory it may have missed.
    if one.kind == KILLED and end.kind == ENDED and end.strong and not one.memory:
        return before is True and cancelled
    # Slurm sends SIGTERM, and SIGKILL to what is still there after ``KillWait``; of a step that is cancelled because a
    # task died that task's line is first. A launcher that says of one process that it failed killed the others.
    swept = (cancelled and one.ref.input_id == end.ref.input_id) or (one.kind == FAILED and one.message == end.message)
    return (one.strong and before is not False) or (end.kind == KILLED and swept and before is True)

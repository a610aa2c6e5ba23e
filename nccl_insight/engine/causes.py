"""The fault graph: which findings are consequences of which, and what that does to their severity.

A finding is linked under the finding that explains it: one that its page names (``caused_by``), what ended a process
from outside of NCCL for what its peers report, or, for a secondary diagnosis, any failure. A cause does not begin
after its effect: by the clocks of their lines where both have one, allowing for clocks of hosts that differ
(:func:`set_ahead` finds those that are minutes ahead), else by line order within one process, the only order that
means anything. A link event explains an error only on the same device of the same host and near in time. Among
several candidates the one that is itself unexplained wins, then what lies nearer to a first cause, the more severe,
the one that others do not precede in a process, and the one on the host of the effect: never the place in a file that
many processes wrote. What the kernel logged more than a day before all else does not come first (:func:`old`).
Links never form a circle. Failures that explain the same effect equally well, and that neither clocks nor a process put
in order, are no root: the first of them is the first error in the log, no more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.model import Confidence, FindingClass, Role, Severity
from nccl_insight.base.natures import names, nearness
from nccl_insight.base.units import plural
from nccl_insight.engine.draft import Draft
from nccl_insight.facts.said.clock import DAY_S, SAME_HOST_SKEW_S, SKEW_S, since
from nccl_insight.facts.said.course import Course, course
from nccl_insight.facts.said.errors import causes
from nccl_insight.loading.assemble.places import places
from nccl_insight.tables.normalise.ends import CRASHED, ENDED, FAILED, GONE, KILLED, TIMED_OUT
from nccl_insight.tables.run import Run

# NCCL prints a failed call first and its explanation right after it: such lines are one event.
_EVENT_LINES: Final = 2
# A flap ends with the retries of the queue pairs: NCCL_IB_TIMEOUT 20 and 7 retries are about half a minute.
_LINK_REACH_S: Final = 60.0
# What begins so long after the last word of a job did not end it; zones of time differ by half hours.
_LATE_S: Final = 600.0
# Steps may be counted so long after a notice that the machine is taken.
_GRACE_S: Final = 300.0
_ZONE_S: Final = 1800.0
_BEFORE: Final = "a day before the other failures: it seems to be of an earlier job"
_BEHIND: Final = "ten minutes after all else: it did not cause the other failures"


@dataclass(frozen=True)
class FirstLines:
    """What the first lines of two diagnoses tell in the processes that printed both: pairs of which one always came
    well ``behind`` the other, and pairs of which it always came ``before``."""

    behind: frozenset[tuple[str, str]]
    before: frozenset[tuple[str, str]]

    def possible(self, cause: str, effect: str) -> bool:
        """Whether no process printed both, or one did not print the effect well before the cause."""
        return (cause, effect) not in self.behind

    def precedes(self, one: str, other: str) -> bool:
        """Whether the first came earlier in every process that printed both, and there is such a process."""
        return (one, other) in self.before


def first_lines(rows: pl.DataFrame) -> FirstLines:
    """From the failures: ``cause``, ``input_id``, ``host``, ``pid`` and ``line``."""
    process, line, other = ["input_id", "host", "pid"], pl.col("line"), pl.col("line_right")
    first = rows.drop_nulls([*process, "line"]).group_by("cause", *process).agg(line.min())
    both = first.join(first, on=process).group_by("cause", "cause_right")
    told = both.agg(behind=(line > other + _EVENT_LINES).all(), before=(line < other).all())
    return FirstLines(*(frozenset(told.filter(how).drop("behind", "before").rows()) for how in ("behind", "before")))


def _failed(draft: Draft) -> bool:
    return draft.severity is Severity.ERROR and draft.rule.finding_class is FindingClass.FAILURE


def _died(draft: Draft) -> bool:
    """Whether it is the end of a process for another reason than NCCL."""
    return draft.severity is Severity.ERROR and draft.name in names("outside")


def _begun(drafts: Sequence[Draft]) -> float | None:
    """When the first of them happened, as far as that is known."""
    return min((d.first_s for d in drafts if d.first_s is not None), default=None)


def _remarked(draft: Draft, said: str) -> Draft:
    """The draft with a sentence behind what it means for this run."""
    why = draft.hit.explanation or draft.rule.section("Why it matters")
    return replace(draft, hit=replace(draft.hit, explanation=f"{why} {said}"))


def _after(cause: Draft, effect: Draft) -> bool:
    """Whether the clocks say that the alleged cause began after its effect."""
    if cause.first_s is None or effect.first_s is None:
        return False
    began = cause.first_s if cause.since_s is None else min(cause.first_s, cause.since_s)
    one_host = len(cause.hit.hosts) == 1 and cause.hit.hosts == effect.hit.hosts
    # Who gave up had waited for long: clocks that differ do not put its cause behind that.
    near = one_host or effect.name in names("hang")
    return began > effect.first_s + (SAME_HOST_SKEW_S if near else SKEW_S)


def old(drafts: Sequence[Draft]) -> set[int]:
    """Ends and errors that the kernel's log holds of earlier days: stamped more than a day before all other failures.

    Not where a failure other than an exception of the program is on the same host, or on none known: it may come from
    a GPU that has been broken since.
    """
    rest = [d for d in drafts if d.name not in names("logged")]
    failed = [d for d in rest if _failed(d)]
    begun = _begun(rest)
    found: set[int] = set()
    for i, draft in enumerate(drafts):
        last = draft.last_s if draft.last_s is not None else draft.first_s
        if draft.name not in names("logged") or last is None or begun is None or begun < last + DAY_S:
            continue
        here = set(draft.hit.hosts)
        elsewhere = here and all(d.hit.hosts and here.isdisjoint(d.hit.hosts) for d in failed)
        if failed and (elsewhere or all(d.name == FAILED for d in failed)):
            found.add(i)
    return found


def _late(run: Run, drafts: Sequence[Draft]) -> set[int]:
    """Errors that the kernel's log holds of long after all that a failed job said.

    Not where they would be of its time by the clock of another time zone, or where ranks waited for unknown time.
    """
    rest = [d for d in drafts if d.name not in names("logged")]
    told = [d for d in rest if d.name in names("echo", "outside")]
    begun = _begun(told)
    times_ = (course(run).ended_s, *(t for d in told for t in (d.first_s, d.last_s)))
    ended = max((t for t in times_ if t is not None), default=0.0)
    if begun is None or not any(map(_failed, rest)) or any(d.name in names("hang") for d in told):
        return set()
    stamped = ((i, d.first_s) for i, d in enumerate(drafts) if d.name in names("logged") and d.first_s is not None)
    late = ((i, at, (at - begun + SKEW_S) // _ZONE_S * _ZONE_S) for i, at in stamped if at > ended + _LATE_S)
    return {i for i, at, zones in late if at - zones > ended + SKEW_S}


def _aged(draft: Draft, when: str) -> Draft:
    """The draft of an event of another time: worth to know, and no error of this job."""
    said = f"It is stamped more than {when}."
    return replace(_remarked(draft, said), severity=max(draft.severity, Severity.WARNING, key=lambda s: s.order))


def set_ahead(run: Run, drafts: Sequence[Draft]) -> dict[str, float]:
    """Hosts whose clock is ahead of those of their peers, and by how many seconds at least.

    A process that ended closes its connections. Where the closes that name a host are stamped well before the only end
    on that host, nothing on it is stamped before that end, and nothing else explains the closes, its clock is wrong.
    """
    failed = [d for d in drafts if d.first_s is not None and _failed(d)]
    found: dict[str, float] = {}
    for closed in (d for d in drafts if d.name == GONE):
        ends = [d for d in failed if d.name in names("outside") and d.host and _later(d, closed)]
        others = [d for d in failed if not nearness(d.name) and d not in ends]
        host, first = closed.host, _begun(ends)
        if first is None or others or {d.host for d in ends} != {host}:
            continue
        stamped = causes(run).filter((pl.col("host") == host) & (pl.col("time_s") < first - SKEW_S))
        if stamped.is_empty() and closed.first_s is not None:
            found[host] = first - closed.first_s
    return found


def _later(one: Draft, other: Draft) -> bool:
    return one.first_s is not None and other.first_s is not None and one.first_s > other.first_s + SKEW_S


def _corrected(draft: Draft, ahead: Mapping[str, float]) -> Draft:
    """The draft by the clock of the other hosts, with a sentence that says so."""
    host = draft.host
    if host not in ahead or draft.name not in names("outside") or draft.first_s is None:
        return draft
    minutes = ahead[host] / 60
    by = plural(round(minutes), "minute") if minutes >= 1 else f"{ahead[host]:.0f} s"
    said = f"The clock of {host} seems to be {by} ahead: its peers lost it before, by their clocks."
    last = None if draft.last_s is None else draft.last_s - ahead[host]
    return replace(_remarked(draft, said), first_s=draft.first_s - ahead[host], last_s=last)


def _behind(cause: Draft, effect: Draft) -> bool:
    """Whether a close was only seen behind a time-out: so leave processes that the watchdog ends."""
    if (cause.name, effect.name) != (GONE, TIMED_OUT) or cause.first[0] != effect.first[0]:
        return False
    return (cause.first_s is None or effect.first_s is None) and cause.first > effect.first


def _leads_to(cause: Draft, effect: Draft, lines: FirstLines) -> bool:
    """Whether the cause may explain the effect, by their rules, place and time."""
    return _explains(cause, effect) and _shares(cause, effect) and _possible(cause, effect, lines)


def _possible(cause: Draft, effect: Draft, lines: FirstLines) -> bool:
    if _after(cause, effect) or _behind(cause, effect):
        return False
    return effect.rule.finding_class is FindingClass.SECONDARY or lines.possible(cause.name, effect.name)


def _on_purpose(cause: Draft, effect: Draft) -> bool:
    """Whether what a person or a scheduler did on purpose explains what processes then reported on their way out.

    An end or an exception of another process only where a clock, or the place in a file of both, puts it behind.
    """
    if effect.hit.deliberate or effect.name not in names("echo", "outside"):
        return False
    if cause.first_s is not None and effect.first_s is not None:
        return effect.first_s >= cause.first_s - SAME_HOST_SKEW_S
    if cause.first[0] == effect.first[0]:
        return effect.first >= cause.first
    return effect.name in names("echo")


def left_port(cause: Draft, effect: Draft) -> bool:
    """Whether an attempt may have found its port taken by the processes, or what they left, of one that died."""
    there = bool(set(effect.hit.hosts) & set(cause.hit.hosts))
    return there and effect.name == "bootstrap-bind-failed" and _died(cause)


def _explains(cause: Draft, effect: Draft) -> bool:
    """Whether the cause's diagnosis may explain the effect's, by the rules' own statements.

    A mere candidate (low confidence, or information) explains no error.
    """
    if cause.hit.deliberate and _on_purpose(cause, effect):
        return True
    candidate = cause.confidence is Confidence.LOW or cause.severity is Severity.INFO
    if candidate and effect.severity is Severity.ERROR:
        return False
    if cause.name in effect.causes:
        return True
    if _died(cause) and effect.name in names("echo") and effect.name not in cause.causes:
        return cause.confidence is not Confidence.LOW
    if effect.name == "collective-not-reached" and cause.name in names("network") and cause.severity is Severity.ERROR:
        # A rank that its own network failed does not come; retries of others to a silent rank are the echo of its end.
        return set() < set(effect.hit.ranks) <= set(cause.hit.ranks)
    if left_port(cause, effect) and _later(effect, cause):
        return True
    mutual = effect.name in cause.causes and not _behind(effect, cause)
    if effect.rule.finding_class is not FindingClass.SECONDARY or mutual:
        return False
    return _failed(cause) and cause.confidence is not Confidence.LOW


def _shares(cause: Draft, effect: Draft) -> bool:
    """Whether cause and effect can be of one event.

    False when they name different communicators or network devices, when a link came back long before, when the
    driver's line about a GPU and CUDA's about broken hardware are of different hosts, and when the cause is a
    difference between ranks (a setting, a count) that stops nothing by itself and the effect is on other hosts.
    """
    if cause.hit.comm_id and effect.hit.comm_id and cause.hit.comm_id != effect.hit.comm_id:
        return False
    if cause.name in names("link") and effect.hit.devices:
        if not set(cause.hit.devices) & set(effect.hit.devices):
            return False
        ended = cause.last_s if cause.last_s is not None else cause.first_s
        began = effect.first_s
        if ended is not None and began is not None and began > ended + _LINK_REACH_S:
            return False
    if cause.name == "xid-error" and effect.name == "cuda-hardware-error":
        # The driver's line names the GPU; processes on other GPUs of the host may meet the error, too.
        return cause.severity is Severity.ERROR and bool(set(cause.hit.hosts) & set(effect.hit.hosts))
    difference = cause.hit.comm_id is not None and cause.severity is not Severity.ERROR
    apart = bool(cause.hit.hosts and effect.hit.hosts) and not set(cause.hit.hosts) & set(effect.hit.hosts)
    return not (difference and apart)


def _ordered(one: Draft, other: Draft, lines: FirstLines) -> bool:
    """Whether clocks or the lines of a process tell which of two came first."""
    if one.first_s is not None and other.first_s is not None:
        alike = len(one.hit.hosts) == 1 and one.hit.hosts == other.hit.hosts
        return abs(one.first_s - other.first_s) > (SAME_HOST_SKEW_S if alike else SKEW_S)
    return lines.precedes(one.name, other.name) or lines.precedes(other.name, one.name)


def undecided(drafts: Sequence[Draft], above: Sequence[int | None], lines: FirstLines) -> set[int]:
    """Failures of which nothing tells whether one of them, or which, is the cause of what they both explain."""
    first = [
        j
        for j, d in enumerate(drafts)
        if above[j] is None and _failed(d) and d.name not in names("outside") and not nearness(d.name)
    ]
    found: set[int] = set()
    for i, parent in enumerate(above):
        if parent not in first:
            continue
        near = bool(set(drafts[parent].hit.hosts) & set(drafts[i].hit.hosts))
        for j in first:
            rival = drafts[j]
            if j == parent or rival.name == drafts[parent].name:
                continue
            explains = _leads_to(rival, drafts[i], lines)
            as_near = bool(set(rival.hit.hosts) & set(drafts[i].hit.hosts)) == near
            if explains and as_near and not _ordered(drafts[parent], rival, lines):
                found |= {parent, j}
    return found


def parents(drafts: Sequence[Draft], lines: FirstLines) -> list[int | None]:
    """Index of the draft that explains each draft, or None."""
    options = [
        [j for j, cause in enumerate(drafts) if cause.name != effect.name and _leads_to(cause, effect, lines)]
        for i, effect in enumerate(drafts)
    ]
    chosen: list[int | None] = [None] * len(drafts)

    def leads_to(start: int, goal: int) -> bool:
        at: int | None = start
        while at is not None:
            if at == goal:
                return True
            at = chosen[at]
        return False

    def worth(j: int, i: int) -> tuple[int, int, int, int, int, bool, str]:
        cause = drafts[j]
        secondary = cause.rule.finding_class is FindingClass.SECONDARY
        later = sum(lines.precedes(drafts[k].name, cause.name) for k in options[i] if k != j)
        elsewhere = not set(cause.hit.hosts) & set(drafts[i].hit.hosts)
        name = cause.name
        return int(secondary), len(options[j]), nearness(name), cause.severity.order, later, elsewhere, name

    # The least explained effects choose first, so that a circle is broken at its best supported end.
    for i in sorted(range(len(drafts)), key=lambda k: (-len(options[k]), drafts[k].name, drafts[k].first)):
        for j in sorted(options[i], key=lambda k: (worth(k, i), drafts[k].first)):
            if not leads_to(j, i):
                chosen[i] = j
                break
    # What is but a note is no cause where it has one itself.
    for i, above in enumerate(chosen):
        while above is not None and drafts[above].severity is Severity.INFO and chosen[above] is not None:
            above = chosen[above]
        chosen[i] = above
    return chosen


def times(run: Run, drafts: Sequence[Draft]) -> Mapping[tuple[int, int], float]:
    """Clock of the lines of failures that are evidence, by input and line."""
    lines = {ref.line for draft in drafts for ref in draft.hit.evidence}
    rows = causes(run).select("input_id", "line", "time_s").drop_nulls(["time_s", "line"])
    return {(i, n): t for i, n, t in rows.filter(pl.col("line").is_in(lines)).iter_rows()}


def timed(run: Run, draft: Draft, clock: Mapping[tuple[int, int], float]) -> Draft:
    """The draft with its first and last time, from the hit or from its evidence."""
    hit = draft.hit
    if hit.evidence:
        draft = replace(draft, since_s=since(run, *draft.first))
    if hit.first_s is not None:
        return replace(draft, first_s=hit.first_s, last_s=hit.last_s)
    found = [clock[key] for ref in hit.evidence if (key := (ref.input_id, ref.line)) in clock]
    return replace(draft, first_s=min(found), last_s=max(found)) if found else draft


def lowered(draft: Draft, cause: Draft) -> Severity:
    """Severity of a finding whose cause is known."""
    if cause.hit.deliberate and cause.severity is Severity.INFO and _on_purpose(cause, draft):
        return Severity.INFO
    if draft.rule.finding_class is FindingClass.SECONDARY or _told(draft, cause):
        return Severity.INFO
    return draft.severity if draft.severity is not Severity.ERROR else Severity.WARNING


def _told(effect: Draft, cause: Draft) -> bool:
    """Whether others miss only whom the cause names already: that a rank that failed did not come."""
    ranks, hosts = set(effect.hit.ranks), set(effect.hit.hosts)
    if effect.name not in names("missed") or cause.severity is not Severity.ERROR:
        return False
    return ranks <= set(cause.hit.ranks) if ranks else set() < hosts <= set(cause.hit.hosts)


def _of_no_rank(run: Run, draft: Draft, drafts: Sequence[Draft], told: Course) -> str:
    """Why a process that ended, and that no line calls a rank, is not taken for one."""
    if draft.name not in (KILLED, CRASHED) or draft.hit.ranks:
        return ""
    if told.outlived(draft.last_s):
        return "The job counted steps long after it: it was none of its ranks."
    closes, known = causes(run).filter(pl.col("cause") == GONE), places(run)
    lost = known.hosts_at(closes)
    failed = [d.name for d in drafts if d.hit.ranks and lost.issuperset(d.hit.hosts) and d.name in names("outside")]
    if draft.name != KILLED or not failed or not lost.isdisjoint(draft.hit.hosts or lost):
        return ""
    # That no close names the host is a fact where most of the ranks that were left tell of theirs.
    if 2 * closes.select("host", "pid").drop_nulls().n_unique() >= len(known.ranks) - 1:
        return "Peers lost no process there, but on the host of a rank that failed: it was none of the ranks."
    doubt = "A rank failed by itself elsewhere. Whether this process was a rank, too, is not told."
    return doubt if FAILED in failed else ""


def _got_over(draft: Draft, told: Course) -> tuple[str, Severity]:
    """Why what happened did not stop a job that came to its end, and how severe it is at most."""
    refs, outside = draft.hit.evidence, draft.name in names("outside")
    # A scheduler that gives a reason for ending what should have ended by itself.
    if draft.name == ENDED and draft.confidence is Confidence.HIGH and told.behind(refs):
        return "", Severity.INFO
    if draft.name in {*names("logged", "flap"), ENDED} and told.outside(draft.first_s, draft.last_s):
        return "It is of another time than the job's own lines.", Severity.INFO
    if draft.name == ENDED and draft.last_s is not None and told.outlived(draft.last_s + _GRACE_S):
        return "The job was started again, and came to its end.", Severity.INFO
    if draft.name in (KILLED, CRASHED) and not draft.hit.ranks:
        return "The job came to its end: it was none of its ranks.", Severity.INFO
    # What the machine shows of itself in front of a job stays true.
    before = outside or (draft.name in names("configuration") and draft.name not in names("device"))
    if before and told.in_front(refs):
        return "The job began after it, and came to its end.", Severity.INFO if outside else Severity.WARNING
    if draft.name in names("leaving") and told.got_over(refs):
        return "The job came to its end: this did not stop it.", Severity.INFO
    if before and told.went_on(refs, draft.last_s):
        return "The job went on after it, and came to its end.", Severity.WARNING
    return "", Severity.INFO


def _in_course(run: Run, drafts: list[Draft]) -> list[Draft]:
    """The drafts as the course of the job tells: a job that came to its end, or went on, was stopped by none of them.

    Echoes are then how its processes left or, where it went on after them, what it got over. An end that names no rank
    is of another process. What is of another time than the job's own lines is none of it.
    """
    told = course(run)
    completed = told.completed and not any(_stopped(d, told) for d in drafts)
    placed: list[Draft] = []
    for draft in drafts:
        said, most = "", Severity.INFO
        if draft.severity in (Severity.ERROR, Severity.WARNING):
            said = _of_no_rank(run, draft, drafts, told)
            if completed and not said:
                said, most = _got_over(draft, told)
        if said:
            draft = replace(_remarked(draft, said), severity=max(draft.severity, most, key=lambda s: s.order))
        placed.append(draft)
    return placed


def _stopped(draft: Draft, told: Course) -> bool:
    """Whether a rank failed for good behind the lines by which the job seemed to be through, or without any line."""
    if not _died(draft) or not draft.hit.ranks:
        return False
    behind = [told.through.get(ref.input_id) for ref in draft.hit.evidence]
    return any(line is None or ref.line > line for line, ref in zip(behind, draft.hit.evidence, strict=True))


def place(run: Run, drafts: Sequence[Draft], severity_of: Callable[[str, Severity], Severity]) -> list[Draft]:
    """The drafts with role, cause and final severity, in the order of the report."""
    clock = times(run, drafts)
    drafts = [timed(run, draft, clock) for draft in drafts]
    apart = dict.fromkeys(_late(run, drafts), _BEHIND) | dict.fromkeys(old(drafts), _BEFORE)
    drafts = [_aged(d, apart[i]) if i in apart else d for i, d in enumerate(drafts)]
    drafts = _in_course(run, drafts)
    ahead = set_ahead(run, drafts)
    stamped, drafts = drafts, [_corrected(draft, ahead) for draft in drafts]
    lines = first_lines(causes(run))
    above = parents(drafts, lines)
    is_cause = {j for j in above if j is not None}
    open_ = undecided(drafts, above, lines)
    # What is shown are the times that the lines have.
    drafts = [replace(d, first_s=s.first_s, last_s=s.last_s) for d, s in zip(drafts, stamped, strict=True)]
    raised = {above[i] for i, d in enumerate(drafts) if _failed(d)}
    placed: list[Draft] = []
    for i, draft in enumerate(drafts):
        depth, at = 0, above[i]
        while at is not None:
            depth, at = depth + 1, above[at]
        parent, cause = above[i], None
        role, severity = Role.INDEPENDENT, draft.severity
        if parent is not None:
            cause = drafts[parent].name
            role, severity = Role.CASCADE, lowered(draft, drafts[parent])
        elif i in open_:
            draft = replace(draft, undecided=True)
        elif i in is_cause:
            role = Role.ROOT
            worse = i in raised and draft.severity is Severity.WARNING and not draft.hit.deliberate
            severity = Severity.ERROR if worse else severity
        severity = severity_of(draft.name, severity)
        placed.append(replace(draft, role=role, caused_by=cause, severity=severity, depth=depth))
    return sorted(placed, key=lambda d: d.order)

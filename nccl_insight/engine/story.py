"""The story of a job: what happened in which order, each with time, place and evidence. Nothing is told that no line
tells: a moment without a clock says between which stamped lines it stands, and an end that is missing is said so."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Confidence, Evidence, Finding, FindingClass, Job, Moment, causes_of
from nccl_insight.base.units import capital, plural, rank_words
from nccl_insight.engine.evidence import paths_of
from nccl_insight.engine.journey import end_of, init_words
from nccl_insight.facts.progress import watchdog
from nccl_insight.facts.progress.instances import UNNAMED
from nccl_insight.facts.said.clock import clock_text, with_time
from nccl_insight.facts.said.course import course
from nccl_insight.facts.said.ends import CRASHED, ENDED, FAILED, FIRST_FAILURE, KILLED, End, ends
from nccl_insight.facts.said.last_words import tails
from nccl_insight.readers.embedded.endings import BEGUN, DONE, STEP
from nccl_insight.readers.embedded.forms import step_words
from nccl_insight.tables.normalise.ends import EFFECT, TIMED_OUT, UNEXPLAINED
from nccl_insight.tables.run import Run

MOST: Final = 40
"""Moments that a story has at most."""
_NEAR: Final = 40
_SAME_S: Final = 2.0
_SILENCE_S: Final = 120.0
_STOPS: Final = ("", "the log stops there", "the log ends after init")
_ENDED: Final = {KILLED: "killed", CRASHED: "crashed", ENDED: "ended from outside", FAILED: "ended with an error"}
At = tuple[int, int]


@dataclass(frozen=True)
class _Told:
    """A moment before it has its words of time: ``after_s`` and ``before_s`` where its own line has no stamp."""

    moment: Moment
    at: At | None
    time_s: float | None = None
    after_s: float | None = None
    before_s: float | None = None

    @property
    def sort_s(self) -> float | None:
        """When it was, as far as is known."""
        return self.time_s if self.time_s is not None else self.after_s

    @property
    def place(self) -> At:
        """Where its line stands; what has none is behind all lines."""
        return self.at or (1 << 30, 0)


def story(run: Run, findings: Sequence[Finding], job: Job) -> tuple[Moment, ...]:
    """The moments in their order; empty where the inputs are no log of a job."""
    if run.table("milestones").is_empty() and not run.height("watchdog") and not ends(run):
        return ()
    inputs = {path: i for i, path in paths_of(run).items()}
    told = [*_start(run, job), *_init(run), *_of_findings(run, findings, inputs), *_given_up(run, findings)]
    told += _died(run, findings, told)
    last = _end(run, told)
    lines = run.reader.lines(_around(run, [t.at for t in (*told, last) if t.at is not None]))
    told += _last_step(run, told, lines)
    texts, paths = dict(lines), paths_of(run)
    missing = [t.at for t in told if t.at is not None and t.at not in texts]
    texts |= run.reader.lines(missing) if missing else {}
    stamps = _stamps(run, lines)
    every = _in_order([_timed(t, stamps) for t in _once(told)], _timed(last, stamps))
    return tuple(_words(t, paths, texts) for t in _with_silence(every)[:MOST])


def _start(run: Run, job: Job) -> Iterator[_Told]:
    """The first line of NCCL, or the first stamped line before it."""
    marks = run.table("milestones").with_columns(
        _at=pl.min_horizontal("launched", "bootstrapped", "init_started", "init_completed").cast(pl.Int64)
    )
    first = marks.drop_nulls("_at").group_by("input_id").agg(pl.col("_at").min())
    begun = run.table("endings").filter(pl.col("kind") == BEGUN).with_columns(pl.col("line").cast(pl.Int64))
    rows = with_time(run, begun, "text").drop_nulls("time_s").join(first, on="input_id", how="full", coalesce=True)
    own = rows.filter((pl.col("line") <= pl.col("_at")).fill_null(first.is_empty()))
    if own.height:
        row = own.sort("time_s").row(0, named=True)
        yield _Told(
            Moment("start", job.line or "the log begins"), (int(row["input_id"]), int(row["line"])), row["time_s"]
        )
    elif first.height:
        input_id, line = first.sort("input_id").row(0)
        yield _Told(Moment("start", job.line or "the log begins"), (int(input_id), int(line)))


def _init(run: Run) -> Iterator[_Told]:
    rows = run.table("milestones")
    if rows.is_empty():
        return
    said = init_words(run)
    done = rows.drop_nulls("init_completed").sort("input_id", "init_completed")
    asked = rows.drop_nulls("init_started").sort("input_id", "init_started")
    if done.height or asked.height:
        part, column = (done, "init_completed") if done.height else (asked, "init_started")
        yield _Told(Moment("init", said), (int(part["input_id"][-1]), int(part[column][-1])))


def _of_findings(run: Run, findings: Sequence[Finding], inputs: Mapping[str, int]) -> Iterator[_Told]:
    """What the findings say, the first cause marked where it is sure; not what is harmless or about the inputs."""
    waits = watchdog.begun(run)
    cause = next(iter(causes_of(findings)), None)
    quiet = (FindingClass.INFORMATION, FindingClass.INPUT, FindingClass.PERFORMANCE)
    for finding in findings:
        elsewhere = finding.name in _TOLD_ELSEWHERE or (finding.name in (KILLED, CRASHED) and finding.ranks)
        if finding is not cause and (finding.finding_class in quiet or elsewhere):
            continue
        places = [(inputs[e.input], e.line) for e in finding.evidence if e.line and e.input in inputs]
        at = min((p for p in places if p[0] == places[0][0]), default=None)
        kind = "effect" if finding is not cause else "sign" if finding.confidence is Confidence.LOW else "cause"
        moment = Moment(kind, finding.title, ranks=finding.ranks, hosts=finding.hosts, anchor=finding.anchor)
        began = min((waits[p] for p in places if p in waits), default=None)
        if began is not None:  # who waits began to when the operation was issued, not when the time was up
            yield _Told(replace(moment, about=True), at, began)
        else:
            yield _Told(moment, at)


# Time-outs and ends have moments of their own, and what everybody prints on the way out tells nothing.
_TOLD_ELSEWHERE: Final = frozenset({TIMED_OUT, EFFECT, UNEXPLAINED})


def _given_up(run: Run, findings: Sequence[Finding]) -> Iterator[_Told]:
    rows = watchdog.given_up(run).sort("time_s", "input_id", "line", nulls_last=True)
    for timed in (True, False):
        part = rows.filter(pl.col("timed") == timed)
        if part.height:
            yield _in_operation(part, timed)


def _in_operation(rows: pl.DataFrame, timed: bool) -> _Told:
    """Ranks that gave up waiting, in which operation, and after how long."""
    ranks = sorted(rows.select(watchdog.WHO.alias("r"))["r"].drop_nulls().unique().to_list())
    if rows["global_rank"].null_count() and rows["group"].n_unique() > 1:
        ranks = []  # numbers of several groups
    ops = rows["op"].drop_nulls().unique(maintain_order=True).to_list()
    gloo = bool((rows["group"] == watchdog.GLOO).all())
    alike = rows["timed_out_seq"].n_unique() == 1 and len(ops) <= 1 and not gloo
    what = f" in {next(iter(ops), 'operation')} {rows['timed_out_seq'][0]}" if alike else ""
    took = rows["ran_ms"].drop_nulls()
    told = took.len() and (alike or not rows["ran_ms"].null_count())
    after = f" after {round(int(took[0]) / 1000):,} s" if told else ""
    one, many, without = ("times out", "time out", "time-out") if timed else ("gives up", "give up", "rank gives up")
    who = f"{capital(rank_words(ranks, 6))} {one if len(ranks) == 1 else many}" if ranks else ""
    who = who or plural(rows.height, without, "time-outs" if timed else "ranks give up")
    groups = rows.filter(pl.col("group") != UNNAMED)["group"].n_unique()
    where = f" in {plural(groups, 'process group')}" if groups > 1 else ""
    at = (int(rows["input_id"][0]), int(rows["line"][0]))
    first, last = rows["time_s"][0], rows["time_s"].drop_nulls().max()
    late = last - first if isinstance(first, float) and isinstance(last, float) else 0.0
    span = f", the last {round(late):,} s later" if late >= 1 else ""
    hosts = tuple(rows["host"].drop_nulls().unique(maintain_order=True).to_list())
    text = f"{who}{what}{where}{after} ({'Gloo' if gloo else 'watchdog'}){span}"
    return _Told(Moment("gave up", text, ranks=tuple(ranks), hosts=hosts), at, first)


def _died(run: Run, findings: Sequence[Finding], told: Sequence[_Told]) -> Iterator[_Told]:
    """Who ended in which order, beyond the end that is the cause; witnesses of one death are one moment."""
    cause = next((t.moment for t in told if t.moment.kind in _CAUSE), None)
    ended = cause and any(f.code.startswith("NI55") and f.title == cause.text for f in findings)
    known, named = {t.at for t in told}, set(cause.ranks if cause and ended else ())
    new: list[End] = []
    for end in ends(run):
        ranks = tuple(r for r in end.ranks if r not in named)
        if ranks and end.order not in known:
            named.update(ranks)
            new.append(replace(end, ranks=ranks))
    for _, group in groupby(new, key=lambda e: (e.kind, e.signal, e.exit_code, e.time_s)):
        yield _death(list(group))


def _death(witnesses: Sequence[End]) -> _Told:
    """Processes that ended at one time and alike."""
    one = witnesses[0]
    ranks = tuple(sorted({r for e in witnesses for r in e.ranks}))
    hosts = tuple(dict.fromkeys(h for e in witnesses for h in e.hosts))
    who = capital(rank_words(ranks, 6)) + (f" on {', '.join(hosts)}" if 0 < len(hosts) <= 3 else "")
    how = f" (signal {one.signal})" if one.signal else f" (exit code {one.exit_code})" if one.exit_code else ""
    text = f"{who} raised {one.text}" if one.exception else f"{who} {_ENDED[one.kind]}{how}"
    return _Told(Moment("died", text, ranks=ranks, hosts=hosts), one.order, one.time_s)


def _end(run: Run, told: Sequence[_Told]) -> _Told:
    """How the output ends, or that it is not in the log."""
    text, at = end_of(run)
    completed = course(run).completed
    sizes = dict(run.table("inputs").select("input_id", "lines").drop_nulls().iter_rows())
    only = next(iter(sizes)) if len(sizes) == 1 else None
    last = None if completed else _last_said(run, sizes, at is not None)
    if last is not None:
        at, words = last
        said_so = words[:100] if words.startswith(FIRST_FAILURE) else f'"{words[:100]}"'
        text = "the log ends there" if at in {t.at for t in told} else f"the log ends with {said_so}"
    elif at is None and only is not None:
        at = (int(only), int(sizes[only]))
    stops = text in _STOPS
    if text == "the program's own output goes on" or (stops and completed):
        done = run.table("endings").filter(pl.col("kind") == DONE).tail(1)
        if done.height:
            at = (int(done["input_id"][0]), int(done["line"][0]))
            text = f'the program says that it is through: "{str(done["text"][0]).strip()[:100]}"'
        elif not stops:
            text += " to the end of the log; how it ended is not in it"
    if text in _STOPS:
        text = f"how it ended is not in the log{'' if only is not None else 's'}"
    return _Told(Moment("end", text), at)


def _last_said(run: Run, sizes: Mapping[int, int], stated: bool) -> tuple[At, str] | None:
    """The last line of who ended near the end of an input or, where an end is ``stated``, of who complains."""
    near = [(e.order, e.text) for e in ends(run) if e.ref.line > int(sizes.get(e.ref.input_id, 0)) - _NEAR]
    said = [e for e in near if e[0][0] in course(run).inputs] or near
    words = [((t.input_id, t.last_line), t.last) for t in tails(run) if t.last and not t.good]
    quoted = said or (words if stated else [])
    return max((q for q in (*quoted, *words) if q[0][0] == quoted[-1][0][0]), key=lambda q: q[0][1]) if quoted else None


def _around(run: Run, places: Iterable[At]) -> list[At]:
    """The lines near places, from which their times and the last step before them are read."""
    sizes = {int(i): int(n or 0) for i, n in run.table("inputs").select("input_id", "lines").iter_rows()}
    return sorted(
        {
            (i, n)
            for i, line in places
            for n in range(max(1, line - _NEAR), min(line + _NEAR // 4, sizes.get(i, line)) + 1)
        }
    )


def _last_step(run: Run, told: Sequence[_Told], lines: Mapping[At, str]) -> Iterator[_Told]:
    """The last step that the program counts, in its own words."""
    rows = run.table("endings").filter(pl.col("kind") == STEP).select("input_id", "line", "text")
    found = {(int(i), int(n)): str(t) for i, n, t in rows.iter_rows()}
    found |= lines
    steps = [(at, step) for at, text in found.items() if text.lstrip()[:1] != "#" and (step := step_words(text))]
    if not steps:
        return
    frame = pl.DataFrame(
        {"input_id": [at[0] for at, _ in steps], "text": [found[at] for at, _ in steps]},
        schema_overrides={"input_id": pl.UInt16},
    )
    times = with_time(run, frame, "text")["time_s"].to_list()
    best = max(range(len(steps)), key=lambda n: (times[n] is not None, times[n] or 0.0, steps[n][0]))
    at, step = steps[best]
    yield _Told(Moment("last step", step), at, times[best])


def _stamps(run: Run, lines: Mapping[At, str]) -> dict[int, list[tuple[int, float]]]:
    """Line and clock of the stamped lines of each input among these."""
    frame = pl.DataFrame(
        {"input_id": [at[0] for at in lines], "line": [at[1] for at in lines], "text": list(lines.values())},
        schema={"input_id": pl.UInt16, "line": pl.Int64, "text": pl.String},
    )
    timed = with_time(run, frame, "text").drop_nulls("time_s").sort("input_id", "line")
    rows = timed.select("input_id", "line", "time_s").iter_rows()
    return grouped((int(i), (int(line), float(time_s))) for i, line, time_s in rows)


def _timed(told: _Told, stamps: Mapping[int, Sequence[tuple[int, float]]]) -> _Told:
    if told.time_s is not None or told.at is None:
        return told
    near = stamps.get(told.at[0], ())
    own = next((t for n, t in near if n == told.at[1]), None)
    if own is not None:
        return replace(told, time_s=own)
    after = max((t for n, t in near if n < told.at[1]), default=None)
    before = min((t for n, t in near if told.at[1] < n <= told.at[1] + _NEAR), default=None)
    if after is not None and before is not None and before - after <= _SAME_S:
        return replace(told, time_s=after, moment=replace(told.moment, about=True))
    return replace(told, after_s=after, before_s=before)


def _once(told: Sequence[_Told]) -> Iterator[_Told]:
    """Without effects that stand on the line of another moment."""
    taken = {t.at for t in told if t.moment.kind != "effect"}
    for item in told:
        if item.moment.kind != "effect" or item.at not in taken:
            taken.add(item.at)
            yield item


_PHASES: Final = {"start": 0, "init": 1, "last step": 2}
_FOLLOW: Final = ("effect", "gave up", "died")
# What is not certain is a sign.
_CAUSE: Final = ("cause", "sign")


def _phase(told: _Told) -> int:
    return _PHASES.get(told.moment.kind, 3)


def _in_order(told: Iterable[_Told], last: _Told) -> list[_Told]:
    """By time where there is one; the others where their line stands among those of their input."""
    every = sorted(told, key=lambda t: (t.sort_s or 0.0, _phase(t), t.place))
    begun, later = [t for t in every if not _phase(t)], [t for t in every if _phase(t)]
    order = [t for t in later if t.sort_s is not None]
    for item in later:
        if item.sort_s is None:
            order.insert(_position(item, order), item)
    sign = next((n for n, t in enumerate(order) if _phase(t) == 3), None)
    if sign is not None and order[sign].moment.kind == "effect":
        order[sign] = replace(order[sign], moment=replace(order[sign].moment, kind="sign"))
    return [*begun, *order, last]


def _position(item: _Told, order: Sequence[_Told]) -> int:
    """Where a moment without a time comes: by its line among those of its input, else in front of what follows it."""
    here = [n for n, t in enumerate(order) if t.at and not t.moment.about and t.place[0] == item.place[0]]
    reached = max((n + 1 for n, t in enumerate(order) if _phase(t) < _phase(item)), default=0)
    # A cause of which no line tells the time is told before what follows from it.
    follow = _FOLLOW if item.moment.kind in _CAUSE else ()
    behind = next((n for n, t in enumerate(order) if t.moment.kind in follow), len(order))
    above = [n + 1 for n in here if order[n].place < item.place]
    place = max(above, default=min(here, default=behind))
    return max(place, reached) if _phase(item) == 3 else min(place, reached)


def _with_silence(told: Sequence[_Told]) -> list[_Told]:
    """The last step says for how long no other followed; nothing is before a time that lies behind what follows it."""
    rows = list(told)
    soonest = math.inf
    for n, item in reversed(list(enumerate(rows))):
        soonest = min(soonest, math.inf if item.time_s is None else item.time_s)
        if item.before_s is not None and soonest < item.before_s:
            rows[n] = replace(item, before_s=soonest)
    for n, item in enumerate(rows[:-1]):
        follows = rows[n + 1].time_s
        if item.moment.kind == "last step" and item.time_s is not None and follows is not None:
            gap = follows - item.time_s
            if gap >= _SILENCE_S:
                said = f"{round(gap / 60):,} min" if gap < 7200 else f"{gap / 3600:.1f} h"
                rows[n] = replace(
                    item, moment=replace(item.moment, text=f"{item.moment.text}; no other step for {said}")
                )
    return rows


def _words(told: _Told, paths: Mapping[int, str], texts: Mapping[At, str]) -> Moment:
    moment = told.moment
    if told.time_s is not None:
        moment = replace(moment, time=clock_text(told.time_s), time_s=round(told.time_s, 3))
    elif told.after_s is not None:
        moment = replace(moment, time=f"after {clock_text(told.after_s)}")
    elif told.before_s is not None:
        moment = replace(moment, time=f"before {clock_text(told.before_s)}")
    if told.at is not None:
        moment = replace(
            moment, evidence=Evidence(paths.get(told.at[0], ""), told.at[1], texts.get(told.at, "")[:2000])
        )
    return moment

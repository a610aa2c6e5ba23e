"""What changed between two runs, ranked by how likely it explains the findings that differ."""

import re
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Analysis, Finding, Ref, Severity
from nccl_insight.base.natures import names
from nccl_insight.base.units import format_ns
from nccl_insight.facts.figures.job import AREAS, Fact, facts, knows
from nccl_insight.tables.run import Run

_TOLD: Final = toml.beside(__file__)
_CAUSE_WEIGHT: Final[Mapping[str, float]] = _TOLD["weight"]
EFFECTS: Final = ("timings", "bandwidth")
# Area, what changed in it, and the findings that this may explain.
_EXPLAINS: Final = tuple(
    (area, what, re.sub("<<([a-z0-9]+)>>", lambda m: str(_TOLD["names"][m[1]]), found))
    for area, what, found in _TOLD["explains"]
)
_TOLERANCE: Final = {"timings": 1.5, "bandwidth": 1.1, "calls": 1.2}
_LOUDNESS: Final = {Severity.ERROR: 2.0, Severity.WARNING: 1.0}
_LEAST: Final = {"s": 1.0, "ms": 0.5, "GB/s": 0.1}

_STEP: Final = 0.02
_PART: Final = 0.3
_ABSENT: Final = Fact("", "", (), "")
_VAGUE: Final = frozenset({"net", "socket", "env", "not", "nccl", "ib", "on"})
"""Words of findings that many settings share."""


@dataclass(frozen=True)
class Change:
    """A fact that differs. ``good`` or ``bad`` is empty where a run does not have it.

    ``ratio`` is bad over good for measurements. ``explains`` names findings of the bad run that it may explain.
    ``effect`` marks times and bandwidths, which follow from something else.
    """

    area: str
    subject: str
    good: str
    bad: str
    score: float
    ratio: float | None
    explains: tuple[str, ...]
    effect: bool
    hosts: tuple[str, ...]
    evidence_good: tuple[Ref, ...]
    evidence_bad: tuple[Ref, ...]


@dataclass(frozen=True)
class FindingChange:
    """A diagnosis that differs. ``status`` is new, gone, worse, better or other (same severity, other words)."""

    status: str
    code: str
    name: str
    severity_good: Severity | None
    severity_bad: Severity | None
    title: str


@dataclass(frozen=True)
class NotCompared:
    """An area that one run says nothing about."""

    area: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """The difference of two runs. ``changes`` are ordered, the most likely explanation first.

    ``good`` and ``bad`` are the inputs as (input_id, path). ``step``: where a longer or shorter step comes from, a
    sentence; empty where not both runs could be replayed.
    """

    good: tuple[tuple[int, str], ...]
    bad: tuple[tuple[int, str], ...]
    changes: tuple[Change, ...]
    findings: tuple[FindingChange, ...]
    same: tuple[str, ...]
    not_compared: tuple[NotCompared, ...]
    step: str = ""

    @property
    def differs(self) -> bool:
        """Whether anything changed."""
        return bool(self.changes or self.findings)


def compare(good: Run, bad: Run, good_analysis: Analysis, bad_analysis: Analysis) -> Comparison:
    """The difference between two runs with their analyses."""
    findings = _findings(good_analysis, bad_analysis)
    raised = [f for f in findings if f.status in {"new", "worse"}]
    changes: list[Change] = []
    same: list[str] = []
    missing: list[NotCompared] = []
    left, right = facts(good), facts(bad)
    for area in AREAS:
        known = knows(good, area), knows(bad, area)
        if not all(known):
            if any(known):
                missing.append(
                    NotCompared(area, f"only the {'first' if known[0] else 'second'} run says something about it")
                )
            continue
        subjects = dict.fromkeys(s for a, s in (*left, *right) if a == area)
        found = [c for s in subjects if (c := _change(area, s, left.get((area, s)), right.get((area, s)), raised))]
        changes += found
        if not found:
            same.append(area)
    ordered = sorted(changes, key=lambda c: (-c.score, AREAS.index(c.area), c.subject))
    return Comparison(
        good=_inputs(good),
        bad=_inputs(bad),
        changes=tuple(ordered),
        findings=findings,
        same=tuple(same),
        not_compared=tuple(missing),
        step=_step(good, bad, good_analysis, bad_analysis),
    )


def _step(good: Run, bad: Run, good_analysis: Analysis, bad_analysis: Analysis) -> str:
    """``Of +14.0 ms a step: 11.0 ms rank 3 like its peers, 3.0 ms on all ranks alike (computation +2.9 ms).``"""
    before, after = _lost(good_analysis), _lost(bad_analysis)
    if before is None or after is None:
        return ""
    more = after[0] - before[0]
    if abs(more) < _STEP * before[0]:
        return ""
    parts = {what: after[1].get(what, 0.0) - before[1].get(what, 0.0) for what in (*after[1], *before[1])}
    rest = more - sum(parts.values())
    told = [f"{_signed(ns)} {what}" for what, ns in sorted(parts.items(), key=lambda p: -abs(p[1]))]
    alike = "on all ranks alike" if parts else "not by single ranks, groups or steps"
    told.append(f"{_signed(rest)} {alike}{_kinds(good, bad, rest)}")
    return f"Of {_signed(more)} a step: {', '.join(told)}"


def _lost(analysis: Analysis) -> tuple[float, dict[str, float]] | None:
    """The mean time of a step, and by scenario what of it mending saves beside those before; ns."""
    replay = analysis.replay
    if replay is None or replay.refused or not replay.window_ns:
        return None
    found: dict[str, float] = {}
    saved = 0
    for mend in analysis.what_if:
        found[mend.scenario] = (mend.gain_ns - saved) / max(replay.steps, 1)
        saved = mend.gain_ns
    return replay.window_ns / max(replay.steps, 1), found


def _kinds(good: Run, bad: Run, rest: float) -> str:
    """The kinds of time of the median step of a rank that changed by a good part of the rest."""
    columns = {
        "compute_ns": "computation",
        "exposed_comm_ns": "communication that nothing hides",
        "idle_ns": "idle time",
    }
    before, after = (run.table("steps").select(pl.col(list(columns)).median()) for run in (good, bad))
    changed = {word: float(after.item(0, c) or 0) - float(before.item(0, c) or 0) for c, word in columns.items()}
    told = [f"{word} {_signed(ns)}" for word, ns in changed.items() if ns * rest > 0 and abs(ns) >= _PART * abs(rest)]
    return f" ({', '.join(told)} in the median step)" if told else ""


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else '-'}{format_ns(abs(ns))}"


def _inputs(run: Run) -> tuple[tuple[int, str], ...]:
    rows = run.table("inputs").select("input_id", "path").rows()
    return tuple((int(i), str(p or "")) for i, p in rows)


def _change(area: str, subject: str, good: Fact | None, bad: Fact | None, raised: list[FindingChange]) -> Change | None:
    ratio = None
    if good is None or bad is None:
        # A size or call that only one run measured is another mix of work, not a change of speed.
        if area in {"bandwidth", "algorithms"}:
            return None
    elif good.key == bad.key:
        return None
    elif good.number is not None and bad.number is not None:
        ratio = bad.number / good.number if good.number else None
        if not _matters(area, good, bad, ratio):
            return None
    improved = ratio is not None and area in EFFECTS and (ratio > 1) == (area == "bandwidth")
    explaining = [] if improved else _explained(area, subject, raised)
    good, bad = good or _ABSENT, bad or _ABSENT
    score = _score(area, subject, ratio, explaining) + 15.0 * bool(bad.hosts) - 5.0 * improved
    return Change(
        area=area,
        subject=subject,
        good=good.text,
        bad=bad.text,
        score=round(score, 3),
        ratio=None if ratio is None else round(ratio, 4),
        explains=tuple(dict.fromkeys(f.name for f in explaining)),
        effect=area in EFFECTS,
        hosts=bad.hosts,
        evidence_good=good.evidence,
        evidence_bad=bad.evidence,
    )


def _explained(area: str, subject: str, raised: list[FindingChange]) -> list[FindingChange]:
    """The findings that such a change may explain."""
    names = [name for where, what, name in _EXPLAINS if where == area and re.search(what, subject)]
    return [f for f in raised if any(re.match(name, f.name) for name in names)]


def _score(area: str, subject: str, ratio: float | None, explaining: list[FindingChange]) -> float:
    """How much a change is worth a look: how large it is, and how loud the findings are that it may explain."""
    size = 0.0 if ratio is None or ratio <= 0 else min(5.0, abs(ratio - 1) if ratio > 1 else 1 / ratio - 1)
    score = _CAUSE_WEIGHT[area] + size
    if area not in EFFECTS:
        loud = sum(_LOUDNESS.get(f.severity_bad or Severity.INFO, 0.0) for f in explaining)
        score += 100.0 * bool(loud) + 10.0 * loud + 2.0 * len({f.name for f in explaining})
    # A setting may name what a finding is about: ``NCCL_NET_GDR_LEVEL`` and ``gdr-not-used``.
    about = set(subject.lower().split("_")) - _VAGUE
    return score + 20.0 * any(about.intersection(f.name.split("-")) for f in explaining)


def _matters(area: str, good: Fact, bad: Fact, ratio: float | None) -> bool:
    if good.number is None or bad.number is None:
        return True
    if abs(bad.number - good.number) < _LEAST.get(good.unit, 0.0):
        return False
    tolerance = _TOLERANCE.get(area, 1.0)
    return ratio is None or ratio > tolerance or ratio < 1 / tolerance


def _findings(good: Analysis, bad: Analysis) -> tuple[FindingChange, ...]:
    before, after = _loudest(good.findings), _loudest(bad.findings)
    changes: list[FindingChange] = []
    for name in dict.fromkeys((*after, *before)):
        old, new = before.get(name), after.get(name)
        shown = new or old
        assert shown is not None
        if old is None or new is None:
            status = "new" if old is None else "gone"
        elif old.severity is new.severity:
            continue
        else:
            status = "worse" if new.severity.order < old.severity.order else "better"
        changes.append(
            FindingChange(
                status, shown.code, name, old.severity if old else None, new.severity if new else None, shown.title
            )
        )
    order, path = ("new", "worse", "better", "gone"), names("path")

    def weight(change: FindingChange) -> tuple[int, int, bool, str]:
        severity = change.severity_bad or change.severity_good or Severity.INFO
        return order.index(change.status), severity.order, change.name not in path, change.code

    return tuple(sorted(changes, key=weight))


def _loudest(findings: tuple[Finding, ...]) -> dict[str, Finding]:
    """The gravest finding of each diagnosis, the first of several."""
    each = grouped((f.name, f) for f in findings)
    return {name: min(own, key=lambda f: f.severity.order) for name, own in each.items()}

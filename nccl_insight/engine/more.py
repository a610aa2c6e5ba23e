"""What the reader can add to see more, grouped by what to add and what that enables, best first."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.model import Analysis, Coverage, Finding, More, NotJudged, Severity
from nccl_insight.base.natures import names
from nccl_insight.tables.run import Run

_TRACE: Final = frozenset({"collectives", "steps", "memcpy"})
_BENCH: Final = frozenset({"benchmarks"})
_DUMP: Final = frozenset({"flight_recorder"})
_SIDE: Final = frozenset({"ras", "nvlinks", "telemetry"})
_SUBSYS: Final = re.compile(r"NCCL_DEBUG_SUBSYS=([A-Z0-9]+(?:,[A-Z0-9]+)*)")
# What every one of these settings records, so that it is not asked for a second time.
_BASE: Final = re.compile(r"record with NCCL_DEBUG=INFO(?: \(subsystem (?:INIT|ENV)\))?")
_ORDER: Final = ("INIT", "ENV", "NET", "GRAPH", "TUNING", "COLL", "P2P")
SYMPTOMS: Final = ("hang", "slow", "crash")
_TOLD: Final = toml.beside(__file__)
# Tables of a log and the subsystem whose lines fill them; what to record, by what was seen; how a table is filled.
_OF_TABLE: Final[Mapping[str, str]] = _TOLD["subsystems"]
RECORD: Final[Mapping[str, Sequence[str]]] = _TOLD["record"]
HOW: Final[Mapping[str, str]] = _TOLD["how"]
_PASTE_LINES: Final = 2
_NEXT: Final[Mapping[str, tuple[str, str]]] = _TOLD["next"]


def more_of(
    run: Run,
    not_judged: Sequence[NotJudged],
    coverage: Coverage,
    status: str,
    symptom: str,
    findings: Sequence[Finding] = (),
    reasons: Sequence[str] = (),
) -> tuple[More, ...]:
    """Next commands where nothing was found or the job stood still, then what to add; nothing under a pasted line."""
    found: list[More] = []
    first = next((f for f in findings if f.severity is Severity.ERROR), None)
    if first is not None and coverage.nccl_lines <= _PASTE_LINES:
        return ()
    if first is not None and not symptom and first.name in names("hang"):
        found.append(More(*_NEXT["hang"]))
    elif status == "not_judged" and not coverage.nccl_lines and run.has("inputs"):
        found.append(More(*_TOLD["nothing"]))
    elif status in ("inconclusive", "not_judged") or (symptom and status != "findings"):
        wanted = (symptom,) if symptom in _NEXT else SYMPTOMS
        found += [More(*more) for asked, *more in _TOLD["asked"] if re.search(asked, "".join(reasons[:1]))][:1]
        if status != "not_judged" or coverage.nccl_lines:
            found += [More(*_NEXT[name]) for name in wanted]
    return (*found, *_groups(run, not_judged, coverage))


def _groups(run: Run, not_judged: Sequence[NotJudged], coverage: Coverage) -> Iterator[More]:
    """Checks that could not run, by what to add; checks for other kinds of input are left out."""
    if not coverage.nccl_lines:
        return
    names: list[str] = []
    wanted: set[str] = set()
    others: dict[str, list[str]] = {}
    for item in not_judged:
        needs = set(item.needs)
        if needs & (_TRACE | _BENCH | _DUMP | _SIDE) and not any(run.has(t) for t in needs):
            continue
        match = _SUBSYS.search(item.how_to_enable)
        tables = {_OF_TABLE[t] for t in item.needs if t in _OF_TABLE}
        if match or tables:
            wanted |= set(match[1].split(",")) if match else tables
            names.append(item.name)
        elif _BASE.fullmatch(item.how_to_enable):
            names.append(item.name)
        elif item.how_to_enable:
            others.setdefault(item.how_to_enable, []).append(item.name)
    if names:
        subsystems = [s for s in _ORDER if s in wanted | {"INIT", "ENV"}] + sorted(wanted - set(_ORDER))
        yield _more(f"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS={','.join(subsystems)}", names)
    for how, checks in sorted(others.items(), key=lambda pair: (-len(set(pair[1])), pair[0])):
        yield _more(how, checks)


def _more(add: str, checks: Sequence[str]) -> More:
    unique = tuple(dict.fromkeys(checks))
    shown = ", ".join(unique[:3]) + (", ..." if len(unique) > 3 else "")
    return More(add, f"{len(unique)} more {'check' if len(unique) == 1 else 'checks'}: {shown}", unique)


def unread(analysis: Analysis) -> tuple[str, ...]:
    """``bin.dat: core dump; it holds ...`` for each input that gave nothing."""
    return tuple(
        f"{item.path}: {item.taken_for}"
        for item in analysis.inputs
        if item.kind in ("unknown", "unreadable") and item.taken_for
    )

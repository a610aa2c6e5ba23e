"""The story of a job as rows that every output shows: the day once, then clock, kind, what happened, and where."""

import re
from collections.abc import Sequence
from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis, Moment
from nccl_insight.base.units import rank_words
from nccl_insight.report import words
from nccl_insight.report.sanitize import one_line

FIRST: Final = 9
"""Moments that a first screen shows at most."""
TITLE: Final = "What happened"
LEAST: Final = 3
"""Fewer moments are no story."""
_TEXT: Final = 160
_LATE: Final = ("rank-desync", "collective-not-reached")
# What tells least is left out of a first screen first.
_WEIGHT: Final = ("cause", "sign", "end", "gave up", "last step", "init", "died", "start", "effect")


@dataclass(frozen=True)
class Row:
    """One moment in words. ``clock`` is empty where no line near it has one; ``guilty``: it is the cause."""

    clock: str
    kind: str
    text: str
    place: str
    moment: Moment

    @property
    def guilty(self) -> bool:
        """Whether it is the cause."""
        return self.kind == "cause"


def first_screen(moments: Sequence[Moment], most: int = FIRST) -> tuple[Moment, ...]:
    """The moments that a first screen shows, the weightiest, in their order."""
    chosen = sorted(range(len(moments)), key=lambda n: (_WEIGHT.index(moments[n].kind), n))[:most]
    return tuple(moments[n] for n in sorted(chosen))


def told(analysis: Analysis) -> bool:
    """Whether the analysis has a story that is worth a place: what happened to a job that is not known to be well."""
    return analysis.status not in ("ok", "not_judged") and len(analysis.story) >= LEAST


def day(moments: Sequence[Moment]) -> str:
    """The day on which all of it happened; empty where it took several, or no line has a clock."""
    days = {" ".join(m.time.split()[-2:-1]) for m in moments if m.time}
    return days.pop() if len(days) == 1 else ""


def rows(moments: Sequence[Moment]) -> list[Row]:
    """The moments in words; clocks without the day where all have the same."""
    short = day(moments)
    paths = [m.evidence.input for m in moments if m.evidence and m.evidence.line]
    folder = words.common_folder(paths) or (paths[0].rpartition("/")[0] + "/" if paths else "")
    return [
        Row(
            ("about " if m.about and m.time[:1].isdigit() else "")
            + (m.time.replace(f"{short} ", "") if short else m.time),
            m.kind,
            words.shortened(one_line(m.text, 1000), _TEXT),
            words.location(m.evidence).removeprefix(folder) if m.evidence and m.evidence.line else "",
            m,
        )
        for m in moments
    ]


def whole(analysis: Analysis) -> str:
    """The story with every moment and the line that tells of it, as plain text."""
    if not analysis.story:
        return f"{analysis.verdict}  {words.cause(analysis)}\nThe inputs tell no story of a job.\n"
    every = rows(analysis.story)
    wide = max(len(r.clock) for r in every)
    lines = [f"{analysis.verdict}  {words.cause(analysis)}", ""]
    lines += [day(analysis.story)] if day(analysis.story) else []
    for row in every:
        said = f"{row.clock:<{wide}}  {row.kind:<9}  {row.text}"
        lines.append(said if wide else said.strip())
        if row.place:
            quoted = one_line(row.moment.evidence.text, words.EXCERPT) if row.moment.evidence else ""
            under = f"{'':<{wide}}  {'':<9}  "
            lines += [under + row.place, *([f"{under}| {quoted}"] if quoted else [])]
    return "\n".join(lines) + "\n"


def waits(analysis: Analysis) -> str:
    """Who waits for whom as a graph that GitHub draws; empty where no finding names the ranks that did not come."""
    cause = next((m for m in analysis.story if m.kind == "cause" and m.ranks), None)
    gave_up = next((m for m in analysis.story if m.kind == "gave up"), None)
    named = {f.anchor: f.name for f in analysis.findings}
    if cause is None or gave_up is None or named.get(cause.anchor) not in _LATE:
        return ""
    waiting = sorted(set(gave_up.ranks) - set(cause.ranks))
    if not waiting:
        return ""
    where = f" on {words.host_list(cause.hosts, 2)}" if cause.hosts else ""
    late = _plain(f"{rank_words(cause.ranks, 6)}{where}")
    return "\n".join(
        (
            "flowchart LR",
            f'    waiting["{rank_words(waiting, 6)}"] -- wait for --> late["{late}"]',
            "    style late stroke:#b3192d,stroke-width:3px",
        )
    )


def _plain(text: str) -> str:
    """Text without what mermaid reads as its own."""
    return re.sub(r"[:;#`{}\[\]<>\"]", " ", text)


def mermaid(moments: Sequence[Moment]) -> str:
    """The moments as a time line that GitHub draws."""
    lines = ["timeline"]
    for row in rows(moments):
        text = _plain(f"{row.kind} - {row.text}")
        lines.append(
            f"    {re.sub(':', '.', row.clock) or '(no clock)'} : {words.shortened(' '.join(text.split()), 90)}"
        )
    return "\n".join(lines)

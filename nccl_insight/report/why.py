"""What is known of one rank, host or process group, in words: its part in the cause, how far it is, what happened."""

from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Analysis, Finding, Moment
from nccl_insight.base.units import plural, rank_words
from nccl_insight.report.fill import environment
from nccl_insight.report.sanitize import one_line, sanitize
from nccl_insight.views.who import Standing, Who


def render(analysis: Analysis, known: Who) -> str:
    """The answer as plain text."""
    made = environment(sanitize, {})
    made.tests["names"] = _names
    told = made.get_template("why.txt").render(analysis=analysis, known=known, stands="\n".join(_stands(known)))
    return told.rstrip() + "\n"


def _names(item: Finding | Moment, known: Who) -> bool:
    return bool(set(item.ranks) & set(known.ranks)) or bool(known.kind == "host" and set(item.hosts) & set(known.hosts))


def _stands(known: Who) -> list[str]:
    """How far the ranks are, those of which the same is told in one line, the ones behind first."""
    alike = grouped((_stand(stand), stand) for stand in known.standings)
    rows = sorted(alike.items(), key=lambda row: -_gap(row[1][0]))
    if known.kind == "rank":
        return [said for said, _ in rows]
    return [f"{rank_words([s.rank for s in stands], 8)}: {said}" for said, stands in rows]


def _gap(stand: Standing) -> int:
    return (stand.furthest or 0) - stand.enqueued if stand.enqueued is not None else 0


def _stand(stand: Standing) -> str:
    numbers = (("issued", stand.enqueued), ("started", stand.started), ("completed", stand.completed))
    said = ", ".join(f"{word} {number:,}" for word, number in numbers if number is not None)
    gap = _gap(stand)
    behind = f"{plural(gap, 'operation')} behind the furthest" if gap > 0 else "level with the furthest"
    what = " ".join(part for part in (stand.op, f"in group {stand.group}" if stand.group else "") if part)
    return f"{said} {one_line(what, 120)} ({stand.source})" + (f"; {behind}" if stand.enqueued is not None else "")

"""What is known of one rank, host or process group, in words: its part in the cause, how far it is, what happened."""

from collections.abc import Iterator

from nccl_insight.base.grouping import grouped
from nccl_insight.base.model import Analysis, Finding
from nccl_insight.base.units import capital, plural, rank_words
from nccl_insight.report import story, words
from nccl_insight.report.sanitize import one_line
from nccl_insight.views.who import Standing, Who

_MOST = 12


def render(analysis: Analysis, known: Who) -> str:
    """The answer as plain text."""
    place = f" on {words.host_list(known.hosts)}" if known.hosts and known.kind != "host" else ""
    pids = f" (pid {', '.join(map(str, known.pids[:8]))})" if known.pids and known.kind == "rank" else ""
    ranks = f" ({rank_words(known.ranks)})" if known.kind != "rank" and known.ranks else ""
    lines = [f"{capital(one_line(known.name, 120))}{ranks}{place}{pids}", ""]
    lines += _part(analysis, known)
    lines += _titled("How far it is", _stands(known))
    about = [r for r in story.rows(analysis.story) if _named(r.moment.ranks, r.moment.hosts, known)]
    lines += _titled("What happened", [f"{r.clock}  {r.kind}: {r.text} ({r.place})".strip() for r in about])
    named = [f for f in analysis.findings if _named(f.ranks, f.hosts, known)]
    lines += _titled("Findings that name it", [f"{f.code} {f.name}: {one_line(f.title, 300)}" for f in named])
    lines += _titled("Its last lines", [f"{words.location(e)}  {one_line(e.text, 300)}" for e in known.last])
    return "\n".join(lines).rstrip() + "\n"


def _titled(title: str, rows: list[str]) -> list[str]:
    more = [f"  and {len(rows) - _MOST:,} more"] if len(rows) > _MOST else []
    return [f"{title}:", *(f"  {row}" for row in rows[:_MOST]), *more, ""] if rows else []


def _named(ranks: tuple[int, ...], hosts: tuple[str, ...], known: Who) -> bool:
    return bool(set(ranks) & set(known.ranks)) or bool(known.kind == "host" and set(hosts) & set(known.hosts))


def _part(analysis: Analysis, known: Who) -> Iterator[str]:
    """What it has to do with the cause."""
    causes = analysis.causes
    if not causes:
        yield f"{analysis.verdict}: {words.cause(analysis)}"
    elif own := next((f for f in causes if _named(f.ranks, f.hosts, known)), None):
        yield from (f"The cause: {one_line(own.title, 300)}", *_steps(own))
    elif effect := next((f for f in analysis.loud if _named(f.ranks, f.hosts, known)), None):
        yield f"Not the cause, but hit by it: {one_line(effect.title, 300)}"
        yield f"Look first at: {one_line(causes[0].title, 300)}"
    else:
        yield f"No finding names it. The cause: {one_line(causes[0].title, 300)}"
    yield ""


def _steps(finding: Finding) -> Iterator[str]:
    for step in words.steps(finding)[:2]:
        yield f"  {step.label}: {step.text}" + (f"   ({step.where})" if step.where else "")


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

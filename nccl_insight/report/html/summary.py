"""First screen of the report: verdict, what to do first, the job, how much was understood."""

import re

from nccl_insight.base.model import Analysis, Finding, Severity
from nccl_insight.base.units import listed, plural
from nccl_insight.report import story, words
from nccl_insight.report.html.markup import Child, Markup, el, icon, join, panel, prose
from nccl_insight.report.sanitize import one_line

STAMPS = {
    "FAIL": "error",
    "WARN": "warning",
    "OK": "ok",
    "INCONCLUSIVE": "info",
    "RUNNING": "info",
    "NOT JUDGED": "none",
}
_TOP = 3
_MORE = 4
_STEPS = 3
_TITLE, _QUOTED = 220, 260


def summary(analysis: Analysis, first: Markup | None = None, *, wide: bool = False) -> Markup:
    """The hero and the two columns under it; ``first`` is the figure that shows the cause, or a healthy machine."""
    loud = bool(analysis.loud)
    top = _top(analysis) if analysis.findings or first is None else None
    over = el("div", first, _story(analysis), class_="side over") if loud and wide else None
    around = (
        (top, None if over else _story(analysis)) if loud else (first, top, _story(analysis), to_see_more(analysis))
    )
    left = el("div", around, class_="side")
    side = _side(analysis, first if loud and not wide else None)
    return join([_hero(analysis), el("div", left, side, over, class_="wrap first" if side else "wrap first one")])


def badge(severity: Severity) -> Markup:
    """Severity as a symbol and a word."""
    return el("span", icon(severity.value), severity.word.capitalize(), class_=f"badge s-{severity.value}")


def _hero(analysis: Analysis) -> Markup:
    word = analysis.verdict
    stamp = el("span", icon(STAMPS[word]), word, class_=f"stamp s-{STAMPS[word]}")
    facts = words.counted_facts(analysis)
    lead = el("p", facts, class_="lead") if facts else None
    redaction = (
        "Hosts, addresses, users and paths are replaced by stable names in this report."
        if analysis.redacted
        else "Not redacted: contains host names, IP addresses and paths."
    )
    notes = [el("p", prose(note), class_="note") for note in analysis.notes[:5]]
    title = el("h1", stamp, el("span", words.cause(analysis)))
    return el("div", title, lead, _journey(analysis), el("p", redaction, class_="small"), notes, class_="wrap hero")


def _journey(analysis: Analysis) -> list[Markup]:
    """How far the job got; the job in a few lines where it is healthy; why nothing can be said."""
    rows: list[Markup] = []
    if analysis.progress is not None and not story.told(analysis):
        rows.append(el("p", el("strong", "How far the job got: "), one_line(analysis.progress.line, 600)))
    if analysis.status == "ok":
        rows.append(el("p", "; ".join(one_line(line, 300) for line in analysis.summary), class_="job"))
    rows += [el("p", one_line(reason, 300)) for reason in analysis.reasons[1:4]]
    rows += [el("p", words.job_part(part)) for part in analysis.jobs]
    for item in analysis.inputs[:50]:
        if item.kind == "unreadable" or (analysis.status == "not_judged" and item.taken_for):
            command = el("code", one_line(item.command, 500)) if item.command else None
            rows.append(el("p", f"{one_line(item.path, 300)}: {one_line(item.taken_for, 200)} ", command))
    return rows


def _story(analysis: Analysis) -> Markup | None:
    """What happened in which order; the cause is a link to its finding."""
    if not story.told(analysis):
        return None
    moments = story.first_screen(analysis.story)
    rows = [
        el(
            "li",
            el("span", row.clock, class_="clock"),
            el("b", row.kind),
            el(
                "span",
                el("a", row.text, href=f"#{row.moment.anchor}") if row.moment.anchor else row.text,
                el("span", f" {row.place}", class_="src") if row.place else None,
            ),
            class_="guilty" if row.guilty else "",
        )
        for row in story.rows(moments)
    ]
    on = story.day(moments)
    title = [story.TITLE, el("span", f" {on}", class_="src") if on else None]
    return panel("story", title, el("ol", rows, class_="story"))


def _top(analysis: Analysis) -> Markup:
    loud = analysis.loud
    shown = analysis.causes[:_TOP] or list(analysis.findings[:_TOP])
    title = "What to do first" if loud else "Worth knowing"
    if not shown:
        body: Child = el("p", _nothing(analysis))
    else:
        body = el("ol", [_entry(f, quoted=n == 0 and bool(loud)) for n, f in enumerate(shown)], class_="top")
    rest = len(analysis.findings) - len(shown)
    more = el("p", el("a", f"All {len(analysis.findings)} findings", href="#findings")) if rest > 0 else None
    return panel("first", title, body, more)


def _nothing(analysis: Analysis) -> str:
    if analysis.status == "not_judged":
        return (
            "No input could be judged. This means neither healthy nor broken: "
            "see the notes above and what was not analyzed."
        )
    if analysis.status == "inconclusive":
        return "Nothing was found, and nothing proves that the job is healthy. What to add or to do next stands below."
    return "No problem found in these inputs."


def to_see_more(analysis: Analysis) -> Markup | None:
    """What to add or to do to see more, best first."""
    if not analysis.more:
        return None
    rows = [
        el(
            "li",
            el("div", el("code", one_line(item.add, 300)), class_="t"),
            el("p", one_line(item.enables, 300), class_="d"),
        )
        for item in analysis.more[:_MORE]
    ]
    rest = len({item.name for item in analysis.not_judged})
    link = el("p", el("a", f"{plural(rest, 'check')} could not run", href="#gaps")) if rest else None
    return panel("open", "To see more", el("ul", rows, class_="top bare"), link, class_="panel open")


def _entry(finding: Finding, *, quoted: bool) -> Markup:
    link = el("a", words.shortened(one_line(finding.title, 1000), _TITLE), href=f"#{finding.anchor}")
    where = words.affected(finding, 6)
    code = f"{finding.code} {finding.name}" + (f", {where}" if where else "")
    return el(
        "li",
        badge(finding.severity),
        el("div", link, class_="t"),
        _quote(finding) if quoted else None,
        _steps(finding),
        el("p", code, class_="d small"),
    )


def _quote(finding: Finding) -> Markup | None:
    """The first line of evidence, so that the first screen shows what was read."""
    line = words.primary(finding)
    if line is None or not line.text.strip():
        return None
    name = one_line(line.input, 200).rpartition("/")[2]
    where = el("span", f"{name}:{line.line}" if line.line else name, class_="src")
    return el("p", where, " ", el("code", words.shortened(one_line(line.text, 1000), _QUOTED)), class_="d quote")


def _steps(finding: Finding) -> list[Markup]:
    rows = []
    for step in words.steps(finding)[:_STEPS]:
        label = el("b", f"{step.label.capitalize()}: " if step.is_command else "Do: ")
        where = f" ({step.where})" if step.where else ""
        rows.append(el("p", label, el("code", step.text) if step.is_command else prose(step.text), where, class_="d"))
    return rows


def _side(analysis: Analysis, first: Markup | None) -> Markup | None:
    panels = [first, _job(analysis), _coverage(analysis) if analysis.coverage.nccl_lines else None]
    return el("div", panels, class_="side") if any(panels) else None


def _job(analysis: Analysis) -> Markup | None:
    job = analysis.job
    facts = [
        ("NCCL", _versions(job.nccl_versions)),
        ("CUDA", _versions(job.cuda_versions)),
        ("Driver", _versions(tuple(map(driver, job.driver_versions)))),
        ("Ranks", _number(job.nranks)),
        ("Nodes", _number(job.n_nodes)),
        ("GPUs", _number(job.gpus)),
        ("Networks", _versions(job.networks)),
        ("Communicators", _number(job.communicators or None)),
        ("Hosts", words.host_list(job.hosts, 3)),
    ]
    rows = [[el("dt", name), el("dd", value)] for name, value in facts if value]
    missing = ", ".join(name for name, value in facts if not value)
    if rows and missing and analysis.coverage.nccl_lines:
        rows.append([el("dt", "Not known"), el("dd", missing, class_="missing")])
    if len(rows) < 2:  # the number of ranks alone stands above
        return None
    return panel("job", "Job", el("dl", rows, class_="facts"))


def _versions(values: tuple[str, ...]) -> str:
    return listed(one_line(v, 60) for v in values)


def driver(version: str) -> str:
    """A driver's number for people: NCCL prints the CUDA version that it supports, ``12040`` for 12.4."""
    if re.fullmatch("[0-9]{4,5}", version):
        number = int(version)
        return f"{version} (CUDA {number // 1000}.{number % 1000 // 10})"
    return version


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"


def _coverage(analysis: Analysis) -> Markup:
    coverage = analysis.coverage
    parts = (
        ("c-parsed", "understood", coverage.parsed),
        ("c-unknown", f"NCCL {_lines(coverage.unknown)} of unknown kind", coverage.unknown),
        ("c-foreign", f"{_lines(coverage.foreign)} of other programs", coverage.foreign),
        ("c-torn", f"torn {_lines(coverage.torn)}", coverage.torn),
    )
    bars, start = [], 0.0
    for css, _, count in parts:
        width = round(100 * count / coverage.lines, 3)
        if count:
            bars.append(el("rect", x=f"{start:g}%", y="0", width=f"{max(width, 0.6):g}%", height="100%", class_=css))
        start = round(start + width, 3)
    keys = [
        el(
            "li",
            el("svg", el("rect", width="12", height="12", rx="3", class_=css), viewBox="0 0 12 12", aria_hidden="true"),
            f"{count:,} {label}",
        )
        for css, label, count in parts
        if count
    ]
    share = (
        f"{words.percent(coverage.understood)} of {coverage.nccl_lines:,} NCCL lines"
        if coverage.nccl_lines
        else "No NCCL line"
    )
    cover = el("div", el("svg", bars, aria_hidden="true", focusable="false"), class_="cover")
    return panel("understood", "Parsed lines", el("p", el("b", share)), cover, el("ul", keys, class_="key"))

"""The findings, each with its figures, next step and evidence among the lines around it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.model import Analysis, Evidence, Finding, FindingClass, Role, Severity, Step
from nccl_insight.base.units import format_ranks, plural
from nccl_insight.report import words
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.html.markup import Child, Markup, button, chapter, el, icon, join, prose, table, unseen
from nccl_insight.report.html.summary import badge
from nccl_insight.report.sanitize import one_line, sanitize
from nccl_insight.views.context import AROUND, EVIDENCE, FINDINGS

ROWS = 200
LINE_LIMIT = 500
_RELATED = 4
_FILTERED = 4
_MARKED = 256
# Figures by family of diagnoses (the first digit of the code), the most telling first.
_WORDS: Final = toml.beside(__file__)


def related(finding: Finding, figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """The figures that show what a finding is about, the most telling first."""
    there = {f.id: f for f in figures}
    wanted = _WORDS["figures"].get(finding.code[:3], ()) if finding.finding_class is not FindingClass.INPUT else ()
    return tuple(there[name] for name in wanted if name in there)[:_RELATED]


def proof(analysis: Analysis, figures: Sequence[Figure]) -> Figure | None:
    """The figure of the first screen: what shows the first cause, or the machine where nothing is wrong."""
    causes = analysis.causes
    shown = related(causes[0], figures) if causes else figures[:1] if analysis.status == "ok" else ()
    return next(iter(shown), None)


def findings(analysis: Analysis, context: Mapping[tuple[str, int], str], figures: Sequence[Figure] = ()) -> Markup:
    """The section with all findings: the first ones in full, the others in a table.

    ``context``: lines around the evidence by (path, line). ``figures``: those of the report; each card links to the
    ones that show what it is about.
    """
    items = analysis.findings
    if not items:
        return chapter("findings", "Findings", el("p", "No findings."))
    anchors: dict[str, str] = {}
    for item in items[:FINDINGS]:
        for key in (item.name, item.code, item.anchor):
            anchors.setdefault(key, item.anchor)
    cards = [_card(item, anchors, context, related(item, figures)) for item in items[:FINDINGS]]
    return chapter("findings", "Findings", _filter(items), cards, _rest(items[FINDINGS:]))


def _filter(items: Sequence[Finding]) -> Markup | None:
    """Fields that narrow the cards by severity, rank, host and words; for scripts only."""
    if len(items) < _FILTERED:
        return None
    severities = dict.fromkeys(i.severity for i in items)
    options = [el("option", "all", value=""), *(el("option", s.word, value=s.value) for s in severities)]
    fields = [el("label", "Severity ", el("select", options, id="f-severity"))]
    if any(i.ranks for i in items):
        fields.append(el("label", "Rank ", el("input", type="text", inputmode="numeric", size=6, id="f-rank")))
    if any(i.hosts for i in items):
        fields.append(el("label", "Host ", el("input", type="text", size=14, id="f-host")))
    fields.append(el("label", "Words in it ", el("input", type="search", size=22, id="f-words")))
    fields.append(el("output", id="f-count"))
    return el("div", fields, class_="filter js-only", role="search", aria_label="Findings")


def _rest(items: Sequence[Finding]) -> Markup | None:
    if not items:
        return None
    rows = [
        [
            el("span", f"{i.code} {i.name}", id=i.anchor),
            badge(i.severity),
            i.title,
            words.affected(i, 4),
            prose(i.next_step),
        ]
        for i in items[:ROWS]
    ]
    header = ["Finding", "Severity", "What", "Where", "Next step"]
    return table(f"{plural(len(items), 'further finding')}", header, rows, total=len(items))


def _card(
    finding: Finding,
    anchors: Mapping[str, str],
    context: Mapping[tuple[str, int], str],
    shown_in: Sequence[Figure] = (),
) -> Markup:
    name = f"{finding.code} {finding.name}"
    copy = button("copy", "Copy as markdown", f": {name}", data_copy=finding.anchor)
    meta = el(
        "div",
        badge(finding.severity),
        el("a", name, class_="code", href=f"#{finding.anchor}", aria_label=f"Link to {name}"),
        _chip("action", f"{finding.action.value}, {_WORDS['actions'][finding.action.value]}"),
        _chip("confidence", finding.confidence.value),
        _chip("kind", _WORDS["classes"][finding.finding_class.value]),
        el("span", copy, class_="tools js-only"),
        class_="meta",
    )
    title_id = f"{finding.anchor}-t"
    head = el("header", meta, el("h3", one_line(finding.title, 1000), id=title_id))
    body = [
        _role(finding, anchors),
        _where(finding),
        _versus(finding),
        next_steps(words.steps(finding)),
        el("p", prose(finding.explanation)) if finding.explanation else None,
        _figures(finding, shown_in),
        _folded(finding, _evidence(finding, context)),
        _sources(finding.sources),
    ]
    return el(
        "article",
        head,
        el("div", body, class_="body"),
        id=finding.anchor,
        class_=f"finding panel e-{finding.severity.value}",
        aria_labelledby=title_id,
        data_severity=finding.severity.value,
        data_ranks=" ".join(map(str, finding.ranks[:_MARKED])) or None,
        data_hosts=" ".join(one_line(h, 120) for h in finding.hosts[:_MARKED]) or None,
    )


def _folded(finding: Finding, evidence: Markup) -> Markup:
    """Evidence of notes is folded: it takes a screen each and nobody came for it."""
    if finding.severity is not Severity.INFO or not finding.evidence:
        return evidence
    return el("details", el("summary", f"Evidence: {plural(len(finding.evidence), 'line')}"), evidence)


def _figures(finding: Finding, shown_in: Sequence[Figure]) -> Markup | None:
    """Links to the figures, and the button that marks the finding's ranks in all of them."""
    links = [el("a", f.title, href=f"#fig-{f.id}") for f in shown_in]
    mark = None
    if 0 < len(finding.ranks) <= _MARKED:
        mark = el(
            "button", "Mark its ranks", type="button", data_mark=finding.anchor, aria_pressed="false", class_="js-only"
        )
    if not links and mark is None:
        return None
    listed = [[", " if n else "", link] for n, link in enumerate(links)]
    return el("p", "Shown in: " if links else None, listed, " ", mark, class_="small shown")


def next_steps(steps: Sequence[Step]) -> Markup | None:
    """The next step: commands as code that can be copied, check and fix apart; words as words."""
    if not steps:
        return None
    rows: list[Child] = []
    for step in steps:
        if not step.is_command:
            rows.append(el("p", el("b", "Next step: " if len(steps) == 1 else "Do: "), prose(step.text)))
            continue
        copy = button("copy", "Copy", f" the {step.label} command", data_copy_code=True, class_="js-only")
        where = el("span", f"({step.where})", class_="small") if step.where else None
        rows.append(el("p", el("b", f"{step.label.capitalize()}: "), el("code", step.text), " ", where, " ", copy))
    return el("div", icon("do"), el("div", rows), class_="do")


def _chip(label: str, value: str) -> Markup:
    return el("span", f"{label} ", el("b", value), class_="chip")


def _role(finding: Finding, anchors: Mapping[str, str]) -> Markup | None:
    if finding.role is Role.ROOT:
        return el("p", "Other findings of this report follow from this one.", class_="small")
    if finding.role is not Role.CASCADE or not finding.caused_by:
        return None
    anchor = anchors.get(finding.caused_by)
    cause: Child = el("a", finding.caused_by, href=f"#{anchor}") if anchor else finding.caused_by
    return el("p", "Follows from ", cause, ": look there first.", class_="small")


def _where(finding: Finding) -> Markup | None:
    parts = []
    ranks, hosts = len(set(finding.ranks)), len(finding.hosts)
    if ranks:
        shown = format_ranks(finding.ranks, 40)
        parts.append(f"rank {shown}" if ranks == 1 else f"{plural(ranks, 'rank')}: {shown}")
    if hosts:
        named = words.host_list(finding.hosts, 16)
        parts.append(f"host {named}" if hosts == 1 else f"{plural(hosts, 'host')}: {named}")
    if finding.comm_id:
        parts.append(f"communicator {one_line(finding.comm_id, 60)}")
    return el("p", "; ".join(parts), class_="small") if parts else None


def _versus(finding: Finding) -> Markup | None:
    pairs = zip(("Observed", "Expected"), words.observed_expected(finding), strict=True)
    cells = [el("div", el("dt", label), el("dd", value)) for label, value in pairs if value]
    return el("dl", cells, class_="versus") if cells else None


def _sources(sources: Sequence[str]) -> Markup | None:
    if not sources:
        return None
    shown = [_source(s) for s in sources[:6]]
    return el("p", "Based on: ", [[", " if n else "", s] for n, s in enumerate(shown)], class_="sources")


def _source(source: str) -> Child:
    text = one_line(source, 300)
    safe = text.startswith("https://") and " " not in text
    return el("a", text.removeprefix("https://"), href=text, rel="noreferrer noopener") if safe else text


def _evidence(finding: Finding, context: Mapping[tuple[str, int], str]) -> Markup:
    """Excerpts by input, with the lines around them where they can be read back."""
    evidence, name = finding.evidence, f"{finding.anchor} {finding.name}"
    shown = evidence[:EVIDENCE]
    by_input: dict[str, list[Evidence]] = defaultdict(list)
    for item in shown:
        if item.line:
            by_input[item.input].append(item)
    blocks = [_excerpt(name, path, items, context) for path, items in by_input.items()]
    whole = [item for item in shown if not item.line]
    blocks += [_measured(name, whole)] if whole else []
    left = len(evidence) - min(len(evidence), EVIDENCE)
    more = (
        el("p", f"and {left:,} more evidence lines; the JSON output has all of them", class_="more") if left else None
    )
    return join([*blocks, more])


def _measured(name: str, items: Sequence[Evidence]) -> Markup:
    """Evidence that is no line: what was counted, measured or looked for in vain, and in which input."""
    folder = words.common_folder(e.input for e in items)
    rows = []
    for item, after in zip(items, [*items[1:], None], strict=True):
        # Lines of one input that stand together name it once, under the last of them.
        told = after is not None and after.input == item.input
        path = one_line(item.input.removeprefix(folder), 300) or "all inputs"
        source = None if told else el("div", path, class_="src")
        rows.append(el("tr", el("td", sanitize(item.text, LINE_LIMIT), source), class_="hit"))
    caption = "Over whole inputs" + (f" in {one_line(folder, 300)}" if folder else "")
    return _block(
        el("caption", caption if folder else "Over the whole input"), rows, f"Evidence of {name} over the whole input"
    )


def _block(caption: Markup, rows: Sequence[Markup], said: str) -> Markup:
    grid = el("table", caption, el("tbody", rows))
    return el("div", grid, class_="log", tabindex="0", role="region", aria_label=said)


def _excerpt(name: str, path: str, items: Sequence[Evidence], context: Mapping[tuple[str, int], str]) -> Markup:
    hits = {e.line: e for e in items if e.line}
    lines: dict[int, str] = {}
    for number in hits:
        for near in range(number - AROUND, number + AROUND + 1):
            if (path, near) in context:
                lines[near] = context[path, near]
    lines |= {number: e.text for number, e in hits.items()}
    rows: list[Markup] = []
    before = None
    for number in sorted(lines):
        if before is not None and number > before + 1:
            rows.append(el("tr", el("th", "⋮", scope="row", aria_label="lines left out"), el("td", ""), class_="gap"))
        hit = number in hits
        text = sanitize(lines[number].rstrip("\r\n"), LINE_LIMIT)
        mark = unseen("evidence: ") if hit else None
        rows.append(el("tr", el("th", number, scope="row"), el("td", mark, text), class_="hit" if hit else None))
        before = number
    caption = el("caption", (one_line(path, 300) or "input") + (":" + ",".join(map(str, sorted(hits))) if hits else ""))
    said = f"Evidence of {name} in {one_line(path, 120)}" + (f" line {min(hits)}" if hits else "")
    return _block(caption, rows, said)

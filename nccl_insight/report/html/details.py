"""The rest of the report: versions, environment, what was not analyzed, where everything comes from."""

from collections.abc import Sequence

from nccl_insight.advise.settings import catalog as envdata
from nccl_insight.base.model import Analysis
from nccl_insight.base.units import format_bytes, format_ranks, listed, plural
from nccl_insight.report import words
from nccl_insight.report.html.markup import Child, Markup, chapter, el, prose, table
from nccl_insight.report.html.summary import badge, driver, to_see_more
from nccl_insight.report.sanitize import one_line, scrub
from nccl_insight.views.environment import Environment, Notes

ROWS = 50
REASONS = 8


def environment(view: Environment) -> Markup:
    """Versions of every rank, odd ones first, and the settings that NCCL reported."""
    return chapter("environment", "Versions and settings", _versions(view), _settings(view))


def _versions(view: Environment) -> Markup:
    if not view.versions:
        return el("p", "No version was reported.")
    rows: list[list[Child]] = [
        [
            f"{v.nccl or 'not printed'}" + (" (differs)" if v.odd else ""),
            v.cuda or "unknown",
            driver(v.driver or "unknown"),
            v.library or "unknown",
            v.network or "unknown",
            format_ranks(v.ranks, 12) or "unknown",
            words.host_list(v.hosts, 6),
        ]
        for v in view.versions
    ]
    header = ["NCCL", "CUDA", "Driver", "Library", "Network", "Ranks", "Hosts"]
    odd = any(v.odd for v in view.versions)
    alike = (
        "Versions: the same on every rank" if view.n_versions == 1 else "Versions by rank, as far as they are printed"
    )
    caption = "Versions by rank, the odd ones first" if odd else alike
    return table(caption, header, rows, total=view.n_versions)


def _settings(view: Environment) -> Markup:
    if not view.settings:
        return el("p", "No setting was reported. NCCL prints them with NCCL_DEBUG=INFO.")
    known = envdata.catalog()
    rows: list[list[Child]] = []
    for row in view.settings:
        variable = known.get(row.name)
        default = variable.default if variable and variable.default is not None else ""
        processes, remarks = plural(row.processes, "process", "processes"), []
        if row.values > 1:
            remarks.append(f"{row.values} different values")
        if variable is None and not known.known(row.name):
            remarks.append("not a name that NCCL knows")
        if variable and variable.deprecated:
            remarks.append("deprecated")
        rows.append(
            [
                el("code", one_line(row.name, 80)),
                el("code", one_line(row.value or "", 200)),
                row.origin or "unknown",
                one_line(str(default), 80) or ("not set" if variable and variable.type == "path" else "not known"),
                f"{processes} on {words.host_list(row.hosts, 3) or 'unknown hosts'}",
                ", ".join(remarks),
            ]
        )
    header = ["Setting", "Value", "Set by", "Default", "Where", "Unusual"]
    return table("Settings that NCCL reported, differing ones first", header, rows, total=view.n_settings)


def gaps(analysis: Analysis, notes: Notes) -> Markup:
    """What was not judged, suppressed or not understood."""
    parts: list[Child] = []
    if analysis.loud:
        parts.append(to_see_more(analysis))  # of the others the first screen says it
    rows: list[list[Child]]
    missing = _not_judged(words.not_judged_groups(analysis.not_judged))
    if said := words.without_a_log(analysis):
        parts += [el("p", said), el("details", el("summary", "What each of them needs"), missing)]
    else:
        parts.append(missing)
    if analysis.suppressed:
        rows = [
            [f"{f.code} {f.name}", badge(f.severity), f.title, s.reason, s.until or "no end"]
            for s in analysis.suppressed[:ROWS]
            for f in (s.finding,)
        ]
        header = ["Finding", "Severity", "What", "Suppressed because", "Until"]
        parts.append(table("Suppressed findings", header, rows, total=len(analysis.suppressed)))
    templates = analysis.coverage.unknown_templates
    if templates:
        rows = [[el("code", one_line(text, 300)), f"{count:,}"] for text, count in templates[:20]]
        parts.append(
            table(
                "NCCL lines of unknown kind, figures masked",
                ["Template", "Lines"],
                rows,
                total=len(templates),
                numeric=[1],
                more="the table `unknown` has all of them",
            )
        )
    coverage = analysis.coverage
    if coverage.foreign or coverage.torn:
        counts = [f"{plural(coverage.foreign, 'line')} of other programs"] if coverage.foreign else []
        counts += [plural(coverage.torn, "torn line")] if coverage.torn else []
        verb = "was" if coverage.foreign + coverage.torn == 1 else "were"
        parts.append(el("p", f"{' and '.join(counts)} {verb} read and not judged."))
    if notes.total:
        rows = [[kind, one_line(detail, 300), line or ""] for kind, detail, line in notes.notes]
        parts.append(table("Notes of the readers", ["Kind", "Detail", "Line"], rows, total=notes.total))
    return chapter("gaps", "What was not analyzed", parts)


def _not_judged(groups: Sequence[words.NotJudgedGroup]) -> Child:
    if not groups:
        return el("p", "Every check could run.")
    rows: list[list[Child]] = [[g.reason, prose(g.how_to_enable), len(g.names), listed(g.names, 12)] for g in groups]
    header = ["Because", "To enable", "Count", "Checks"]
    first = table("Checks that could not run", header, rows[:REASONS], numeric=[2])
    if len(rows) <= REASONS:
        return first
    caption = plural(len(rows) - REASONS, "further reason")
    rest = table(
        f"Could not run: {caption}", header, rows[REASONS : REASONS + 60], total=len(rows) - REASONS, numeric=[2]
    )
    return [first, el("details", el("summary", caption), rest)]


def outputs(analysis: Analysis) -> Markup | None:
    """What host tools say, one row an output; nothing where there is none."""
    if not analysis.outputs:
        return None
    folder = words.common_folder(i.path for i in analysis.inputs)
    rows: list[list[Child]] = [
        [
            f"{one_line(o.input.removeprefix(folder), 200)}:{o.line}",
            o.host or "",
            one_line(o.what, 120),
            one_line(o.says, 400),
        ]
        for o in analysis.outputs[:ROWS]
    ]
    header = ["Place", "Host", "What it is", "What it says"]
    return chapter("host-tools", "Host tools", table("What host tools say", header, rows, total=len(analysis.outputs)))


def provenance(analysis: Analysis, command: str | None) -> Markup:
    """Inputs with their hashes, the command, the tool, and what redaction covers."""
    folder = words.common_folder(i.path for i in analysis.inputs)
    rows: list[list[Child]] = [
        [
            el("span", one_line(i.path.removeprefix(folder), 300)),
            i.kind,
            format_bytes(i.size_bytes),
            f"{i.lines:,}" if i.lines else "",
            el("code", i.sha256),
        ]
        for i in analysis.inputs[:ROWS]
    ]
    header = ["File", "Kind", "Size", "Lines", "SHA-256"]
    tool = analysis.tool
    facts: list[tuple[str, Child]] = [
        ("Tool", f"{tool.name} {tool.version}"),
        ("Grammar", el("code", tool.grammar_hash)),
        ("Schema", f"version {tool.schema_version}"),
        ("Redaction", _redaction(analysis)),
    ]
    if command:
        facts.insert(0, ("Command", el("code", scrub(one_line(command, 1000)))))
    caption = f"Inputs in {one_line(folder, 300)}" if folder else "Inputs"
    files = table(caption, header, rows, total=len(analysis.inputs), numeric=[2, 3]) if rows else el("p", "No inputs.")
    about = el("dl", [[el("dt", k), el("dd", v)] for k, v in facts], class_="facts")
    return chapter("provenance", "Inputs and versions", files, about)


def _redaction(analysis: Analysis) -> str:
    if analysis.redacted:
        return (
            "host names, IP addresses, GIDs, MACs, GUIDs, user names, home and job paths and job names are replaced by "
            "stable names. Free text of other programs can hold secrets that no pattern finds: read before sharing."
        )
    return "none: NOT redacted"

"""The rest of the report: versions, environment, what was not analyzed, where everything comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from nccl_insight.model import Analysis, Severity
from nccl_insight.report import words
from nccl_insight.report.html.markup import Child, Markup, el, prose, table
from nccl_insight.report.html.summary import badge, driver, to_see_more
from nccl_insight.report.sanitize import one_line
from nccl_insight.settings import catalogue as envdata
from nccl_insight.tables.run import Run
from nccl_insight.units import format_bytes, format_ranks, plural

ROWS = 50
REASONS = 8
_SECRET = re.compile(
    r"(?i)((?:^|[\s;-])[\w.-]{0,80}(?:token|secret|passw(?:or)?d|api[_-]?key|credential)[\w.-]{0,80})([=\s]{1,8})\S+"
)
_USERINFO = re.compile(r"(?<!\w)(\w+://)[^/\s@]+@")


def environment(run: Run) -> Markup | None:
    """Versions of every rank, odd ones first, and the settings that NCCL reported; None where no log tells them."""
    if run.table("processes").is_empty() and run.table("env").is_empty():
        return None
    return el(
        "section",
        el(
            "div",
            el("h2", "Versions and settings", id="environment"),
            _versions(run),
            _settings(run),
            class_="wrap",
        ),
    )


def _versions(run: Run) -> Markup:
    ranks = (
        run.lazy("ranks")
        .filter(pl.col("nranks") == pl.col("nranks").max())
        .unique(["host", "pid", "rank"], keep="first", maintain_order=True)
        .select("host", "pid", "rank")
    )
    keys = ["nccl_version", "cuda_version", "driver_version", "library", "network"]
    processes = run.lazy("processes").with_columns(pl.col("library", "driver_version").cast(pl.String))
    groups = (
        processes.join(ranks, on=["host", "pid"], how="left", nulls_equal=True)
        .group_by(keys)
        .agg(
            pl.col("rank").drop_nulls().unique().sort().alias("ranks"),
            pl.col("host").drop_nulls().unique().sort().alias("hosts"),
            pl.len().alias("count"),
        )
        .sort(["count", *keys], nulls_last=True)
        .collect()
    )
    if groups.is_empty():
        return el("p", "No version was reported.")
    rows: list[list[Child]] = []
    for row in groups.head(ROWS).iter_rows(named=True):
        odd = groups.height > 1 and row["count"] < groups["count"].max()
        label = f"{row['nccl_version'] or 'unknown'}" + (" (differs)" if odd else "")
        rows.append(
            [
                label,
                row["cuda_version"] or "unknown",
                driver(row["driver_version"] or "unknown"),
                row["library"] or "unknown",
                row["network"] or "unknown",
                format_ranks(row["ranks"], 12) or "unknown",
                words.host_list(tuple(row["hosts"]), 6),
            ]
        )
    header = ["NCCL", "CUDA", "Driver", "Library", "Network", "Ranks", "Hosts"]
    caption = (
        "Versions by rank, the odd ones first" if groups.height > 1 else "Versions: the same on every rank"
    )
    return table(caption, header, rows, total=groups.height)


def _settings(run: Run) -> Markup:
    keys = ["name", "value", "origin"]
    groups = (
        run.lazy("env")
        .filter(pl.col("name").is_not_null())
        .with_columns(pl.col("origin").cast(pl.String))
        .group_by(keys)
        .agg(
            pl.col("host").drop_nulls().unique().sort().alias("hosts"),
            pl.struct("host", "pid").n_unique().alias("processes"),
            pl.struct("input_id", "line").first().alias("at"),
        )
        .with_columns(pl.col("value").n_unique().over("name").alias("values"))
        .sort([pl.col("values") == 1, "name", "processes", "value", "origin"], nulls_last=True)
        .collect()
    )
    if groups.is_empty():
        return el("p", "No setting was reported. NCCL prints them with NCCL_DEBUG=INFO.")
    known = envdata.catalogue()
    rows: list[list[Child]] = []
    for row in groups.head(ROWS).iter_rows(named=True):
        variable = known.get(row["name"])
        default = variable.default if variable and variable.default is not None else ""
        remarks = []
        if row["values"] > 1:
            remarks.append(f"{row['values']} different values")
        if variable is None and not known.known(row["name"]):
            remarks.append("not a name that NCCL knows")
        if variable and variable.deprecated:
            remarks.append("deprecated")
        rows.append(
            [
                el("code", one_line(row["name"], 80)),
                el("code", one_line(row["value"] or "", 200)),
                row["origin"] or "unknown",
                one_line(str(default), 80) or "not known",
                _on(row["processes"], tuple(row["hosts"])),
                ", ".join(remarks),
            ]
        )
    header = ["Setting", "Value", "Set by", "Default", "Where", "Unusual"]
    return table("Settings that NCCL reported, differing ones first", header, rows, total=groups.height)


def _on(processes: int, hosts: tuple[str, ...]) -> str:
    return f"{plural(processes, 'process', 'processes')} on {words.host_list(hosts, 3) or 'unknown hosts'}"


def gaps(analysis: Analysis, run: Run) -> Markup:
    """What was not judged, suppressed or not understood."""
    parts: list[Child] = [el("h2", "What was not analyzed", id="gaps")]
    if any(f.severity is not Severity.INFO for f in analysis.findings):
        parts.append(to_see_more(analysis))  # of the others the first screen says it
    rows: list[list[Child]]
    missing = _not_judged(words.not_judged_groups(analysis.not_judged))
    if analysis.coverage.nccl_lines or not analysis.not_judged:
        parts.append(missing)
    else:
        names = len({item.name for item in analysis.not_judged})
        parts.append(
            el(
                "p",
                f"Most checks need a log of NCCL (NCCL_DEBUG=INFO): {plural(names, 'check')} could not run.",
            )
        )
        parts.append(el("details", el("summary", "What each of them needs"), missing))
    if analysis.suppressed:
        rows = [
            [
                f"{s.finding.code} {s.finding.name}",
                badge(s.finding.severity),
                s.finding.title,
                s.reason,
                s.until or "no end",
            ]
            for s in analysis.suppressed[:ROWS]
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
        parts.append(
            el(
                "p",
                f"{plural(coverage.foreign, 'line')} of other programs and {plural(coverage.torn, 'torn line')} "
                "were read and not judged.",
            )
        )
    notes = run.table("notes")
    if notes.height:
        rows = [
            [r["kind"] or "", one_line(r["detail"] or "", 300), r["line"] or ""]
            for r in notes.head(20).iter_rows(named=True)
        ]
        parts.append(table("Notes of the readers", ["Kind", "Detail", "Line"], rows, total=notes.height))
    return el("section", el("div", parts, class_="wrap"))


def _not_judged(groups: Sequence[words.NotJudgedGroup]) -> Child:
    if not groups:
        return el("p", "Every diagnosis was judged.")
    rows: list[list[Child]] = []
    for group in groups:
        names = ", ".join(group.names[:12]) + (
            f" and {len(group.names) - 12} more" if len(group.names) > 12 else ""
        )
        rows.append([group.reason, prose(group.how_to_enable), len(group.names), names])
    header = ["Because", "To enable", "Count", "Diagnoses"]
    first = table("Diagnoses that were not judged", header, rows[:REASONS], numeric=[2])
    if len(rows) <= REASONS:
        return first
    caption = plural(len(rows) - REASONS, "further reason")
    rest = table(
        f"Not judged: {caption}", header, rows[REASONS : REASONS + 60], total=len(rows) - REASONS, numeric=[2]
    )
    return [first, el("details", el("summary", caption), rest)]


def provenance(analysis: Analysis, command: str | None) -> Markup:
    """Inputs with their hashes, the command, the tool, and what redaction covers."""
    rows: list[list[Child]]
    rows = [
        [
            el("span", one_line(i.path, 300)),
            i.kind,
            format_bytes(i.size_bytes),
            f"{i.lines:,}",
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
    return el(
        "section",
        el(
            "div",
            el("h2", "Where this comes from", id="provenance"),
            table("Inputs", header, rows, total=len(analysis.inputs), numeric=[2, 3])
            if rows
            else el("p", "No inputs."),
            el("dl", [[el("dt", k), el("dd", v)] for k, v in facts], class_="facts"),
            class_="wrap",
        ),
    )


def _redaction(analysis: Analysis) -> str:
    if analysis.redacted:
        return (
            "host names, IP addresses, GIDs, MACs, GUIDs, user names, home and job paths and job names are replaced by "
            "stable names. Free text of other programs can hold secrets that no pattern finds: read before sharing."
        )
    return "none: NOT redacted"


def scrub(command: str) -> str:
    """The command line without values of options that look like secrets."""
    return _USERINFO.sub(r"\1***@", _SECRET.sub(r"\1\2***", command))

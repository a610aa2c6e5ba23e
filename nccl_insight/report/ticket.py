"""What people paste: the issue form of NVIDIA/nccl filled in, and five lines for a chat."""

from typing import Final

from nccl_insight.base.model import Analysis
from nccl_insight.base.natures import names
from nccl_insight.base.units import capital, listed, plural
from nccl_insight.report import markdown, story, words
from nccl_insight.report.sanitize import one_line, scrub
from nccl_insight.views.platform import Platform

_CHAT: Final = 7
_MOST_FINDINGS: Final = 6
_MOST_SETTINGS: Final = 60
_HANGS: Final = ("timeout", "hang", "desync", "stuck", "missing", "silent", "not-reached", "never", "unmatched")


def github_issue(analysis: Analysis, view: Platform, command: str = "") -> str:
    """The fields of NVIDIA/nccl's issue form (``.github/ISSUE_TEMPLATE/ISSUE.yaml``) as markdown.

    Always below 60,000 characters. Fields that the inputs do not tell hold an italic request, so that nothing made up
    is sent. ``command``: how the report was made, masked and redacted like the analysis.
    """
    parts = [
        f"<!-- Title: [Issue]: {markdown.escape(words.cause(analysis))} -->", "",
        "### How is this issue impacting you?", "", _impact(analysis), "",
        "### Share Your Debug Logs", "", *_logs(analysis), "",
        "### Steps to Reproduce the Issue", "", *_steps(analysis, view), "",
        "### NCCL Version", "", _version(analysis), "",
        "### Your platform details", "", *_platform(analysis, view), "",
        "### Error Message & Behavior", "", *_behavior(analysis), "",
        *_made_by(analysis, command),
    ]  # fmt: skip
    text = "\n".join(parts).rstrip() + "\n"
    if len(text) < markdown.LIMIT:
        return text
    ending = "\n\n(cut here: it does not fit into an issue; attach the HTML or JSON report)\n"
    return markdown.close_fence(text[: markdown.LIMIT - len(ending) - 64]) + ending


def platform(analysis: Analysis, view: Platform, command: str = "") -> list[str]:
    """Lines of markdown on version, GPUs, topology, network, settings and command, for :func:`markdown.render`."""
    rows = ["### Job and platform", "", *_platform(analysis, view)[:-1], ""]
    rows = [line for line in rows if not line.endswith(" | _not in the inputs_ |")]
    at = next((n for n, line in enumerate(rows) if line.startswith("| Ranks")), len(rows) - 1)
    rows[at:at] = [f"| NCCL | {_version(analysis)} |"] if analysis.job.nccl_versions else []
    if command:
        last = max(n for n, line in enumerate(rows) if line.startswith("|"))
        rows.insert(last + 1, f"| Command | {markdown.code_span(scrub(one_line(command, 400)))} |")
    return [*rows, *_settings(view), ""]


def chat(analysis: Analysis) -> str:
    """At most eleven lines without markup for a chat: verdict and cause, the job, its story, a line, what to do."""
    network = " and ".join(one_line(v, 40) for v in analysis.job.networks[:3])
    job = ", ".join(filter(None, (words.job_line(analysis), network and f"network {network}")))
    lines = [f"{analysis.verdict}: {words.cause(analysis)}"]
    if story.told(analysis):
        lines += [f"Job: {job}"] if job else []
        moments = [m for m in story.first_screen(analysis.story, _CHAT) if m.kind != "start"]
        lines += [
            f"{row.clock}{' ' if row.clock else ''}{row.kind}: {words.shortened(row.text, 160)}"
            for row in story.rows(moments)
        ]
    elif job:
        lines.append(f"Job: {job}" + (f". {capital(analysis.progress.line)}" if analysis.progress else ""))
    elif analysis.progress:
        lines.append(capital(analysis.progress.line))
    loud = analysis.causes
    if loud:
        first = words.primary(loud[0])
        if first is not None:
            where = words.affected(loud[0], 6)
            lines.append(f"{words.location(first)}{f' ({where})' if where else ''}: {one_line(first.text, 200)}")
        told = "; ".join(f"{s.label}: {s.text}" if s.is_command else s.text for s in words.steps(loud[0]))
        if told:
            lines.append(f"Next: {one_line(told, 300)}")
    elif analysis.more:
        lines.append(f"To see more: {one_line(analysis.more[0].add, 200)} -> {one_line(analysis.more[0].enables, 200)}")
    others = len(analysis.findings) - 1 if loud else len(analysis.findings)
    rest = f"{plural(others, 'other finding')}; " if others > 0 else ""
    lines.append(
        f"{rest}{analysis.tool.name} {analysis.tool.version}" + ("" if analysis.redacted else ", not redacted")
    )
    return "\n".join(one_line(line, 500) for line in lines) + "\n"


def _impact(analysis: Analysis) -> str:
    """The option of the form that fits best; a request where none does."""
    loud = analysis.causes
    if not loud:
        return "_Please choose: lower performance than expected, application crash, data corruption, application hang._"
    first = loud[0]
    if first.name in names("corruption"):
        return "Data corruption"
    if first.finding_class.value == "P":
        return "Lower performance than expected"
    if any(word in first.name for word in _HANGS):
        return "Application hang"
    return "Application crash"


def _logs(analysis: Analysis) -> list[str]:
    loud = analysis.causes[:_MOST_FINDINGS]
    rows = []
    for item in loud:
        lines = [f"{words.location(e)}: {one_line(e.text, 1000)}" for e in item.evidence[:8] if e.text]
        if lines:
            title = markdown.escape(one_line(item.title, 300))
            rows += [*markdown.folded(title, markdown.fence(lines, "log")), ""]
    names = listed((markdown.code_span(one_line(i.path, 200)) for i in analysis.inputs), 8)
    rows.append(f"Inputs: {names or 'none'}")
    rows.append(
        "_Attach the complete logs (`nccl-insight analyze ... --redact --bundle ticket.zip` makes a redacted zip)._"
    )
    return rows


def _steps(analysis: Analysis, view: Platform) -> list[str]:
    rows = ["_The command that starts the job:_", "", "```sh", "", "```", "", *_settings(view)]
    if story.told(analysis):
        rows += ["```mermaid", story.mermaid(story.first_screen(analysis.story)), "```", ""]
    elif analysis.progress is not None:
        rows.append(f"How far the job got: {markdown.escape(analysis.progress.line)}")
    rows.append("_Is it sporadic? Did it work with an older NCCL?_")
    return rows


def _settings(view: Platform) -> list[str]:
    """What the user set, folded."""
    shown = sorted({f"{one_line(name, 120)}={one_line(value, 200)}" for name, value in view.settings})
    if not shown:
        return []
    more = f"\n# and {len(shown) - _MOST_SETTINGS} more" if len(shown) > _MOST_SETTINGS else ""
    body = markdown.fence(["\n".join(shown[:_MOST_SETTINGS]) + more], "sh")
    return [*markdown.folded(f"{plural(len(shown), 'setting')} of the job", body), ""]


def _version(analysis: Analysis) -> str:
    job = analysis.job
    if not job.nccl_versions:
        return "_not in the inputs: strings libnccl.so | grep 'NCCL version'_"
    cuda = f"+cuda{one_line(job.cuda_versions[0], 20)}" if len(job.cuda_versions) == 1 else ""
    versions = " and ".join(one_line(v, 60) for v in job.nccl_versions)
    return markdown.escape(versions + ("" if "cuda" in versions else cuda))


def _platform(analysis: Analysis, view: Platform) -> list[str]:
    job = analysis.job
    networks, cuda, drivers = (
        ", ".join(one_line(v, 40) for v in told) for told in (job.networks, job.cuda_versions, job.driver_versions)
    )
    rows = [
        ("Ranks and nodes", words.job_line(analysis).split(", NCCL")[0]),
        ("GPUs", " ".join(filter(None, (plural(job.gpus, "GPU") if job.gpus else "", view.gpu)))),
        ("Network", ", ".join(filter(None, (networks, _nics(view))))),
        ("CUDA", cuda),
        ("Driver", drivers),
        *(("Topology", one_line(line, 300)) for line in analysis.summary[:3]),
    ]
    filled = [[name, markdown.escape(value)] for name, value in rows if value]
    filled += [[name, "_not in the inputs_"] for name, value in rows if not value]
    return [
        *markdown.table(["What", "Value"], filled),
        "_Bare metal, containers or cloud? `nvidia-smi topo -m`, `ibstatus`:_",
    ]


def _nics(view: Platform) -> str:
    known = view.nics
    if known is None:
        return ""
    speed = f" of {' and '.join(map(str, known.speeds_gbit))} Gb/s" if known.speeds_gbit else ""
    names = ", ".join(one_line(n, 40) for n in known.names)
    return f"{plural(known.per_host, 'NIC')} per node{speed} ({names})"


def _behavior(analysis: Analysis) -> list[str]:
    loud = analysis.causes
    rows = [f"**{markdown.escape(words.cause(analysis))}**", ""]
    for item in loud[:_MOST_FINDINGS]:
        where, word = words.affected(item), item.severity.word
        rows.append(f"- **{markdown.escape(one_line(item.title, 300))}** (`{item.code} {item.name}`, {word})")
        observed, expected = words.observed_expected(item)
        if expected:
            rows.append(f"  - Expected: {markdown.escape(expected)}. Actual: {markdown.escape(observed or item.title)}")
        if where:
            rows.append(f"  - Where: {markdown.escape(where)}")
    if len(loud) > _MOST_FINDINGS:
        rows.append(f"- and {plural(len(loud) - _MOST_FINDINGS, 'more finding')}")
    if not loud:
        rows += [f"- {markdown.escape(one_line(r, 300))}" for r in analysis.reasons[:4]]
        rows.append("- _What you expected, and what happens instead:_")
    return rows


def _made_by(analysis: Analysis, command: str) -> list[str]:
    tool = analysis.tool
    how = f", `{one_line(command, 300)}`" if command and "`" not in command else ""
    redacted = "hosts, addresses, users and paths replaced" if analysis.redacted else "NOT redacted"
    return [f"<sub>Filled in by {tool.name} {tool.version}{how}, {redacted}</sub>"]

"""The HTML report: one self-contained file that is complete without JavaScript and never uses the network."""

from typing import Literal

from nccl_insight.advise.settings import catalog as envdata
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import UsageError
from nccl_insight.base.model import Analysis, Coverage, Job
from nccl_insight.base.units import listed
from nccl_insight.report import figures as figure_set
from nccl_insight.report import words
from nccl_insight.report.html.figures import drawn, drawn_one
from nccl_insight.report.html.findings import WORDS, cards, proof
from nccl_insight.report.html.markup import fill
from nccl_insight.report.html.page import page
from nccl_insight.report.sanitize import one_line
from nccl_insight.views.environment import Environment, Setting
from nccl_insight.views.page import Page

JsMode = Literal["inline", "cdn", "none"]


def job_facts(job: Job) -> list[tuple[str, str]]:
    """What is known of a job, by name; empty what is not."""
    return [
        ("NCCL", _versions(job.nccl_versions)),
        ("CUDA", _versions(job.cuda_versions)),
        ("Driver", _versions(tuple(map(words.driver, job.driver_versions)))),
        ("Ranks", _number(job.nranks)),
        ("Nodes", _number(job.n_nodes)),
        ("GPUs", _number(job.gpus)),
        ("Networks", _versions(job.networks)),
        ("Communicators", _number(job.communicators or None)),
        ("Hosts", words.host_list(job.hosts, 3)),
    ]


def _versions(values: tuple[str, ...]) -> str:
    return listed(one_line(v, 60) for v in values)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


@dataclass(frozen=True)
class Bar:
    """Lines of one kind as a piece of a bar; ``start`` and ``width`` in percent of it."""

    kind: str
    label: str
    count: int
    start: str
    width: str


def bars(coverage: Coverage) -> list[Bar]:
    """The kinds of lines that there are."""
    noun = {n: "line" if n == 1 else "lines" for n in (coverage.unknown, coverage.foreign, coverage.torn)}
    found, start = [], 0.0
    for kind, label, count in (
        ("parsed", "understood", coverage.parsed),
        ("unknown", f"NCCL {noun[coverage.unknown]} of unknown kind", coverage.unknown),
        ("foreign", f"{noun[coverage.foreign]} of other programs", coverage.foreign),
        ("torn", f"torn {noun[coverage.torn]}", coverage.torn),
    ):
        if count:
            width = round(100 * count / coverage.lines, 3)
            found.append(Bar(kind, label, count, f"{start:g}", f"{max(width, 0.6):g}"))
            start = round(start + width, 3)
    return found


@dataclass(frozen=True)
class Known:
    """A setting beside what the catalog says of it."""

    row: Setting
    default: str
    remarks: tuple[str, ...]


def settings(view: Environment) -> list[Known]:
    """The settings of the view, in its order."""
    return [_known(row) for row in view.settings]


def _known(row: Setting) -> Known:
    known = envdata.catalog()
    variable = known.get(row.name)
    default = variable.default if variable and variable.default is not None else ""
    unset = "not set" if variable and variable.type == "path" else "not known"
    remarks = (
        (row.values > 1, f"{row.values} different values"),
        (variable is None and not known.known(row.name), "not a name that NCCL knows"),
        (variable is not None and variable.deprecated, "deprecated"),
    )
    return Known(row, one_line(str(default), 80) or unset, tuple(text for true, text in remarks if true))


def render(analysis: Analysis, view: Page, *, js: JsMode | str = "inline", command: str | None = None) -> str:
    """The report as one HTML document; the same analysis and view always give the same bytes.

    Args:
        analysis: what was found.
        view: figures, settings and versions, and the lines around the evidence (:func:`nccl_insight.views.page.page`).
        js: ``inline`` embeds the chart library, ``cdn`` links it, ``none`` leaves out all scripts; the
            report holds the same facts in each case.
        command: the command line to show; values that look like secrets are masked.

    Raises:
        UsageError: ``js`` is none of these.
    """
    if js not in ("inline", "cdn", "none"):
        raise UsageError(f"--js {js}: must be inline, cdn or none")
    figures = figure_set.build(analysis, view.figures)
    interactive = js != "none"
    first = proof(analysis, figures)
    rest = [f for f in figures if f is not first]
    body = fill(
        "report.html",
        analysis=analysis,
        view=view,
        command=command,
        first=drawn_one(first, [first], analysis.findings, interactive=interactive) if first else None,
        figures=drawn(rest, analysis.findings, interactive=interactive),
        cards=cards(analysis, view.context, figures),
        wording=WORDS,
        facts=job_facts(analysis.job),
        bars=bars(analysis.coverage),
        settings=settings(view.environment) if view.environment else (),
    )
    return page(analysis, body, figures, js)

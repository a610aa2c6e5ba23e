"""The document around the sections: head, content-security policy, navigation, scripts, embedded copies."""

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

import orjson
from markupsafe import Markup

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.model import Analysis
from nccl_insight.report import json_, markdown, words
from nccl_insight.report.figures.base import Figure
from nccl_insight.report.html.markup import fill, json_block
from nccl_insight.report.sanitize import one_line

EMBEDDED_LIMIT = 100_000
_PROGRESS = 64
_OFFLINE = "This file is complete in itself: it loads nothing and sends nothing."
_NAV: Final[Mapping[str, str]] = toml.beside(__file__)["sections"]


def asset(name: str) -> str:
    """Text of a packaged file of the report, without carriage returns."""
    path = resources.files("nccl_insight.report.html").joinpath("assets").joinpath(name)
    return path.read_text(encoding="utf-8").replace("\r\n", "\n").strip()


@dataclass(frozen=True)
class Document:
    """What the frame of a page needs beside its sections."""

    title: str
    generator: str
    nav: Sequence[tuple[str, str]]
    blocks: Sequence[Markup]
    copies: Mapping[str, str]
    footer: str


def page(analysis: Analysis, body: Markup, figures: Sequence[Figure], js: str) -> str:
    """The report of one analysis.

    Args:
        analysis: for the title and the embedded copies.
        body: the sections.
        figures: figures whose data is embedded, drawn by plotly.
        js: ``inline``, ``cdn`` or ``none``.
    """
    tool = analysis.tool
    frame = Document(
        f"{analysis.verdict}: {words.cause(analysis)} - nccl-insight report",
        f"{tool.name} {tool.version}",
        [(anchor, label) for anchor, label in _NAV.items() if f'id="{anchor}"' in body],
        [json_block("nccl-insight", {**embedded(analysis), "figures": figure_data(figures)})],
        _markdown(analysis) if js != "none" else {},
        f"{tool.name} {tool.version}, grammar {tool.grammar_hash}. {_OFFLINE}",
    )
    return document(frame, body, figures, js)


def document(frame: Document, body: Markup, figures: Sequence[Figure], js: str) -> str:
    """A whole document around sections: head, policy, navigation, scripts.

    ``copies`` of the frame are what the copy buttons give, by the buttons' ``data-copy``.
    """
    plots = [f for f in figures if f.plot is not None] if js != "none" else []
    theme, script = (asset("theme.js"), asset("report.js")) if js != "none" else ("", "")
    library = _plotly(js) if plots else _Library()
    style = f"{asset('report.css')}\n{asset('print.css')}"
    policy = _policy([s for s in (theme, script) if s], library.source, style, strict=not plots)
    blocks = list(frame.blocks)
    if js != "none":
        blocks.append(json_block("data-markdown", frame.copies))
    if plots:
        blocks.append(json_block("data-figures", {f.id: _figure_data(f) for f in plots}))
    whole = fill(
        "page.html",
        frame=frame,
        policy=policy,
        favicon="data:image/svg+xml;base64," + base64.b64encode(asset("favicon.svg").encode()).decode(),
        style=Markup(style),
        theme=Markup(theme),
        sprite=Markup(asset("sprite.svg")),
        interactive=js != "none",
        body=body,
        blocks=blocks,
        library=library,
        script=Markup(script),
    )
    return f"<!DOCTYPE html>\n{whole}\n"


def embedded(analysis: Analysis) -> dict[str, Any]:
    """The machine-readable copy; shortened, and marked so, where a full one would bloat the report."""
    document = json_.to_dict(analysis)
    if len(orjson.dumps(document)) <= EMBEDDED_LIMIT:
        return document
    for finding in (*document["findings"], *document["suppressed"]):
        finding["evidence"] = [{**e, "text": e["text"][:300]} for e in finding["evidence"][:3]]
    findings = document["findings"]
    if document["progress"]:
        document["progress"]["ranks"] = document["progress"]["ranks"][:_PROGRESS]
    document["coverage"]["unknown_templates"] = document["coverage"]["unknown_templates"][:20]
    document["inputs"] = document["inputs"][:50]
    document["job"]["hosts"] = document["job"]["hosts"][:256]
    while len(orjson.dumps(document)) > EMBEDDED_LIMIT and len(findings) > 1:
        del findings[max(1, len(findings) * 3 // 4) :]
    document["shortened"] = True
    return document


def figure_data(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """What the figures say, for programs: ``id, title, summary, columns, rows, total``."""
    return [
        {
            "id": f.id,
            "title": one_line(f.title, 300),
            "summary": one_line(f.summary, 2000),
            "columns": f.table.columns,
            "rows": [[one_line(cell, 300) for cell in row] for row in f.table.rows],
            "total": f.table.total,
        }
        for f in figures
    ]


def _figure_data(figure: Figure) -> dict[str, Any]:
    assert figure.plot is not None
    return {**figure.plot, "masks": list(figure.masks)}


def _markdown(analysis: Analysis) -> dict[str, str]:
    texts = {f.anchor: markdown.finding(f) for f in analysis.findings[:40]}
    whole = markdown.render(analysis)
    return {"all": whole, **texts}


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _policy(scripts: Sequence[str], library_source: str, style: str, *, strict: bool) -> str:
    """No network at all; scripts by hash; styles by hash too unless plotly has to add its own."""
    sources = [*(_hash(s) for s in scripts), *([library_source] if library_source else [])]
    rules = [
        "default-src 'none'",
        f"script-src {' '.join(sources) or chr(39) + 'none' + chr(39)}",
        f"style-src {_hash(style) if strict else chr(39) + 'unsafe-inline' + chr(39)}",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


@dataclass(frozen=True)
class _Library:
    """The library of charts: packed into the page or at an address, and its source for the policy."""

    source: str = ""
    packed: str = ""
    url: str = ""
    integrity: str = ""


def _plotly(js: str) -> _Library:
    """Inline it is a build of plotly.js (MIT) with the traces that the figures draw (tools/chart_library.cjs), packed:
    the script unpacks it when a chart comes into view.
    """
    if js == "inline":
        code = asset("plotly-charts.min.js")
        packed = base64.b64encode(gzip.compress(code.encode(), mtime=0)).decode()
        return _Library(_hash(code), Markup(packed))
    url, integrity = asset("plotly-cdn.txt").split()
    return _Library(url, url=url, integrity=integrity)

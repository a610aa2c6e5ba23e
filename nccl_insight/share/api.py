"""The public library: :func:`load`, :func:`analyze`, :func:`diff`, :func:`query`, and what they give back.

All results show themselves in notebooks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from nccl_insight.base.data import dataclass, field, fields
from nccl_insight.base.model import Analysis
from nccl_insight.base.writing import writing
from nccl_insight.engine.analyze import analyze as judge
from nccl_insight.engine.compare import Comparison, compare
from nccl_insight.engine.policy import Policy
from nccl_insight.facts.relations import with_facts
from nccl_insight.loading import load
from nccl_insight.report import words
from nccl_insight.tables.run import Run, build_run
from nccl_insight.tables.sql import select

__all__ = ["Difference", "Result", "analyze", "diff", "load", "query"]

Source: TypeAlias = "Run | str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


@dataclass(frozen=True, repr=False)
class Result(Analysis):
    """An analysis with the run that it was made from, so that it can be drawn and written.

    Everything of :class:`nccl_insight.base.model.Analysis` is an attribute of it; ``run`` has the tables.
    """

    run: Run | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        names = ", ".join(f"{f.code} {f.name}" for f in self.findings[:4]) + (", ..." if len(self.findings) > 4 else "")
        return f"<{self.verdict}: {words.cause(self)}" + (f" ({names})>" if names else ">")

    def _repr_html_(self) -> str:
        """Verdict, job and findings, for notebooks."""
        progress = f"<p>{escape(self.progress.line)}</p>" if self.progress else ""
        shown = "".join(f._repr_html_() for f in self.findings[:10])
        more = f"<p>and {len(self.findings) - 10} more findings</p>" if len(self.findings) > 10 else ""
        head = f"<h3>{self.verdict}: {escape(words.cause(self))}</h3><p>{escape(words.facts_line(self))}</p>"
        return head + progress + shown + more

    def __str__(self) -> str:
        """What the terminal shows, without colors."""
        from nccl_insight.report import text

        return text.render(self)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document (``nccl_insight/report/analysis-v1.json``) as plain values."""
        from nccl_insight.report import json_

        return json_.to_dict(self)

    def to_json(self) -> str:
        """The JSON document as text."""
        from nccl_insight.report import json_

        return json_.render(self)

    def to_markdown(self) -> str:
        """The report for a ticket, below 60,000 characters."""
        from nccl_insight.report import markdown

        return markdown.render(self)

    def to_html(self, path: str | os.PathLike[str] | None = None, js: str = "inline") -> str:
        """The report as one HTML document; also written to ``path`` if there is one, whole or not at all.

        Args:
            path: the file to write.
            js: ``inline`` with charts, ``cdn`` with charts from the network, ``none`` without scripts.

        Raises:
            UsageError: the file cannot be written, or ``js`` is none of these.
        """
        from nccl_insight.report import html
        from nccl_insight.views.page import page

        document = html.render(self, page(self._run(), self), js=js)
        if path is not None:
            with writing(Path(path)) as out:
                out.write(document.encode("utf-8", "backslashreplace"))
        return document

    def figures(self) -> dict[str, Any]:
        """The report's figures by name: drawings (SVG); charts are plotly figures with the extra ``notebook``."""
        from nccl_insight.report import notebook
        from nccl_insight.views.figures import figures

        return notebook.figures(self, figures(self._run()))

    def _run(self) -> Run:
        return self.run if self.run is not None else build_run({})


@dataclass(frozen=True)
class Difference(Comparison):
    """What changed between two runs; shows itself in notebooks."""

    def __str__(self) -> str:
        from nccl_insight.report import diff as words_of

        return words_of.text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def analyze(
    source: Source, policy: Policy | None = None, input_format: str | None = None, symptom: str = "", nics: str = ""
) -> Result:
    """The verdict on a run, or on the files of one job.

    Args:
        source: a run, or paths.
        policy: what to select, silence and weigh differently.
        input_format: a value of ``inputs.kind`` to use for every input instead of looking.
        symptom: ``hang``, ``slow`` or ``crash``: never ok then, and next commands for that.
        nics: NICs of each node as COUNTxGBITS, such as ``8x400``, where the inputs do not tell.

    Raises:
        UsageError: a path does not exist, the format is unknown, or ``nics`` is not of that form.
        NotJudgedError: the paths name no file.
    """
    run = source if isinstance(source, Run) else load(source, input_format, details=False)
    found = judge(run, policy, symptom=symptom, nics=nics)
    return Result(**{f.name: getattr(found, f.name) for f in fields(Analysis)}, run=run)


def diff(good: Source, bad: Source) -> Difference:
    """What changed between a run that worked and one to explain, the likeliest explanation first.

    Raises:
        UsageError: a path does not exist.
        NotJudgedError: the paths name no file.
    """
    runs = [side if isinstance(side, Run) else load(side) for side in (good, bad)]
    found = compare(runs[0], runs[1], judge(runs[0]), judge(runs[1]))
    return Difference(**{f.name: getattr(found, f.name) for f in fields(Comparison)})


def query(source: Source, sql: str) -> pl.DataFrame:
    """The result of one SELECT over the tables of a run and the facts derived from them (``fact_absences``), by name.

    Raises UsageError: the SQL is wrong, names an unknown table, or could read anything but the tables.
    """
    return select(with_facts(source if isinstance(source, Run) else load(source), sql), sql)

"""Redaction for ``analyze``: the same pseudonyms in every output of one call."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from nccl_insight.inputs.find import InputFile
from nccl_insight.model import Analysis
from nccl_insight.redact import Redactor, collect, redact_analysis, redact_run
from nccl_insight.redact.files import blocks, is_text
from nccl_insight.report import bundle
from nccl_insight.tables.run import Run
from nccl_insight.views.page import page


def redacted(analysis: Analysis, run: Run) -> tuple[Analysis, Run, Redactor]:
    """Analysis and run with names replaced, and the redactor that did it."""
    redactor = collect(run, _texts(analysis, run.inputs))
    return redact_analysis(analysis, redactor), redact_run(run, redactor), redactor


def redacted_pair(analyses: Sequence[Analysis], runs: Sequence[Run]) -> tuple[list[Analysis], list[Run]]:
    """Both sides of a comparison, the same name replaced by the same pseudonym on both."""
    texts = chain.from_iterable(_texts(a, run.inputs) for a, run in zip(analyses, runs, strict=True))
    redactor = collect(runs[0], texts, *runs[1:])
    return [redact_analysis(a, redactor) for a in analyses], [redact_run(run, redactor) for run in runs]


def write_bundle(path: Path, analysis: Analysis, run: Run, redactor: Redactor | None) -> None:
    """The ticket zip.

    Raises:
        UsageError: the zip cannot be written.
    """
    bundle.write(path, analysis, page(run, analysis), run.inputs, redactor, command=command_line(redactor))


def command_line(redactor: Redactor | None = None) -> str:
    """The command as typed, names replaced when there is a redactor; secrets are masked by the renderers."""
    words = ["nccl-insight", *sys.argv[1:]]
    if redactor is None:
        return shlex.join(words)
    known = redactor.names.inputs
    return shlex.join([known.get(word, redactor.text(word)) for word in words])


def _texts(analysis: Analysis, files: Sequence[InputFile]) -> Iterator[str]:
    for file in files:
        if is_text(file):
            yield from blocks(file)
    for finding in analysis.findings:
        yield from (evidence.text for evidence in finding.evidence)

"""Redaction for ``analyze``: the same pseudonyms in every output of one call."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from nccl_insight.errors import UsageError
from nccl_insight.inputs.find import InputFile, find_inputs
from nccl_insight.model import Analysis
from nccl_insight.redact import Redactor, collect, redact_analysis, redact_run
from nccl_insight.redact.files import blocks, is_text
from nccl_insight.report import bundle
from nccl_insight.tables.run import Run


def redacted(analysis: Analysis, run: Run, paths: Sequence[str]) -> tuple[Analysis, Run, Redactor]:
    """Analysis and run with names replaced, and the redactor that did it."""
    redactor = collect(run, _texts(analysis, _files(paths)))
    return redact_analysis(analysis, redactor), redact_run(run, redactor), redactor


def redacted_pair(
    analyses: Sequence[Analysis], runs: Sequence[Run], paths: Sequence[str]
) -> tuple[list[Analysis], list[Run]]:
    """Both sides of a comparison, the same name replaced by the same pseudonym on both."""
    texts = chain(_texts(analyses[0], _files(paths)), *(_texts(a, ()) for a in analyses[1:]))
    redactor = collect(runs[0], texts, *runs[1:])
    return [redact_analysis(a, redactor) for a in analyses], [redact_run(run, redactor) for run in runs]


def write_bundle(
    path: Path, analysis: Analysis, run: Run, paths: Sequence[str], redactor: Redactor | None
) -> None:
    """The ticket zip. Standard input cannot be read twice and is left out of it.

    Raises:
        UsageError: the zip cannot be written.
    """
    try:
        bundle.write(path, analysis, run, _files(paths), redactor, command=command_line(redactor))
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error


def command_line(redactor: Redactor | None = None) -> str:
    """The command as typed, names replaced when there is a redactor; secrets are masked by the renderers."""
    words = ["nccl-insight", *sys.argv[1:]]
    if redactor is None:
        return shlex.join(words)
    known = redactor.inputs
    return shlex.join([known.get(word, redactor.text(word)) for word in words])


def _files(paths: Sequence[str]) -> list[InputFile]:
    named = [p for p in paths if p != "-"]
    return find_inputs(named) if named else []


def _texts(analysis: Analysis, files: Sequence[InputFile]) -> Iterator[str]:
    for file in files:
        if is_text(file):
            yield from blocks(file)
    for finding in analysis.findings:
        yield from (evidence.text for evidence in finding.evidence)

"""Redaction for ``analyze``: the same pseudonyms in every output of one call."""

import shlex
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from nccl_insight.base.model import Analysis
from nccl_insight.base.writing import writing
from nccl_insight.share import bundle
from nccl_insight.share.redact import Redactor, collect, redact_analysis, redact_run
from nccl_insight.share.redact.files import Blocks, is_text
from nccl_insight.tables.run import Run
from nccl_insight.views.page import page

#: Columns of traces and dumps, which are no text, that hold what a program calls its groups and functions.
_GIVEN: Final = frozenset({"process_group", "description", "pg_desc", "frame"})


def redacted(analysis: Analysis, run: Run, *, strict: bool = False) -> tuple[Analysis, Run, Redactor]:
    """Analysis and run with names replaced, and the redactor that did it; ``strict``: all but ordinary words."""
    redactor = collect(run, _texts(analysis, run), strict=strict)
    redactor.learn(_texts(analysis, run))
    return redact_analysis(analysis, redactor), redact_run(run, redactor), redactor


def redacted_pair(
    analyses: Sequence[Analysis], runs: Sequence[Run], *, strict: bool = False
) -> tuple[list[Analysis], list[Run]]:
    """Both sides of a comparison, the same name replaced by the same pseudonym on both."""

    def texts() -> Iterator[str]:
        return chain.from_iterable(_texts(a, run) for a, run in zip(analyses, runs, strict=True))

    redactor = collect(runs[0], texts(), *runs[1:], strict=strict)
    redactor.learn(texts())
    return [redact_analysis(a, redactor) for a in analyses], [redact_run(run, redactor) for run in runs]


def write_review(path: Path, redactor: Redactor) -> None:
    """A text for the owner of the data: every original with what stands for it, then the words that were kept.

    Raises UsageError: the file cannot be written.
    """
    lines = ["Replaced (original -> new):"]
    for kind, names in redactor.names.mapping().items():
        lines += [f"  {kind}: {old} -> {new}" for old, new in names.items()]
    kept = sorted(redactor.kept)
    lines += ["", "Kept as ordinary words:" if kept else "Kept: all other words (not strict)."]
    lines += textwrap.wrap(" ".join(kept), 110, initial_indent="  ", subsequent_indent="  ")
    with writing(path, private=True) as out:
        out.write(("\n".join(lines) + "\n").encode("utf-8", "backslashreplace"))


def write_bundle(path: Path, analysis: Analysis, run: Run, redactor: Redactor | None) -> None:
    """The ticket zip. Raises UsageError: the zip cannot be written."""
    bundle.write(path, analysis, page(run, analysis), run.inputs, redactor, command=command_line(redactor))


def command_line(redactor: Redactor | None = None) -> str:
    """The command as typed, names replaced when there is a redactor; secrets are masked by the renderers."""
    words = ["nccl-insight", *sys.argv[1:]]
    if redactor is None:
        return shlex.join(words)
    known = redactor.names.inputs
    return shlex.join([known.get(word, redactor.text(word)) for word in words])


def _texts(analysis: Analysis, run: Run) -> Iterator[str]:
    for file in run.inputs:
        if is_text(file):
            yield from Blocks(file)
    for frame in run.tables.values():
        for series in frame.get_columns():
            if series.name in _GIVEN:
                yield "\n".join(series.drop_nulls().unique(maintain_order=True))
    for finding in analysis.findings:
        yield from (evidence.text for evidence in finding.evidence)

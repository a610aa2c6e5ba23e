"""How much of a log the grammar understands."""

from collections import Counter
from collections.abc import Iterable

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.inputs.find import InputFile
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import all_results
from nccl_insight.readers.nccl_log.records import Fate
from nccl_insight.readers.nccl_log.unknown import merge_templates, templates


@dataclass(frozen=True)
class CoverageReport:
    """Lines by fate, records by message, and templates of unknown records (``template, level, count, example``)."""

    fate: Fate
    messages: Counter[str]
    unknown: pl.DataFrame


def measure(files: Iterable[InputFile]) -> CoverageReport:
    """Reads the inputs and counts."""
    classifier = Classifier(default_catalog())
    fate = Fate()
    messages: Counter[str] = Counter()
    unknown: list[pl.DataFrame] = []
    for result in all_results(files, classifier):
        fate += result.fate
        messages.update({name: frame.height for name, frame in result.messages.items()})
        if result.unknown.height:
            unknown.append(templates(result.unknown))
    return CoverageReport(fate, messages, merge_templates(unknown, apart=False))


def show(report: CoverageReport, top: int) -> str:
    """The report as text."""
    fate = report.fate
    known = fate.parsed + fate.unknown
    share = fate.parsed / known if known else 1.0
    lines = [
        f"{fate.lines:,} lines: {fate.parsed:,} parsed, {fate.unknown:,} unknown, {fate.foreign:,} foreign, "
        f"{fate.torn:,} torn",
        f"{share:.2%} of {known:,} NCCL lines understood by {len(report.messages)} rules",
    ]
    total = sum(report.messages.values()) or 1
    if report.messages and top:
        lines.append("")
        lines.append("records   share  message")
        lines += [f"{n:>7,}  {n / total:>6.2%}  {name}" for name, n in report.messages.most_common(top)]
    if report.unknown.height and top:
        lines.append("")
        lines.append("unknown templates")
        for row in report.unknown.head(top).iter_rows(named=True):
            lines.append(f"{row['count']:>7,}  {row['level'] or '-':<5}  {plain(row['template'])}")
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """A text whose every character can be printed."""
    return "".join(c if c.isprintable() else "?" for c in text)

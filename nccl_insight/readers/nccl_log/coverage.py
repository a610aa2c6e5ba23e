"""How much of a log the grammar understands, and rule skeletons for unknown lines."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.inputs.find import InputFile
from nccl_insight.language.catalog import default_catalog
from nccl_insight.language.diff import quoted
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import all_results
from nccl_insight.readers.nccl_log.records import Fate
from nccl_insight.readers.nccl_log.unknown import merge_templates, templates

_PIECE: Final = re.compile(r"0x[0-9a-f]+|\(nil\)|-?[0-9]+\.[0-9]+|-?[0-9]+|/[^ ]+")


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


def _terminal(text: str) -> str:
    if text.startswith("0x") or text == "(nil)":
        return "PTR"
    if text.startswith("/"):
        return "WORD"
    return "FLOAT" if "." in text else "INT"


def skeleton(text: str, number: int) -> str:
    """A rule that accepts the text, its values as bare terminals to be replaced by named columns."""
    items: list[str] = []
    at = 0
    for match in _PIECE.finditer(text):
        if match.start() > at:
            items.append(quoted(text[at : match.start()]))
        items.append(_terminal(match[0]))
        at = match.end()
    if at < len(text):
        items.append(quoted(text[at:]))
    words = re.findall(r"[a-z]{3,}", _PIECE.sub(" ", text).lower())[:4]
    name = "_".join(words) or f"message_{number}"
    return f"//! versions: ?\n//! source: ?\n{name}: {' '.join(items)}\n"


def suggestions(report: CoverageReport, top: int) -> str:
    """Skeletons for the most frequent unknown templates, each with its count and an example."""
    parts: list[str] = []
    for number, row in enumerate(report.unknown.head(top).iter_rows(named=True), 1):
        example = plain(row["example"])
        parts.append(f"// {row['count']:,} lines like: {example}\n{skeleton(example, number)}")
    return "\n".join(parts)

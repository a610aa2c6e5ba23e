"""Rule skeletons for unknown lines."""

import re
from typing import Final

from nccl_insight.language.diff import quoted
from nccl_insight.readers.nccl_log.coverage import CoverageReport, plain

_PIECE: Final = re.compile(r"0x[0-9a-f]+|\(nil\)|-?[0-9]+\.[0-9]+|-?[0-9]+|/[^ ]+")


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

"""Small helpers for reports in words: folded lists, counted things, lines that fit."""

import textwrap
from collections.abc import Iterator, Sequence

from nccl_insight.report.sanitize import one_line

LIMIT = 12


def safe(value: object, limit: int = 80) -> str:
    """Text from a log, on one line and harmless."""
    return one_line(str(value), limit) if value is not None else "?"


def capped(lines: Sequence[str], limit: int = LIMIT, what: str = "more") -> Iterator[str]:
    """The first lines, and how many were left out."""
    yield from lines[:limit]
    if len(lines) > limit:
        yield f"  ... and {len(lines) - limit:,} {what}"


def chain(ranks: Sequence[int], limit: int = 24) -> str:
    """``0 > 1 > 2 > ... > 0`` for a ring order."""
    shown = [str(r) for r in ranks[:limit]]
    if len(ranks) > limit:
        shown.append(f"... ({len(ranks)} ranks)")
    return " > ".join([*shown, str(ranks[0])] if ranks else shown)


def fit(text: str, width: int | None) -> str:
    """The text with long lines wrapped under their own indent, never inside a path or a command; None wraps nothing."""
    if width is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if len(line) <= width:
            lines.append(line)
            continue
        # A row of a table goes on under its last column, a sentence under its own start.
        column = line.rfind("  ", 0, width // 4 * 3) + 2 if "  " in line.strip() else 0
        indent = " " * (column if column > 8 else len(line) - len(line.lstrip()) + 4)
        wide, no = max(width, 40), False
        lines += textwrap.wrap(
            line, wide, subsequent_indent=indent, break_long_words=no, break_on_hyphens=no, replace_whitespace=no
        )
    return "\n".join(lines)

"""Lines of reports in words that fit the width of a terminal."""

import textwrap
from collections.abc import Sequence


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


def aligned(rows: Sequence[Sequence[str]], right: int = 0, indent: str = "") -> list[str]:
    """Rows of cells as lines, two blanks between columns: the first ``right`` columns end alike, others begin so."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    forms = [f"{{:{'>' if n < right else '<'}{width}}}" for n, width in enumerate(widths)]
    return [(indent + "  ".join(forms).format(*row)).rstrip() for row in rows]

"""Static drawings: SVG elements from values, every text escaped; colors come from classes of the page's style.

Elements that stand for a rank or a host carry ``data-r`` and ``data-h``: the page's script marks them when a finding
that names them is pointed at, and the filter by rank and host uses them.
"""

from collections.abc import Iterable
from html import escape

from nccl_insight.report.sanitize import one_line


def _of(ranks: Iterable[int], host: str) -> str:
    numbers = " ".join(map(str, ranks))
    said = f' data-r="{numbers}"' if numbers else ""
    return said + (f' data-h="{escape(one_line(host, 120), quote=True)}"' if host else "")


def rect(
    x: float, y: float, width: float, height: float, css: str, title: str = "", *, ranks: Iterable[int] = (),
    host: str = "", radius: float = 4,
) -> str:  # fmt: skip
    """A box with round corners; ``title`` is its tooltip, ``ranks`` and ``host`` what it stands for."""
    said = f"<title>{escape(one_line(title, 200))}</title>" if title else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" class="{css}"'
        f"{_of(ranks, host)}>"
        f"{said}</rect>"
    )


def text(x: float, y: float, content: str, css: str = "t", limit: int = 60, *, ranks: Iterable[int] = ()) -> str:
    """A line of text; ``css`` says size and anchor."""
    return f'<text x="{x:g}" y="{y:g}" class="{css}"{_of(ranks, "")}>{escape(clip(content, limit))}</text>'


def room(contents: Iterable[str], limit: int = 60) -> float:
    """Width in pixels for labels left of a drawing: the longest of them, cut at ``limit`` characters, and a margin."""
    return max(
        [60.0, *(sum(9.9 if c.isupper() or c == "_" else 8.2 for c in clip(text, limit)) + 18 for text in contents)]
    )


def clip(content: str, limit: int) -> str:
    """Text that fits a place in a drawing: cut texts end with an ellipsis, the table has the whole."""
    shown = one_line(content)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def line(x1: float, y1: float, x2: float, y2: float, css: str, width: float = 1.5, *, ranks: Iterable[int] = ()) -> str:
    """A straight line."""
    at = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {at} class="{css}" stroke-width="{width:g}"{_of(ranks, "")}/>'


def path(points: str, css: str, width: float = 1.5, *, ranks: Iterable[int] = ()) -> str:
    """A curve or polygon from SVG path commands (numbers and letters of ours only)."""
    return f'<path d="{points}" class="{css}" stroke-width="{width:g}"{_of(ranks, "")}/>'


def legend(x: float, y: float, entries: Iterable[tuple[str, str]]) -> tuple[list[str], float]:
    """Boxes with words in one row from ``x``; each entry is a class and a word. Also gives the width that they took."""
    parts, at = [], x
    for css, word in entries:
        parts += [rect(at, y - 11, 14, 14, css, radius=3), text(at + 20, y, word, "t s")]
        at += 34 + 6.4 * len(word)
    return parts, at - x


def drawing(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """The whole drawing: smaller where its place is narrow, never larger than drawn."""
    # A drawing shrinks on a narrow screen only as far as its words stay readable; then its place scrolls.
    css = "draw w9" if width >= 900 else "draw w6" if width >= 600 else "draw"
    css += " tall" if height > 0.55 * width else ""  # half a page wide on paper
    return (
        f'<svg class="{css}" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(one_line(title, 300))}">' + "".join(parts) + "</svg>"
    )

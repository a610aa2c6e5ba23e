"""Static drawings: SVG elements from values, every text escaped; colors come from classes of the page's style."""

from __future__ import annotations

from html import escape

from nccl_insight.report.sanitize import one_line


def rect(x: float, y: float, width: float, height: float, css: str, title: str = "") -> str:
    """A box with round corners; ``title`` is its tooltip."""
    said = f"<title>{escape(one_line(title, 200))}</title>" if title else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{css}">{said}</rect>'
    )


def text(x: float, y: float, content: str, css: str = "t", limit: int = 60) -> str:
    """A line of text; ``css`` says size and anchor."""
    return f'<text x="{x:g}" y="{y:g}" class="{css}">{escape(one_line(content, limit))}</text>'


def line(x1: float, y1: float, x2: float, y2: float, css: str, width: float = 1.5) -> str:
    """A straight line."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="{css}" stroke-width="{width:g}"/>'


def drawing(width: float, height: float, title: str, parts: list[str]) -> str:
    """The whole drawing, scaled to the width of its place."""
    return (
        f'<svg class="draw" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(one_line(title, 300))}">'
        + "".join(parts)
        + "</svg>"
    )

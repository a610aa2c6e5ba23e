"""HTML built from values, so that nothing reaches the page unescaped: only :class:`Markup` is trusted."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TypeAlias

import orjson

from nccl_insight.report.sanitize import sanitize
from nccl_insight.report.words import code_parts

LIMIT = 4000
_VOID = frozenset({"meta", "br", "hr", "input", "link", "img", "col"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"


def el(tag: str, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """An element. Attribute names: a trailing ``_`` is dropped, other ``_`` become ``-``.

    ``None`` and ``False`` leave an attribute out, ``True`` gives it without a value. Children that are
    not :class:`Markup` are sanitised and escaped.
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{escape(sanitize(str(value), LIMIT), quote=True)}"')
    parts.append(">")
    if tag in _VOID:
        return Markup("".join(parts))
    return Markup("".join(parts) + join(children) + f"</{tag}>")


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other."""
    return Markup("".join(map(_text, children)))


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return escape(sanitize(child, LIMIT), quote=False)
    if isinstance(child, int):
        return str(child)
    return join(child)


def prose(text: str) -> Markup:
    """Prose of a rule: pieces between backticks become ``<code>``."""
    return join(el("code", piece) if code else piece for code, piece in code_parts(text))


def icon(name: str) -> Markup:
    """A decorative symbol of the page's sprite; the word beside it carries the meaning."""
    use = Markup(f'<use href="#i-{escape(name)}"></use>')
    return el("svg", use, class_="icon", aria_hidden="true", focusable="false")


def unseen(text: str) -> Markup:
    """Words for screen readers only."""
    return el("span", text, class_="live")


def button(symbol: str, word: str, more: str, **attributes: str | bool) -> Markup:
    """A button with a symbol and a word; screen readers say ``more`` behind it."""
    return el("button", icon(symbol), el("span", word), unseen(more), type="button", **attributes)


def chapter(anchor: str, title: Child, *parts: Child) -> Markup:
    """A part of the page under its heading."""
    return el("section", el("div", el("h2", title, id=anchor), parts, class_="wrap"))


def panel(anchor: str, title: Child, *parts: Child, class_: str = "panel") -> Markup:
    """A box under its heading."""
    return el("section", el("h2", title, id=anchor), parts, class_=class_, aria_labelledby=anchor)


def json_block(element_id: str, value: object) -> Markup:
    """A data block that no text in it can end: ``<``, ``>``, ``&`` and line separators are escaped."""
    text = orjson.dumps(_clean(value)).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(f'<script type="application/json" id="{escape(element_id)}">{text}</script>')


def _clean(value: object) -> object:
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, dict):
        return {sanitize(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    # Sums of absurd numbers leave the 64 bits that the writer takes.
    return float(value) if isinstance(value, int) and value.bit_length() > 63 else value


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Child]],
    *,
    total: int | None = None,
    numeric: Sequence[int] = (),
    class_: str = "",
    more: str = "the JSON output has all of them",
) -> Markup:
    """A table with caption and scopes, in a scrollable region that the keyboard reaches.

    ``total`` is the number of rows that there are; when it is more than given, the table says how many
    were left out. ``numeric`` are the columns set to the right.
    """
    head = el(
        "thead",
        el("tr", [el("th", h, scope="col", class_="n" if i in numeric else None) for i, h in enumerate(header)]),
    )
    body = []
    for row in rows:
        cells = []
        for index, cell in enumerate(row):
            css = "n" if index in numeric else None
            cells.append(el("th", cell, scope="row", class_=css) if index == 0 else el("td", cell, class_=css))
        body.append(el("tr", cells))
    left = (total or 0) - len(rows)
    note = el("p", f"and {left:,} more; {more}", class_="more") if left > 0 else None
    grid = el("table", el("caption", caption), head, el("tbody", body), class_=class_ or None)
    return join([el("div", grid, class_="scroll", tabindex="0", role="region", aria_label=caption), note])

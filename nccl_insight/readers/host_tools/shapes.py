"""The shapes that outputs of tools have in common: indented keys with values, tables, matrices, boxes."""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from nccl_insight.base.data import dataclass
from nccl_insight.readers.host_tools.model import Lines

_PAIR: Final = re.compile(r"(?P<key>[^:]{0,120}?[^:\s])\s{0,80}:(?:\s+(?P<value>.*))?$")
_DEEPEST: Final = 12
# Columns of two words that kubectl and df have; all others are one.
_COLUMN: Final = re.compile(r"(?:LAST SEEN|NOMINATED NODE|READINESS GATES|Mounted on|[^|\s]+)")


@dataclass(frozen=True)
class Item:
    """A key with its value (empty for a heading), and the keys and headings it stands under, outermost first."""

    line: int
    key: str
    value: str
    above: tuple[str, ...]

    @property
    def path(self) -> str:
        """Keys from the outermost, joined by ``/``."""
        return "/".join((*self.above, self.key))


def tree(lines: Lines, pair: re.Pattern[str] = _PAIR) -> Iterator[Item]:
    """``key: value`` lines by indentation (a tab is eight columns); a line without a colon is a heading."""
    stack: list[tuple[int, str]] = []
    for number, raw in lines:
        text = raw.expandtabs(8)
        body = text.strip()
        if not body:
            continue
        depth = len(text) - len(text.lstrip())
        while stack and stack[-1][0] >= depth:
            stack.pop()
        match = pair.match(body)
        key, value = (match["key"].strip(), (match["value"] or "").strip()) if match else (body, "")
        yield Item(number, key, value, tuple(k for _, k in stack))
        if len(stack) < _DEEPEST:
            stack.append((depth, key))


def table(lines: Lines, header: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows under a header line (``header`` matches it) as cells by the header's words.

    Cells are parted by ``|``, by a line of dashes below the header, by two blanks, or by where the header's words
    begin. A blank line ends the rows.
    """
    names: list[str] = []
    spans: list[tuple[int, int | None]] = []
    above = ""
    for number, raw in lines:
        text = raw.expandtabs(8).rstrip()
        if re.match(header, text.strip()):
            above = text
            words = [(m.start(), m[0]) for m in _COLUMN.finditer(text)]
            names = [word for _, word in words]
            spans = [(at, end) for (at, _), end in zip(words, [*(w[0] for w in words[1:]), None], strict=True)]
        elif names and re.fullmatch(r"[-= ]*--[-= ]*", text):
            rules = [(m.start(), m.end()) for m in re.finditer(r"[-=]+", text)]
            if len(rules) > 1:
                spans, names = list(rules), [above[a:b].strip() for a, b in rules]
                above = ""
        elif not text.strip():
            names = []
        elif names:
            yield number, dict(zip(names, _cells(text, spans, "|" in above, not above), strict=False))


def _cells(text: str, spans: list[tuple[int, int | None]], bars: bool, ruled: bool) -> list[str]:
    if bars:
        return [cell.strip() for cell in text.strip().strip("|").split("|")]
    fits = all(text[a - 1 : a].strip() == "" == text[b : b + 1].strip() for a, b in spans if a and b is not None)
    if not ruled or not fits:
        for words in (re.split(r"\s{2,}", text.strip()), text.split()):
            if len(words) == len(spans):
                return words
    return [text[start:end].strip() for start, end in spans]


def matrix(lines: Lines, label: str) -> Iterator[tuple[int, str, str, str]]:
    """Cells of the matrices in ``lines`` as (line, row, column, cell).

    ``label`` matches the name of a row and of a column. A header has names, perhaps behind one word (``D\\D``) and
    before others in words only (``CPU Affinity``); the cells of a row are the words behind its name.
    """
    columns: list[str] = []
    name = re.compile(label)
    for number, raw in lines:
        words = raw.split()
        if not words:
            continue
        body = words[1:] if not name.fullmatch(words[0]) else words
        names = list(takewhile(name.fullmatch, body))
        others = body[len(names) :]
        if names and _counts(names) and (not others or (len(names) > 1 and "".join(others).isalpha())):
            columns = names
        elif columns and name.fullmatch(words[0]) and len(words) > 1:
            for column, cell in zip(columns, words[1:], strict=False):
                yield number, words[0], column, cell


def _counts(words: list[str]) -> bool:
    """Whether names count up, as those of a header do: 0 1 2, GPU0 GPU1 NIC0."""
    kinds: dict[str, list[int]] = {}
    for word in words:
        digits = re.sub(r"\D", "", word)
        kinds.setdefault(re.sub(r"[0-9]", "", word), []).append(int(digits) if digits else -1)
    return all(-1 not in n and n == sorted(set(n)) for n in kinds.values())


def boxes(lines: Lines) -> Iterator[tuple[int, list[str]]]:
    """Cells between bars of the lines of a drawn table; lines of rules give none."""
    for number, text in lines:
        body = text.strip()
        if body.startswith("|") and not re.fullmatch(r"[|+=\-]+", body) and len(body) > 2:
            yield number, [cell.strip() for cell in body.strip("|").split("|")]

"""Texts that stand apart from the code that fills them: blocks of a page or a file, by their keys::

    says: slow-group
      title: {row.op} reaches {row.busbw:gbps}[[more? in {more} groups]]
      severity: info

``{value}`` is what the code gives under that name, ``{row.op}`` an attribute or a column of it, ``{names.0}`` the
first of several, formatted as after the colon: as Python does, or by one or more of :data:`FORMATS` (``each a b``: of
each its ``a`` and ``b``). ``[[a? text||b? text||c=word? text||text]]`` is the first text whose value is not empty,
false or 0, or that word, or that asks for none; an item that is not there is empty (``[[names.1? several]]``).
"""

import re
from collections.abc import Callable, Container, Mapping, Sized
from functools import cache
from pathlib import Path
from typing import Any, Final

from nccl_insight.base import late, units

_FIELD: Final = re.compile(r"\{([a-z_][a-z0-9_.]*)(?::([^{}]+))?\}")
_CHOICE: Final = re.compile(r"\[\[(.*?)\]\]")
_ALTERNATIVE: Final = re.compile(r"(?:([a-z_][a-z0-9_.]*)(?:=([\w-]+))?\?)?(.*)")
_PART: Final = re.compile(r"<<(\w+)>>")
FORMATS: Final[Mapping[str, Callable[..., object]]] = {
    "bytes": units.format_bytes,
    "capital": units.capital,
    "clauses": lambda items, most=None: "; ".join(items[:most]),
    "gbps": units.format_gbps,
    "head": lambda text: text.split(": ", 1)[0],
    "joined": lambda items, most=None: ", ".join(map(str, items[:most])),
    "len": len,
    "listed": units.listed,
    "ns": units.format_ns,
    "others": lambda items: len(items) - 1,
    "rank_words": units.rank_words,
    "ranks": units.format_ranks,
    "spaced": " ".join,
    "span_s": units.format_span_s,
}


def blocks(text: str) -> dict[str, dict[str, str]]:
    """The texts of each block by field, by its key; what stands above the first block is left out."""
    parts = (block.splitlines() for block in f"\n{text}".split("\nsays: ")[1:])
    return {key: dict(line.strip().split(": ", 1) for line in lines if line.strip()) for key, *lines in parts}


@cache
def of_file(file: str | Path) -> Mapping[str, Mapping[str, str]]:
    """The blocks of a file ``.txt``, or of the one beside a module (its ``__file__``)."""
    return blocks(Path(file).with_suffix(".txt").read_text(encoding="utf-8"))


def fields(block: Mapping[str, str], given: Mapping[str, Any], own: Container[str]) -> dict[str, Any]:
    """The texts of a block with their values; of its ``own`` fields those that are given stand as they are."""
    said = {field: filled(text, given) for field, text in block.items()}
    return said | {field: value for field, value in given.items() if field in own}


def filled(text: str, given: Mapping[str, Any], formats: Mapping[str, Callable[..., object]] = FORMATS) -> str:
    """A text with the values that belong in it."""
    chosen = _CHOICE.sub(lambda choice: _first(choice[1], given), text)
    return _FIELD.sub(lambda field: _shown(_value(field[1], given), field[2] or "", formats), chosen)


def _first(choice: str, given: Mapping[str, Any]) -> str:
    for alternative in choice.split("||"):
        condition, word, text = _ALTERNATIVE.fullmatch(alternative).groups()  # type: ignore[union-attr]
        value = _value(condition, given) if condition else True
        if value == word if word else value:
            return str(text)
    return ""


def _value(path: str, given: Mapping[str, Any]) -> Any:
    found: Any = given
    for name in path.split("."):
        at = int(name) if name.isdigit() else name
        if isinstance(at, int) and isinstance(found, Sized) and not isinstance(found, Mapping) and at >= len(found):
            return ""
        keyed = isinstance(found, Mapping) or at != name or not hasattr(found, name)
        found = found[at] if keyed else getattr(found, name)
    return found


def _shown(value: Any, wanted: str, formats: Mapping[str, Callable[..., object]]) -> str:
    for one in wanted.split("|"):
        kind, _, words = one.partition(" ")
        if kind == "plural":
            value = units.plural(value, *words.split("/"))
        elif kind == "each":
            value = [" ".join(str(_value(path, item)) for path in words.split()).strip() for item in value]
        else:
            value = formats[kind](value, *map(int, words.split())) if kind in formats else format(value, one)
    return str(value)


@cache
def patterns(file: str | Path) -> Mapping[str, str]:
    """The patterns of such a file by name: below it their pieces, each behind two blanks; ``<<name>>`` is one above."""
    found: dict[str, str] = {}
    lines = Path(file).with_suffix(".txt").read_text(encoding="utf-8").split("\n")
    for block in re.split(r"(?m)^(?=\w)", "\n".join(line for line in lines if line[:1] not in ("", "#"))):
        name, *pieces = block.split("\n")
        whole = "".join(piece[2:] for piece in pieces)
        found[name] = _PART.sub(lambda part: found[part[1]], whole)
    return found


@cache
def compiled(module: str) -> Mapping[str, re.Pattern[str]]:
    """The patterns of the ``.txt`` beside a module (its ``__file__``), each compiled when it is first used."""
    return {name: late.compiled(text) for name, text in patterns(module).items()}

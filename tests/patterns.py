"""Every regular expression that Python runs, found in the source, and texts made to make it backtrack."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nccl_insight
from nccl_insight.base.late import Late
from nccl_insight.readers import host_tools
from tests import source

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as parser
else:
    import sre_constants as sre
    import sre_parse as parser

_CALLS = ("compile", "search", "match", "fullmatch", "sub", "subn", "split", "findall", "finditer")
# Need packages that are not installed everywhere.
_SKIPPED = ("nccl_insight.live.capture.child", "nccl_insight.__main__")


def modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(nccl_insight.__path__, "nccl_insight."):
        if not info.name.startswith(_SKIPPED):
            yield importlib.import_module(info.name)


def _held(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns that a value holds, and by what source code calls each: those of a table by its name and key."""
    if isinstance(value, (re.Pattern, Late)):
        yield name, re.compile(value.pattern, value.flags)
    elif depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _held(item, name, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        for key, item in value.items():
            yield from _held(item, f'{name}["{key}"]' if depth == 0 and isinstance(key, str) else name, depth + 1)


def all_patterns() -> dict[str, tuple[re.Pattern[Any], str]]:
    """Patterns by "module: pattern", and how each is used: ``match`` at one place, or ``search`` at all."""
    found: dict[str, tuple[re.Pattern[Any], str]] = {}
    for module in modules():
        path = Path(module.__file__ or "")
        for name, value in vars(module).items():
            text = source.text(path)
            by_key = not re.search(rf"\b{name}(?:\[[^\"]|\.(?:items|values|get)\()", text) and name.startswith("_")
            for called, pattern in _held(value, name):
                if by_key and called != name and called not in text:
                    continue  # a part of others in the same file, or one of polars
                used = set(re.findall(rf"\b{re.escape(called)}\.(\w+)\(", text))
                kind = "match" if used and used <= {"match", "fullmatch"} else "search"
                found[f"{module.__name__}: {pattern.pattern!r}"] = (pattern, kind)
        for node in ast.walk(source.tree(path)):
            if not (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in _CALLS
                and node.args
            ):
                continue
            first = node.args[0]
            if (
                isinstance(first, ast.Constant)
                and isinstance(first.value, (str, bytes))
                and node.func.attr != "compile"
            ):
                kind = "match" if node.func.attr in ("match", "fullmatch") else "search"
                pattern = re.compile(first.value)
                found.setdefault(f"{module.__name__}: {pattern.pattern!r}", (pattern, kind))
    return found


def _sample(tokens: Iterable[Any], pumps: list[str]) -> str:
    """A short text that the tokens match, more or less; the texts of unbounded repeats go to ``pumps``."""
    out = ""
    for op, value in tokens:
        if op is sre.LITERAL:
            out += chr(value)
        elif op is sre.NOT_LITERAL:
            out += "a" if value != ord("a") else "b"
        elif op is sre.ANY:
            out += "x"
        elif op is sre.IN:
            out += _member(value)
        elif op is sre.BRANCH:
            texts = [_sample(branch, pumps) for branch in value[1]]
            out += texts[0]
            pumps += [t for t in texts if t]
        elif op is sre.SUBPATTERN:
            out += _sample(value[-1], pumps)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT) or str(op) == "POSSESSIVE_REPEAT":
            least, most, item = value
            text = _sample(item, pumps)
            if most is sre.MAXREPEAT or most > 20:
                pumps.append(text or "x")
                if len(item) == 1 and item[0][0] is sre.IN:
                    pumps += [c for c in " 0a-.:/[(" if _accepts(item[0][1], c)]
            out += text * max(least, 1)
        elif op in (sre.ASSERT,) or str(op) == "ATOMIC_GROUP":
            out += _sample(value[1] if op is sre.ASSERT else value, pumps) if op is not sre.ASSERT else ""
    return out


def _accepts(items: Any, char: str) -> bool:
    try:
        compiled = re.compile("[" + re.escape(char) + "]")
    except re.error:
        return False
    negate = bool(items) and items[0][0] is sre.NEGATE
    inside = False
    for op, value in items:
        inside |= op is sre.LITERAL and value == ord(char)
        inside |= op is sre.RANGE and value[0] <= ord(char) <= value[1]
        if op is sre.CATEGORY:
            name = str(value).lower()
            known = {
                "category_space": char.isspace(),
                "category_digit": char.isdigit(),
                "category_word": char.isalnum(),
            }
            inside |= known.get(name, not known.get(name.replace("not_", ""), True))
    return inside != negate and compiled.match(char) is not None


def _member(items: Any) -> str:
    return next((c for c in "a0 x.:-/_A\"'=[(<\n\x1b" if _accepts(items, c)), "~")


_MOST_BEGINNINGS = 40
_LONGEST_BEGINNING = 200


def beginnings(pattern: re.Pattern[Any]) -> list[str]:
    """What each alternative of a pattern begins with, up to and behind each of its long repeats."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    found: dict[str, None] = {}

    def walk(tokens: Iterable[Any], before: str) -> None:
        text = before
        for op, value in tokens:
            if op is sre.BRANCH:
                for branch in value[1]:
                    walk(branch, text)
            elif op is sre.SUBPATTERN:
                walk(value[-1], text)
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT) or str(op) == "POSSESSIVE_REPEAT":
                least, most, item = value
                piece = _sample(item, [])
                if most is sre.MAXREPEAT or most > 20:
                    found.update(dict.fromkeys((text, text + piece * max(least, 1), piece)))
                    if len(item) == 1 and item[0][0] is sre.IN:
                        accepted = [c for c in " 0a-./:[(" if _accepts(item[0][1], c)]
                        found.update(dict.fromkeys((*accepted, *(text + c for c in accepted[:3]))))
                walk(item, text)
            elif op is sre.ASSERT:
                walk(value[1], text)
            text += _sample([(op, value)], [])
        found.setdefault(text)

    walk(parser.parse(text, pattern.flags & ~re.DEBUG), "")
    short = [text for text in found if 0 < len(text) <= _LONGEST_BEGINNING]
    return short[:: -(-len(short) // _MOST_BEGINNINGS)] if short else []


def texts(pattern: re.Pattern[Any], size: int) -> list[Any]:
    """Texts of that size that hold many beginnings and no end of the pattern, in an order of their own."""
    made = [(seed * (size // len(seed) + 1))[:size] + "\x00~" for seed in (*beginnings(pattern), " ", "a", "0")]
    return made if isinstance(pattern.pattern, str) else [m.encode("utf-8", "replace") for m in made]


def apply(pattern: re.Pattern[Any], kind: str, text: Any) -> None:
    """Runs the pattern over a text as the source does."""
    if kind == "match":
        pattern.match(text)
        pattern.fullmatch(text)
    else:
        for _ in pattern.finditer(text):
            pass


# Patterns that can take the square of a text's length, and the most characters that the source gives them, by a part
# of the pattern. All others are linear.
BOUNDED = {
    r":[0-9]+:[0-9]+(?: \[-?[0-9]+\])?(?: \S+:[0-9]+": 640,  # the end of a text only, see recover._HEAD_MOST
    r"`*,;]+)$": 255,  # see recover._HOST_MOST
    r"distributed_c10d\.py": 255,  # see redact.names.LONGEST, as the next four
    r"([\w.+-]+)@((?:": 255,
    r"(?:worker|master|launcher|head|replica|ps)-": 255,
    r"local|internal|lan|cluster|corp": 255,
    r"(.*?[A-Za-z][A-Za-z_-]*?)([0-9]+)(.*)": 255,
    r"Kernel Module": 2000,  # a file of /proc
}
# Modules whose texts come from a maintainer (NCCL's own sources) or are lines of bounded length (redact.collect).
HOST_TOOLS = [module.name for module in pkgutil.iter_modules(host_tools.__path__)]
BOUNDED_MODULES = {
    # Lines of host tools are read to their first 4,000 characters, forms from the first 64 KiB of a file.
    **{f"nccl_insight.readers.host_tools.{name}": 4000 for name in HOST_TOOLS},
    "nccl_insight.readers.forms": 4000,
    "nccl_insight.language.sources": 1000,
    "nccl_insight.language.binaries": 2000,  # texts of a library, as their own pattern cuts them
    "nccl_insight.language.help": 1000,  # pages of ours, as the next three
    "nccl_insight.base.texts": 1000,
    "nccl_insight.engine.steps": 1000,
    "nccl_insight.cli.help": 1000,
    "nccl_insight.language.projects": 1000,
    "nccl_insight.language.syntax": 1000,
    "nccl_insight.readers.embedded.tags": 255,  # names of files
    "nccl_insight.inputs.remote": 4000,  # a URL that the user gave
    "nccl_insight.share.redact.said": 1000,
    "nccl_insight.share.redact.rows": 1000,
}

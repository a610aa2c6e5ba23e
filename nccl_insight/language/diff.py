"""Which logging calls of a source tree no grammar rule accepts, and skeletons of rules for them.

A format is rendered a few times with values of its conversions; the call is known when a rule accepts one of these
texts. Names of arguments (``algoStr``, ``hostname``, ``busId``) help to choose values that NCCL would print.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.grouping import grouped
from nccl_insight.language.catalog import Catalog
from nccl_insight.language.sources import LogCall, Tree
from nccl_insight.language.syntax import Choice, Column, Expr, Grammar, Literal, inside

_CONVERSION: Final = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>[0-9]+|\*)?(?P<precision>\.(?:[0-9]+|\*)?)?"
    r"(?:hh|h|ll|l|z|j|t)?(?P<kind>[diuxXopsfgGeEc%])"
)
# A format with fewer letters than this is too short to be told by its words.
_LETTERS: Final = 4
_START: Final = 12
_WORDS: Final = (
    "word", "some words", "10.0.0.1<50000>", "0", "/dev/shm/a", "mlx5_0", "AllReduce", "0000:1a:00.0", "ncclIb", "",
)  # fmt: skip
# Values of numbers by the kinds of conversion that print them.
_VALUES: Final = {
    "di": ("3", "0", "-1"),
    "u": ("3", "0", "7"),
    "xXo": ("1a2f", "0", "7f3a5c000b60"),
    "p": ("0x7f3a5c000b60", "(nil)", "0x7f3a5c000b60"),
}
# Part of an argument's name: what such a value looks like.
_HINTS: Final[Sequence[tuple[str, str]]] = toml.beside(__file__)["hints"]


@dataclass(frozen=True)
class Unknown:
    """A call that no rule accepts; ``count`` places of the tree print the same format. ``text`` is one rendering."""

    call: LogCall
    count: int
    text: str


def _value(kind: str, precision: str, argument: str, variant: int) -> str:
    for kinds, values in _VALUES.items():
        if kind in kinds:
            return values[variant % 3]
    if kind in "fgGeE":
        return f"{(1.5, 0.0, 27.25)[variant % 3]:{precision or '.6'}f}"
    if kind == "c":
        return "x"
    if variant % 2 == 0:
        literals = re.findall(r'\?[^?"]*"([^"]*)"[^:"]*:[^"]*"([^"]*)"', argument)
        if literals:
            return str(literals[0][(variant // 2) % 2])
        for pattern, value in _HINTS:
            if re.search(pattern, argument):
                return value
    return _WORDS[(variant // 2) % len(_WORDS)]


def render(call: LogCall, variant: int = 0) -> str:
    """The text of a call with made-up values."""
    arguments = iter(call.arguments)
    if call.format.startswith("%s:%d (%s) ") and len(call.arguments) < len(_CONVERSION.findall(call.format)):
        arguments = iter(("__FILE__", "__LINE__", "__func__", *call.arguments))

    def put(found: re.Match[str]) -> str:
        kind = found["kind"]
        if kind == "%":
            return "%"
        for star in (found["width"], found["precision"]):
            if star and "*" in star:
                next(arguments, "")
        precision = ".0" if found["precision"] == "." else found["precision"] or ""
        value = _value(kind, "" if "*" in precision else precision, next(arguments, ""), variant)
        flags, width = found["flags"], found["width"]
        if flags and "#" in flags and kind in "xX":
            value = f"0x{value}"
        if width and width != "*":
            fill = "0" if "0" in flags and kind not in "s" else " "
            value = value.ljust(int(width)) if "-" in flags else value.rjust(int(width), fill)
        return value

    return _CONVERSION.sub(put, call.format)


def _bodies(text: str) -> Iterator[str]:
    body = re.sub(r"^(?:\S+ )?NCCL DIAG ", "", text.strip("\n\r").rstrip())
    yield body
    if "\n" in body:
        yield body.split("\n")[0].rstrip()


def known(catalog: Catalog, call: LogCall) -> bool:
    """Whether a rule accepts a rendering of the call, or there is nothing to know (a format of one bare value)."""
    if not re.search(r"[A-Za-z]{3}", _CONVERSION.sub("", call.format.removeprefix("NCCL DIAG "))):
        return True
    # A string table does not tell what RAS puts in front of its reports.
    tags = ("", "[INFO] ", "[OK] ") if call.level == "?" else ("",)
    seen: set[str] = set()
    for variant in range(2 * len(_WORDS)):
        for body in (tag + body for tag in tags for body in _bodies(render(call, variant))):
            if body not in seen and (catalog.match(body) or catalog.match_collapsed(body)):
                return True
            seen.add(body)
    return "%s" in call.format and _in_words(catalog, call)


def _in_words(catalog: Catalog, call: LogCall) -> bool:
    """Whether a rule that begins like the format has all its words in their order: a string may stand for anything."""
    plain = call.format.strip().removeprefix("NCCL DIAG ").replace("0x%", "%")
    chunks = [c for c in _CONVERSION.sub("\0", plain).split("\0") if re.search("[A-Za-z]{2}", c)]
    if sum(len(re.findall("[A-Za-z]", c)) for c in chunks) < _LETTERS:
        return False
    start = plain.split("%", 1)[0]
    for message in catalog.grammar.messages.values():
        text = _words_of(catalog.grammar, message.expr)
        if not text.startswith(start[:_START]) and "\0" + start.strip() not in text[:80]:
            continue
        at = 0
        for chunk in chunks:
            found = text.find(chunk.strip(), at)
            if found < 0:
                break
            at = found + len(chunk.strip())
        else:
            return True
    return False


def _words_of(grammar: Grammar, expr: Expr) -> str:
    """All literals of a rule in their order, values as NUL."""
    if isinstance(expr, Literal):
        return expr.text
    if isinstance(expr, Column):
        inner = grammar.columns[expr.name].expr
        return _words_of(grammar, inner) if isinstance(inner, Choice | Literal) else "\0"
    between = "\0" if isinstance(expr, Choice) else ""
    return between.join(_words_of(grammar, part) for part in inside(expr)) or "\0"


def unknown_calls(catalog: Catalog, tree: Tree) -> list[Unknown]:
    """Calls that no rule accepts, each format once, warnings and failures first, then by file and line."""
    alike = grouped(((call.level, call.format), call) for call in tree.calls)
    found = [
        Unknown(calls[0], len(calls), next(_bodies(render(calls[0]))))
        for calls in alike.values()
        if not known(catalog, calls[0])
    ]
    order = {"WARN": 0, "ATTN": 0, "ERROR": 0, "DIAG": 1}
    found.sort(
        key=lambda u: (order.get(u.call.level, 2 - bool(_FAILS.search(u.call.format))), u.call.file, u.call.line)
    )
    return found


_FAILS: Final = re.compile(r"(?i)fail|error|unable|cannot|can't|could not|invalid|not found|mismatch|timed out|exceed")
_TERMINALS: Final = {"p": "_ptr", "x": "HEX", "X": "HEX", "f": "FLOAT", "g": "FLOAT", "e": "FLOAT", "c": "WORD"}


def quoted(text: str) -> str:
    """A text as a literal of a rule."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def skeleton(call: LogCall, version: str, columns: Sequence[str], taken: set[str]) -> str:
    """A rule for a call: columns where an argument's name is one, bare terminals elsewhere, to be reviewed."""
    items: list[str] = []
    used: set[str] = set()
    texts = iter(("detail", "reason", "hint", "advice"))
    arguments = iter(call.arguments)
    at = 0
    form = call.format.strip("\n ").removeprefix("NCCL DIAG ")
    for found in _CONVERSION.finditer(form):
        if found["kind"] == "%":
            continue
        if found.start() > at:
            items.append(quoted(form[at : found.start()].replace("%%", "%")))
        at = found.end()
        argument = next(arguments, "")
        name = _column_name(argument)
        if name in columns and name not in used:
            items.append(name)
            used.add(name)
        elif found["kind"] == "s":
            items.append(next(texts, "TEXT"))
        else:
            items.append(_TERMINALS.get(found["kind"], "INT"))
    if at < len(form):
        items.append(quoted(form[at:].replace("%%", "%")))
    loud = call.level in {"WARN", "ATTN", "ERROR"}
    head = ["//! table: errors", "//! diagnosis: ?", "//! role: ?"] if loud else []
    words = [w for w in re.findall(r"[a-z]{3,}", _CONVERSION.sub(" ", form).lower()) if w not in {"the", "net"}]
    base = "_".join(["err" if loud else "note", *words[:4]])
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    where = call.file.removeprefix("src/") + (f" {call.function}" if call.function else "")
    return "\n".join([*head, f"//! versions: {version}", f"//! source: {where}", f"{name}: {' '.join(items)}"]) + "\n"


def _column_name(argument: str) -> str:
    word = re.findall(r"[A-Za-z_]\w*", argument)
    plain = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", word[-1]).lower() if word else ""
    return {"n_ranks": "nranks", "dev_index": "device"}.get(plain, plain)


def show(catalog: Catalog, tree: Tree, skeletons: bool = False) -> tuple[str, int]:
    """What the grammar does not know of a tree, one call a line, or as rules to start from; and how much it is."""
    found = unknown_calls(catalog, tree)
    taken = set(catalog.grammar.messages)
    columns = list(catalog.grammar.columns)
    version = ".".join(tree.version.split(".")[:2]) or tree.library
    parts: list[str] = []
    for item in found:
        call = item.call
        shown = call.format.strip().replace("\n", "\\n")
        if skeletons:
            parts.append(f"// {call.level}: {shown}\n{skeleton(call, version, columns, taken)}\n")
        else:
            times = f" ({item.count} times)" if item.count > 1 else ""
            parts.append(f"{call.level:<8} {call.file}:{call.line}{times}  {shown}\n")
    return "".join(parts), len(found)

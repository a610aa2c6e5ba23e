"""Reader of the ``.lark`` files: the subset of lark's syntax that docs/grammar.md allows.

lark's own loader needs seconds for a grammar of this size, too long for every start of a command line tool;
a test shows that both read the same language.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from nccl_insight.errors import GrammarError
from nccl_insight.language.meanings import Case, meaning_of, parse_cases
from nccl_insight.language.syntax import (
    Choice,
    Column,
    ColumnDef,
    Expr,
    Grammar,
    Literal,
    Message,
    Repeat,
    Terminal,
    TerminalDef,
    columns_of,
    sequence,
)

_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<regex>/(?:[^/\\\n]|\\.)+/)|(?P<name>_?[A-Za-z][A-Za-z0-9_]*)'
    r"|(?P<op>[()\[\]|?*+])|(?P<space>\s+)|(?P<comment>//[^\n]*)"
)
_HEADER = re.compile(r"(_?[A-Za-z][A-Za-z0-9_]*)[ \t]*:(?!:)")
_DIRECTIVES = {
    "table", "set", "family", "normalise", "versions", "source", "headless", "type",
    "diagnosis", "role", "when", "define", "default-diagnosis", "default-role",
}  # fmt: skip
# Blocks of directives that belong to no rule: a table of cases, and what holds for the rest of the file.
_OWN_BLOCKS = {"define", "default-diagnosis", "default-role"}
_BUILTIN_TYPES = {"INT": "int", "FLOAT": "float", "INTS": "ints"}
DTYPES = ("int", "float", "str", "ints", "strs")


@dataclass(frozen=True)
class Definition:
    """One definition of a file as it stands there: name, text behind the colon, directives, file and line."""

    name: str
    body: str
    directives: dict[str, str]
    where: str


def grammar_files() -> Mapping[str, str]:
    """Name and text of the packaged grammar files (beside the package in a source checkout)."""
    packaged = resources.files("nccl_insight").joinpath("grammars")
    if packaged.is_dir():
        entries = [(e.name, e.read_text("utf-8")) for e in packaged.iterdir() if e.name.endswith(".lark")]
        return dict(sorted(entries))
    beside = Path(__file__).parents[2] / "grammars"
    return {p.name: p.read_text("utf-8") for p in sorted(beside.glob("*.lark"))}


def blocks(name: str, text: str) -> Iterator[dict[str, str]]:
    """The blocks of directives that belong to no rule, with ``where`` (file:line) added, in order."""
    block: dict[str, str] = {}
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip().startswith("//!"):
            key, _, value = line.strip()[3:].partition(":")
            _add(block, key.strip(), value.strip())
            block.setdefault("where", f"{name}:{number}")
        elif not line.strip().startswith("//"):
            if _OWN_BLOCKS & block.keys():
                yield block
            block = {}


def _add(directives: dict[str, str], key: str, value: str) -> None:
    """Notes a directive; cases add up, one a line."""
    directives[key] = f"{directives[key]}\n{value}" if key == "when" and key in directives else value


def definitions(name: str, text: str) -> Iterator[Definition]:
    """The definitions of a file in order.

    Raises:
        GrammarError: a line that is neither definition, continuation, comment nor known directive.
    """
    directives: dict[str, str] = {}
    header: tuple[str, str, int, dict[str, str]] | None = None
    body: list[str] = []

    def flush() -> Iterator[Definition]:
        if header is not None:
            first, rest, number, given = header
            yield Definition(first, "\n".join([rest, *body]), given, f"{name}:{number}")

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("//!"):
            key, _, value = stripped[3:].partition(":")
            if key.strip() not in _DIRECTIVES:
                raise GrammarError(f"{name}:{number}: unknown directive {key.strip()!r}")
            _add(directives, key.strip(), value.strip())
        elif not stripped and _OWN_BLOCKS & directives.keys():
            directives = {}
        elif not stripped or stripped.startswith("//"):
            continue
        elif line[0] in " \t|" and header is not None:
            body.append(line)
        elif match := _HEADER.match(line):
            yield from flush()
            header, body = (match[1], line[match.end() :], number, directives), []
            directives = {}
        else:
            raise GrammarError(f"{name}:{number}: not a definition: {stripped[:60]}")
    yield from flush()


class _Parser:
    """Recursive descent over one definition's body."""

    def __init__(self, definition: Definition, columns: set[str], terminals: set[str]) -> None:
        self._where = f"{definition.where} ({definition.name})"
        self._columns = columns
        self._terminals = terminals
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(definition.body):
            match = _TOKEN.match(definition.body, position)
            if match is None:
                raise GrammarError(
                    f"{self._where}: cannot read {definition.body[position : position + 20]!r}"
                )
            position = match.end()
            kind = match.lastgroup or ""
            if kind not in {"space", "comment"}:
                self._tokens.append((kind, match[0]))
        self._at = 0

    def parse(self) -> Expr:
        expr = self._choice()
        if self._at != len(self._tokens):
            raise GrammarError(f"{self._where}: unexpected {self._tokens[self._at][1]!r}")
        return expr

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _choice(self) -> Expr:
        options = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Expr:
        items: list[Expr] = []
        while self._at < len(self._tokens) and self._peek() not in {"|", ")", "]"}:
            items.append(self._item())
        if not items:
            raise GrammarError(f"{self._where}: an empty branch; use [ ... ] for what may be missing")
        return sequence(tuple(items))

    def _item(self) -> Expr:
        kind, text = self._tokens[self._at]
        self._at += 1
        expr: Expr
        if text in {"(", "["}:
            expr = self._choice()
            if self._peek() != {"(": ")", "[": "]"}[text]:
                raise GrammarError(f"{self._where}: {text} is not closed")
            self._at += 1
            if text == "[":
                return Repeat(expr, 0, 1)
        elif kind == "string":
            expr = Literal(ast.literal_eval(text))
        elif kind == "name":
            expr = self._named(text)
        else:
            raise GrammarError(f"{self._where}: unexpected {text!r}")
        suffix = self._peek()
        if suffix in {"?", "*", "+"} and suffix:
            self._at += 1
            return Repeat(expr, 1 if suffix == "+" else 0, 1 if suffix == "?" else None)
        return expr

    def _named(self, name: str) -> Expr:
        if name in self._terminals:
            return Terminal(name)
        if name.startswith("_") or name in self._columns:
            return Column(name)
        raise GrammarError(f"{self._where}: {name} is neither a column nor a terminal")


def _expand(expr: Expr, fragments: Mapping[str, Expr], where: str) -> Expr:
    if isinstance(expr, Column) and expr.name.startswith("_"):
        if expr.name not in fragments:
            raise GrammarError(f"{where}: no shared piece named {expr.name}")
        return _expand(fragments[expr.name], fragments, where)
    if isinstance(expr, Choice):
        return Choice(tuple(_expand(o, fragments, where) for o in expr.options))
    if isinstance(expr, Repeat):
        return Repeat(_expand(expr.item, fragments, where), expr.least, expr.most)
    if isinstance(expr, Literal | Column | Terminal):
        return expr
    return sequence(tuple(_expand(i, fragments, where) for i in expr.items))


def _terminal(definition: Definition) -> TerminalDef:
    body = definition.body.strip()
    if not (body.startswith("/") and body.endswith("/") and len(body) > 2):
        raise GrammarError(f"{definition.where}: terminal {definition.name} must be one /pattern/")
    dtype = definition.directives.get("type") or _BUILTIN_TYPES.get(definition.name, "str")
    if dtype not in DTYPES:
        raise GrammarError(f"{definition.where}: type {dtype!r} is not one of {', '.join(DTYPES)}")
    return TerminalDef(definition.name, body[1:-1].replace(r"\/", "/"), dtype, definition.where)


def _column_type(expr: Expr, terminals: Mapping[str, TerminalDef], given: str | None) -> str:
    if given:
        return given
    return terminals[expr.name].dtype if isinstance(expr, Terminal) else "str"


def _meanings(
    files: Mapping[str, str],
) -> tuple[dict[str, tuple[Case, ...]], dict[str, dict[str, str]]]:
    """Tables of cases by name, and the defaults of each file."""
    tables: dict[str, tuple[Case, ...]] = {}
    defaults: dict[str, dict[str, str]] = {name: {} for name in files}
    for name, text in files.items():
        if "default-" not in text and "define:" not in text:
            continue
        for block in blocks(name, text):
            if (table := block.get("define")) is not None:
                if table in tables:
                    raise GrammarError(f"{block['where']}: the table of cases {table} is already defined")
                tables[table] = parse_cases(block, block["where"])
            else:
                defaults[name].update({k: v for k, v in block.items() if k.startswith("default-")})
    return tables, defaults


def read_grammar(files: Mapping[str, str]) -> Grammar:
    """The grammar of the given files (name -> text).

    Raises:
        GrammarError: syntax outside the subset, an unknown or doubly defined name.
    """
    found: list[tuple[bool, Definition]] = []
    for name, text in files.items():
        is_fields = name.startswith("fields")
        found += [(is_fields, d) for d in definitions(name, text)]
    seen: dict[str, str] = {}
    for _, definition in found:
        if definition.name in seen:
            raise GrammarError(
                f"{definition.where}: {definition.name} is already defined at {seen[definition.name]}"
            )
        seen[definition.name] = definition.where
    terminals = {d.name: _terminal(d) for _, d in found if d.name.isupper()}
    lower = [(f, d) for f, d in found if not d.name.isupper()]
    names = {d.name for f, d in lower if f and not d.name.startswith("_")}
    columns: dict[str, ColumnDef] = {}
    fragments: dict[str, Expr] = {}
    rules: list[tuple[Definition, Expr]] = []
    for is_field, definition in lower:
        expr = _Parser(definition, names, set(terminals)).parse()
        if definition.name.startswith("_"):
            fragments[definition.name] = expr
        elif is_field:
            if any(not c.startswith("_") for c in columns_of(expr)):
                raise GrammarError(f"{definition.where}: column {definition.name} holds another column")
            dtype = _column_type(expr, terminals, definition.directives.get("type"))
            columns[definition.name] = ColumnDef(definition.name, expr, dtype, definition.where)
        else:
            rules.append((definition, expr))
    tables, defaults = _meanings(files)
    messages = {
        d.name: Message(
            d.name,
            _expand(e, fragments, d.where),
            d.where,
            d.directives,
            meaning_of(d.directives, defaults[d.where.partition(":")[0]], tables, f"{d.where} ({d.name})"),
        )
        for d, e in rules
    }
    columns = {
        n: ColumnDef(n, _expand(c.expr, fragments, c.origin), c.dtype, c.origin) for n, c in columns.items()
    }
    digest = hashlib.sha256("\0".join(f"{n}\0{t}" for n, t in sorted(files.items())).encode()).hexdigest()[
        :12
    ]
    return Grammar(terminals, columns, fragments, messages, digest, dict(files))


@cache
def default_grammar() -> Grammar:
    """The packaged grammar, read once per process."""
    return read_grammar(grammar_files())

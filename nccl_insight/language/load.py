"""Reader of the ``.lark`` files: the subset of lark's syntax that docs/grammar.md allows.

lark's own loader needs seconds for a grammar of this size, too long for every start of a command line tool;
a test shows that both read the same language.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nccl_insight import extensions
from nccl_insight.errors import GrammarError
from nccl_insight.language.meanings import Case, Meaning, expand, meaning_of, parse_cases
from nccl_insight.language.syntax import (
    Choice,
    Column,
    ColumnDef,
    Expr,
    Grammar,
    LazyMessage,
    Literal,
    Message,
    Repeat,
    Terminal,
    TerminalDef,
    columns_of,
    sequence,
)

if TYPE_CHECKING:
    from importlib.abc import Traversable

# A string, a comment, a name, an operator; the last branch is what none of them is.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|_?[A-Za-z][A-Za-z0-9_]*|[()\[\]|?*+]|[^\s]')
_SUFFIXES = frozenset("?*+")
_PLAIN = re.compile(r'"[^"\\]*"')
_HEADER = re.compile(r"(_?[A-Za-z][A-Za-z0-9_]*)[ \t]*:(?!:)")
_DIRECTIVES = {
    "table", "set", "family", "normalise", "versions", "source", "headless", "type", "alias", "column",
    "diagnosis", "role", "when", "define", "default-diagnosis", "default-role", "default-table", "default-headless",
}  # fmt: skip
# Blocks of directives that belong to no rule: a table of cases, and what holds for the rest of the file.
_OWN_BLOCKS = {"define", "default-diagnosis", "default-role", "default-table", "default-headless"}
_INHERITED = {"default-table": "table", "default-headless": "headless"}
_BUILTIN_TYPES = {"INT": "int", "FLOAT": "float", "INTS": "ints"}
_T = TypeVar("_T")
_KERNELS = "kernels.lark"
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
    return {name: text for name, text in _all_files().items() if not name.endswith(_KERNELS)}


def _all_files() -> Mapping[str, str]:
    """Our own files by name, those of extensions by ``package/name``."""
    packaged = resources.files("nccl_insight").joinpath("grammars")
    own = packaged if packaged.is_dir() else Path(__file__).parents[2] / "grammars"
    found = _lark_files(own, "")
    for package in extensions.packages("grammars"):
        found |= _lark_files(resources.files(package), f"{package.__name__}/")
    return found


def _lark_files(folder: Traversable, before: str) -> dict[str, str]:
    entries = [(before + e.name, e.read_text("utf-8")) for e in folder.iterdir() if e.name.endswith(".lark")]
    return dict(sorted(entries))


@cache
def kernel_grammar() -> Grammar:
    """The grammar of the names of GPU kernels, a language of its own beside that of the log."""
    return _grammar({name: text for name, text in _all_files().items() if name.endswith(_KERNELS)})


def blocks(name: str, text: str) -> Iterator[dict[str, str]]:
    """The blocks of directives that belong to no rule, with ``where`` (file:line) added, in order."""
    block: dict[str, str] = {}
    for number, line in enumerate([*text.splitlines(), ""], 1):
        text_of = line.strip()
        if text_of.startswith("//!"):
            key, _, value = text_of[3:].partition(":")
            _add(block, key.strip(), value.strip())
            block.setdefault("where", f"{name}:{number}")
        elif block and not text_of.startswith("//"):
            if _OWN_BLOCKS & block.keys():
                yield block
            block = {}


def _add(directives: dict[str, str], key: str, value: str) -> None:
    """Notes a directive; cases add up, one a line."""
    directives[key] = f"{directives[key]}\n{value}" if key == "when" and key in directives else value


def definitions(name: str, text: str) -> Iterator[Definition]:
    """The definitions of a file in order; messages with the table and ``headless`` that hold for the file.

    Raises:
        GrammarError: a line that is neither definition, continuation, comment nor known directive.
    """
    directives: dict[str, str] = {}
    inherited: dict[str, str] = {}
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
            inherited |= {_INHERITED[k]: v for k, v in directives.items() if k in _INHERITED}
            directives = {}
        elif not stripped or stripped.startswith("//"):
            continue
        elif line[0] in " \t|" and header is not None:
            body.append(line)
        elif match := _HEADER.match(line):
            yield from flush()
            given = {**inherited, **directives} if match[1].islower() and match[1][0] != "_" else directives
            header, body = (match[1], line[match.end() :], number, given), []
            directives = {}
        else:
            raise GrammarError(f"{name}:{number}: not a definition: {stripped[:60]}")
    yield from flush()


def _tokens(definition: Definition) -> list[str]:
    found = _TOKEN.findall(definition.body)
    if "//" in definition.body:
        found = [t for t in found if not t.startswith("//")]
    return found


def _text_of(string: str) -> str:
    """The text of a string token."""
    return string[1:-1] if _PLAIN.fullmatch(string) else str(ast.literal_eval(string))


class _Parser:
    """Recursive descent over one definition's body."""

    def __init__(self, definition: Definition, columns: Container[str], terminals: Container[str]) -> None:
        self._where = f"{definition.where} ({definition.name})"
        self._columns = columns
        self._terminals = terminals
        self._tokens = [*_tokens(definition), ""]
        self._at = 0

    def parse(self) -> Expr:
        expr = self._choice()
        if self._tokens[self._at]:
            raise GrammarError(f"{self._where}: unexpected {self._tokens[self._at]!r}")
        return expr

    def _choice(self) -> Expr:
        options = [self._sequence()]
        while self._tokens[self._at] == "|":
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Expr:
        items: list[Expr] = []
        while self._tokens[self._at] not in {"", "|", ")", "]"}:
            items.append(self._item())
        if not items:
            raise GrammarError(f"{self._where}: an empty branch; use [ ... ] for what may be missing")
        return sequence(tuple(items))

    def _item(self) -> Expr:
        text = self._tokens[self._at]
        self._at += 1
        expr: Expr
        if text in {"(", "["}:
            expr = self._choice()
            if self._tokens[self._at] != {"(": ")", "[": "]"}[text]:
                raise GrammarError(f"{self._where}: {text} is not closed")
            self._at += 1
            if text == "[":
                return Repeat(expr, 0, 1)
        elif text[0] == '"' and len(text) > 1:
            expr = Literal(_text_of(text))
        elif text[0] == "_" or text[0].isalpha():
            expr = self._named(text)
        elif text in {"?", "*", "+"}:
            raise GrammarError(f"{self._where}: unexpected {text!r}")
        else:
            raise GrammarError(f"{self._where}: cannot read {text!r}")
        suffix = self._tokens[self._at]
        if suffix in _SUFFIXES:
            self._at += 1
            return Repeat(expr, 1 if suffix == "+" else 0, 1 if suffix == "?" else None)
        return expr

    def _named(self, name: str) -> Expr:
        if name in self._terminals:
            return Terminal(name)
        if name.startswith("_") or name in self._columns:
            return Column(name)
        raise GrammarError(f"{self._where}: {name} is neither a column nor a terminal")


def _literals(tokens: Sequence[str]) -> tuple[str | None, ...] | None:
    """The outermost items of a body that begins with text: literals joined, None for all else.

    None where that cannot be told from the tokens alone (branches, shared pieces and groups without suffix).
    """
    items: list[str | None] = []
    depth = 0
    branches = False
    last = len(tokens) - 1
    for index, token in enumerate(tokens):
        follows = tokens[index + 1] if index < last else ""
        if token in {"(", "["}:
            depth += 1
            branches = branches and depth > 1
        elif token in {")", "]"}:
            depth -= 1
            if depth == 0:
                if token == ")" and not branches and follows not in _SUFFIXES:
                    return None
                items.append(None)
        elif token == "|":
            if depth == 0:
                return None
            branches = branches or depth == 1
        elif depth or token in _SUFFIXES:
            continue
        elif token[0] == "_":
            return None
        elif token[0] != '"' or follows in _SUFFIXES:
            items.append(None)
        elif items and items[-1] is not None:
            items[-1] += _text_of(token)
        else:
            items.append(_text_of(token))
    return tuple(items) if items and items[0] is not None else None


def _expand(expr: Expr, fragments: Mapping[str, Expr], where: str) -> Expr:
    """The expression with shared pieces put in their place; ``fragments`` are expanded themselves."""
    if isinstance(expr, Column):
        if not expr.name.startswith("_"):
            return expr
        if expr.name not in fragments:
            raise GrammarError(f"{where}: no shared piece named {expr.name}")
        return fragments[expr.name]
    if isinstance(expr, Literal | Terminal):
        return expr
    if isinstance(expr, Choice):
        return Choice(tuple(_expand(o, fragments, where) for o in expr.options))
    if isinstance(expr, Repeat):
        return Repeat(_expand(expr.item, fragments, where), expr.least, expr.most)
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


class _OnDemand(Mapping[str, _T]):
    """Things by name, each made when it is first asked for."""

    def __init__(self, names: Iterable[str], make: Callable[[str], _T]) -> None:
        self._made: dict[str, _T | None] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> _T:
        made = self._made[name]
        if made is None:
            made = self._made[name] = self._make(name)
        return made

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class _Reader:
    """Definitions to the pieces of a grammar. Expressions are parsed when they are asked for: a log needs few."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._found: dict[str, Definition] = {}
        self._open: set[str] = set()
        fields: set[str] = set()
        for file, text in files.items():
            for definition in definitions(file, text):
                if definition.name in self._found:
                    raise GrammarError(
                        f"{definition.where}: {definition.name} is already defined at "
                        f"{self._found[definition.name].where}"
                    )
                self._found[definition.name] = definition
                if file.rpartition("/")[2].startswith("fields"):
                    fields.add(definition.name)
        names = list(self._found)
        self.terminals = {n: _terminal(self._found[n]) for n in names if n.isupper()}
        lower = [n for n in names if not n.isupper()]
        pieces = [n for n in lower if n.startswith("_")]
        self._names = {n for n in lower if n in fields and not n.startswith("_")}
        self.fragments = _OnDemand(pieces, self._expanded)
        self.columns = _OnDemand([n for n in lower if n in self._names], self._column)
        self.messages = {
            n: self._message(self._found[n]) for n in lower if n not in fields and not n.startswith("_")
        }

    def _parsed(self, name: str) -> Expr:
        return _Parser(self._found[name], self._names, self.terminals).parse()

    def _expanded(self, name: str) -> Expr:
        where = self._found[name].where
        if name in self._open:
            raise GrammarError(f"{where}: {name} holds itself")
        self._open.add(name)
        try:
            return _expand(self._parsed(name), self.fragments, where)
        finally:
            self._open.discard(name)

    def _column(self, name: str) -> ColumnDef:
        definition = self._found[name]
        expr = self._parsed(name)
        if any(not c.startswith("_") for c in columns_of(expr)):
            raise GrammarError(f"{definition.where}: column {name} holds another column")
        dtype = _column_type(expr, self.terminals, definition.directives.get("type"))
        column = definition.directives.get("column", name)
        if column != name and (column not in self._names or self.columns[column].dtype != dtype):
            raise GrammarError(f"{definition.where}: there is no column {column} of type {dtype}")
        expanded = _expand(expr, self.fragments, definition.where)
        return ColumnDef(name, expanded, dtype, definition.where, column)

    @cached_property
    def _meanings(self) -> tuple[dict[str, tuple[Case, ...]], dict[str, dict[str, str]]]:
        return _meanings(self._files)

    def _meaning(self, definition: Definition) -> Meaning | None:
        tables, defaults = self._meanings
        own = defaults[definition.where.partition(":")[0]]
        return meaning_of(definition.directives, own, tables, f"{definition.where} ({definition.name})")

    def _message(self, definition: Definition) -> Message:
        return LazyMessage(
            definition.name,
            lambda: self._expanded(definition.name),
            lambda: self._meaning(definition),
            definition.where,
            definition.directives,
            _literals(_tokens(definition)),
        )


def _digest(files: Mapping[str, str]) -> str:
    text = "\0".join(f"{n}\0{t}" for n, t in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _grammar(files: Mapping[str, str]) -> Grammar:
    reader = _Reader(files)
    return Grammar(
        reader.terminals, reader.columns, reader.fragments, reader.messages, _digest(files), dict(files)
    )


def read_grammar(files: Mapping[str, str]) -> Grammar:
    """The grammar of the given files (name -> text), checked as a whole.

    Raises:
        GrammarError: syntax outside the subset, an unknown or doubly defined name.
    """
    grammar = _grammar(files)
    for expressions in (grammar.fragments.values(), (c.expr for c in grammar.columns.values())):
        for _ in expressions:
            pass
    for message in grammar.messages.values():
        _ = message.expr, message.meaning
    return grammar


@cache
def _topics() -> Mapping[str, tuple[Case, ...]]:
    """All tables of cases of the packaged grammar."""
    return _meanings(default_grammar().sources)[0]


@cache
def topic_cases(name: str) -> tuple[Case, ...]:
    """The cases of a table of the packaged grammar (``//! define:``), with the tables that they name put in.

    Raises:
        GrammarError: no table has that name.
    """
    tables = _topics()
    if name not in tables:
        raise GrammarError(f"no table of cases named {name}")
    return tuple(expand(tables[name], tables, name))


def grammar_digest() -> str:
    """The digest of the packaged grammar, without reading it."""
    return _digest(grammar_files())


@cache
def default_grammar() -> Grammar:
    """The packaged grammar, once per process. A definition is parsed when it is needed (the tests read all)."""
    return _grammar(grammar_files())

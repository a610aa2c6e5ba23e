"""Reader of the ``.lark`` files: definitions to a grammar.

lark's own loader needs seconds for a grammar of this size, too long for every start of a command line tool;
a test shows that both read the same language.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nccl_insight.base import extensions, kept
from nccl_insight.base.errors import GrammarError
from nccl_insight.base.late import OnDemand
from nccl_insight.language import syntax
from nccl_insight.language.meanings import WITNESS, Case, Meaning, Witness, expand, meaning_of, parse_cases

if TYPE_CHECKING:
    from importlib.abc import Traversable
from nccl_insight.language.definitions import Definition, blocks, definitions
from nccl_insight.language.parser import Parser, expanded, outer_literals, tokens_of

_BUILTIN_TYPES = {"INT": "int", "FLOAT": "float", "INTS": "ints"}
_KERNELS = "kernels.lark"
DTYPES = ("int", "float", "str", "ints", "strs")


def _paths() -> Mapping[str, Traversable]:
    """Our own files by name (beside the package in a source checkout), those of extensions by ``package/name``."""
    packaged = resources.files("nccl_insight").joinpath("grammars")
    folders = {"": packaged if packaged.is_dir() else Path(__file__).parents[2] / "grammars"}
    folders |= {f"{package.__name__}/": resources.files(package) for package in extensions.packages("grammars")}
    found = [(before, e) for before, folder in folders.items() for e in folder.iterdir() if e.name.endswith(".lark")]
    return {before + e.name: e for before, e in sorted(found, key=lambda item: (item[0], item[1].name))}


@cache
def grammar_files() -> Mapping[str, str]:
    """Name and text of the packaged grammar files, each read when somebody asks for it."""
    paths = {name: path for name, path in _paths().items() if not name.endswith(_KERNELS)}
    return OnDemand(paths, lambda name: paths[name].read_text("utf-8"))


@cache
def kernel_grammar() -> syntax.Grammar:
    """The grammar of the names of GPU kernels, a language of its own beside that of the log."""
    return _grammar({name: e.read_text("utf-8") for name, e in _paths().items() if name.endswith(_KERNELS)})


def _terminal(definition: Definition) -> syntax.TerminalDef:
    body = definition.body.strip()
    if not (body.startswith("/") and body.endswith("/") and len(body) > 2):
        raise GrammarError(f"{definition.where}: terminal {definition.name} must be one /pattern/")
    dtype = definition.directives.get("type") or _BUILTIN_TYPES.get(definition.name, "str")
    if dtype not in DTYPES:
        raise GrammarError(f"{definition.where}: type {dtype!r} is not one of {', '.join(DTYPES)}")
    return syntax.TerminalDef(definition.name, body[1:-1].replace(r"\/", "/"), dtype, definition.where)


class _Taken(NamedTuple):
    """What every start needs of the packaged files: their digest, the definitions as they stand there (name, body,
    directives, file:line), and by file the blocks of directives that belong to no rule."""

    digest: str
    definitions: Sequence[tuple[str, str, dict[str, str], str]]
    blocks: Mapping[str, Sequence[dict[str, str]]]


def kept_of_sources(name: str, make: Callable[[], Any]) -> Any:
    """What ``make`` gives for the packaged files as they are taken apart by the modules of this package."""
    return kept.of_files(name, (*_paths().values(), *Path(__file__).parent.glob("*.py")), make)


@cache
def _taken() -> _Taken:
    def make() -> tuple[Any, ...]:
        files = grammar_files()
        rows = [tuple(definition) for definition in _definitions(files).values()]
        return _digest(files), rows, {name: _blocks(name, text) for name, text in files.items()}

    return _Taken(*kept_of_sources("grammar", make))


def _own_blocks(files: Mapping[str, str], name: str) -> Sequence[dict[str, str]]:
    """The blocks of a file that belong to no rule: tables of cases, help, and what holds for the rest of the file."""
    return _taken().blocks[name] if files is grammar_files() else _blocks(name, files[name])


@cache
def _blocks(name: str, text: str) -> Sequence[dict[str, str]]:
    own = ("default-", "define:", "help:", "enum:")
    return tuple(blocks(name, text)) if any(word in text for word in own) else ()


def blocks_of(files: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The blocks of directives of grammar files that belong to no rule, in order."""
    return (block for name in files for block in _own_blocks(files, name))


def _tables(files: Mapping[str, str]) -> Mapping[str, tuple[Case, ...]]:
    """Tables of cases by name; the cases are parsed when they are asked for."""
    found: dict[str, dict[str, str]] = {}
    for block in (b for b in blocks_of(files) if "define" in b):
        if block["define"] in found:
            raise GrammarError(f"{block['where']}: the table of cases {block['define']} is already defined")
        found[block["define"]] = block
    return OnDemand(found, lambda name: parse_cases(found[name], found[name]["where"]))


def _definitions(files: Mapping[str, str]) -> dict[str, Definition]:
    """The definitions of all files by name, in their order."""
    found: dict[str, Definition] = {}
    for definition in (d for file, text in files.items() for d in definitions(file, text)):
        if definition.name in found:
            raise GrammarError(
                f"{definition.where}: {definition.name} is already defined at {found[definition.name].where}"
            )
        found[definition.name] = definition
    return found


class _Reader:
    """Definitions to the pieces of a grammar. Expressions are parsed when they are asked for: a log needs few."""

    def __init__(self, files: Mapping[str, str], found: Mapping[str, Definition]) -> None:
        self._files = files
        self._found = found
        self._open: set[str] = set()
        shared = {file for file in files if file.rpartition("/")[2].startswith("fields")}
        fields = {n for n, d in found.items() if d.where.partition(":")[0] in shared}
        names = list(found)
        self.terminals = {n: _terminal(self._found[n]) for n in names if n.isupper()}
        lower = [n for n in names if not n.isupper()]
        pieces = [n for n in lower if n.startswith("_")]
        self._names = {n for n in lower if n in fields and not n.startswith("_")}
        self.fragments = OnDemand(pieces, self._expanded)
        self.columns = OnDemand([n for n in lower if n in self._names], self._column)
        messages = [n for n in lower if n not in fields and not n.startswith("_")]
        self.messages = OnDemand(messages, self._message)

    def _parsed(self, name: str) -> syntax.Expr:
        return Parser(self._found[name], self._names, self.terminals).parse()

    def _expanded(self, name: str) -> syntax.Expr:
        where = self._found[name].where
        if name in self._open:
            raise GrammarError(f"{where}: {name} holds itself")
        self._open.add(name)
        try:
            return expanded(self._parsed(name), self.fragments, where)
        finally:
            self._open.discard(name)

    def _column(self, name: str) -> syntax.ColumnDef:
        definition = self._found[name]
        expr = self._parsed(name)
        if any(not c.startswith("_") for c in syntax.columns_of(expr)):
            raise GrammarError(f"{definition.where}: column {name} holds another column")
        usual = self.terminals[expr.name].dtype if isinstance(expr, syntax.Terminal) else "str"
        dtype = definition.directives.get("type") or usual
        column = definition.directives.get("column", name)
        if column != name and (column not in self._names or self.columns[column].dtype != dtype):
            raise GrammarError(f"{definition.where}: there is no column {column} of type {dtype}")
        return syntax.ColumnDef(name, expanded(expr, self.fragments, definition.where), dtype, definition.where, column)

    @cached_property
    def _tables(self) -> Mapping[str, tuple[Case, ...]]:
        return _tables(self._files)

    def _meaning(self, definition: Definition) -> Meaning | None:
        file = definition.where.partition(":")[0]
        blocks = (b.items() for b in _own_blocks(self._files, file) if "define" not in b)
        own = {k: v for items in blocks for k, v in items if k.startswith("default-")}  # once for all its rules
        return meaning_of(definition.directives, own, self._tables, f"{definition.where} ({definition.name})")

    def _message(self, name: str) -> syntax.Message:
        definition = self._found[name]
        return syntax.LazyMessage(
            name,
            lambda: self._expanded(definition.name),
            lambda: self._meaning(definition),
            definition.where,
            definition.directives,
            lambda: None if r"\n" in definition.body else outer_literals(tokens_of(definition)),
        )


def _digest(files: Mapping[str, str]) -> str:
    text = "\0".join(f"{n}\0{t}" for n, t in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _grammar(files: Mapping[str, str]) -> syntax.Grammar:
    packaged = _taken() if files is grammar_files() else None
    found = {row[0]: Definition(*row) for row in packaged.definitions} if packaged else _definitions(files)
    reader = _Reader(files, found)
    digest = packaged.digest if packaged else _digest(files)
    return syntax.Grammar(reader.terminals, reader.columns, reader.fragments, reader.messages, digest, files)


def read_grammar(files: Mapping[str, str]) -> syntax.Grammar:
    """The grammar of the given files (name -> text), checked as a whole.

    Raises GrammarError: syntax outside the subset, an unknown or doubly defined name.
    """
    grammar = _grammar(files)
    expressions: Iterable[object]
    for expressions in (grammar.fragments.values(), grammar.columns.values(), _tables(files).values()):
        for _ in expressions:
            pass
    for message in grammar.messages.values():
        _ = message.expr, message.meaning
    return grammar


@cache
def _topics() -> Mapping[str, tuple[Case, ...]]:
    """All tables of cases of the packaged grammar."""
    return _tables(default_grammar().sources)


@cache
def topic_cases(name: str) -> tuple[Case, ...]:
    """The cases of a table of the packaged grammar (``//! define:``), with the tables that they name put in.

    Raises GrammarError: no table has that name.
    """
    tables = _topics()
    if name not in tables:
        raise GrammarError(f"no table of cases named {name}")
    return tuple(expand(tables[name], tables, name))


@cache
def _directives() -> Mapping[str, Mapping[str, str]]:
    """What stands above each definition of the packaged grammar."""
    return {name: given for name, _, given, _ in _taken().definitions}


@cache
def witnesses() -> Mapping[str, Witness]:
    """What each message of the packaged grammar that tells of an end states of it."""
    return {
        name: Witness(**{key: given.get(key, "") for key in WITNESS})
        for name, given in _directives().items()
        if not WITNESS.keys().isdisjoint(given)
    }


@cache
def playing(part: str) -> tuple[str, ...]:
    """The messages of the packaged grammar that play a part (:data:`nccl_insight.language.meanings.PARTS`)."""
    return tuple(name for name, parts in _parts().items() if part in parts)


def parts_of(message: str) -> frozenset[str]:
    """The parts that a message plays."""
    return _parts().get(message, frozenset())


@cache
def _parts() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(given["part"].split()) for name, given in _directives().items() if "part" in given}


def grammar_digest() -> str:
    """The digest of the packaged grammar."""
    return _taken().digest


@cache
def default_grammar() -> syntax.Grammar:
    """The packaged grammar, once per process. A definition is parsed when it is needed (the tests read all)."""
    return _grammar(grammar_files())

"""Checks of the whole grammar: determinism, portability, names."""

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from nccl_insight.base import toml
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import GrammarError
from nccl_insight.language.charset import charsets
from nccl_insight.language.compile import check
from nccl_insight.language.help import PLACE, Block, enumerations, fields, help_blocks, own_help, unknown_fields
from nccl_insight.language.meanings import HEAD_COLUMNS, WITNESS, Case, Test, parse_cases
from nccl_insight.language.syntax import Grammar, Message, columns_of


@dataclass(frozen=True)
class Problem:
    """One breach: where (file:line), which definition, what."""

    origin: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.name}: {self.text}"


def lint(grammar: Grammar, diagnoses: Collection[str]) -> list[Problem]:
    """Every breach of docs/grammar.md in a grammar, in file order. ``diagnoses``: the names that a message may have."""
    problems: list[Problem] = []
    for terminal in grammar.terminals.values():
        try:
            sets = charsets(terminal.pattern)
        except GrammarError as error:
            problems.append(Problem(terminal.origin, terminal.name, str(error)))
            continue
        if sets.nullable:
            problems.append(Problem(terminal.origin, terminal.name, "may be empty; use + instead of *"))
    if problems:
        return problems
    given: set[str] = set()
    for message in grammar.messages.values():
        problems += [Problem(message.origin, message.name, text) for text in check(grammar, message)]
        for old in message.aliases:
            if old in grammar.messages or old in given:
                problems.append(Problem(message.origin, message.name, f"the alias {old} is another message's name"))
            given.add(old)
        problems += [Problem(message.origin, message.name, text) for text in _meaning(grammar, message, diagnoses)]
        problems += [Problem(message.origin, message.name, text) for text in _own_help(grammar, message)]
    return [*problems, *_help(grammar, diagnoses)]


def _own_help(grammar: Grammar, message: Message) -> Iterator[str]:
    """What is wrong with the help that a message brings."""
    help_ = own_help(message.name, message.directives)
    captured = {*(grammar.columns[name].column for name in columns_of(message.expr)), *message.constants}
    for field in unknown_fields(help_, captured) if help_ else ():
        yield f"its help names {{{field}}}, which the message does not capture{_nearest(field, captured)}"


def _help(grammar: Grammar, diagnoses: Collection[str]) -> Iterator[Problem]:
    """What is wrong with blocks of help and enumerations."""
    columns = {c.column for c in grammar.columns.values()}
    try:
        found, numbers = [*help_blocks(grammar.sources)], enumerations(grammar.sources)
    except GrammarError as error:
        yield Problem(str(error).partition(": ")[0], "help", str(error).partition(": ")[2])
        return
    for column in sorted(set(numbers) - columns):
        yield Problem("enum", column, f"is no column{_nearest(column, columns)}")
    for block in found:
        for name in block.names:
            if name not in grammar.messages and name not in diagnoses:
                near = _nearest(name, {*grammar.messages, *diagnoses})
                yield Problem("help", block.help.name, f"{name} is no message and no diagnosis{near}")
        tested = {test.column for case in block.cases for test in case.tests} - HEAD_COLUMNS
        asked = {field for text in block.help.parts.values() for field in fields(text)} - PLACE
        for column in sorted((tested | asked) - columns):
            yield Problem("help", block.help.name, f"{column} is no column{_nearest(column, columns)}")
        if all(name in diagnoses for name in block.names) and not block.cases:
            yield Problem("help", block.help.name, "help for a whole diagnosis is its page")
    yield from _silent(found)


def _silent(blocks: Sequence[Block]) -> Iterator[Problem]:
    """Blocks of help in front of which others always speak."""
    for at, block in enumerate(blocks):
        for name in block.names:
            front = [b for b in blocks[:at] if name in b.names]
            if all(any(b.covers(case, block.help) for b in front) for case in block.cases or [Case(())]):
                yield Problem("help", block.help.name, f"never speaks for {name}: blocks in front of it always do")


def _nearest(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, sorted(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


@cache
def _parts() -> frozenset[str]:
    """What a message may be beside its diagnosis (``parts.toml``)."""
    return frozenset(toml.read(Path(__file__).with_name("parts.toml")))


def _meaning(grammar: Grammar, message: Message, diagnoses: Collection[str]) -> Iterator[str]:
    """What is wrong with the meaning of a message."""
    for key, known in WITNESS.items():
        said = message.directives.get(key)
        if said is not None and said not in known:
            yield f"{key} is {' or '.join(known)}, not {said!r}"
    for part in message.directives.get("part", "").split():
        if part not in _parts():
            yield f"{part} is no part of a message{_nearest(part, _parts())}"
    if message.meaning is None:
        if message.table == "errors":
            yield "a message of the table errors needs a diagnosis and a role"
        return
    for name in sorted(set(message.meaning.names()) - set(diagnoses)):
        yield f"{name} is no diagnosis"
    captured = {grammar.columns[name].column for name in columns_of(message.expr)}
    own = {*captured, *message.constants, *HEAD_COLUMNS}
    seen: set[tuple[Test, ...]] = set()
    for case in parse_cases(message.directives, message.origin):
        for test in case.tests:
            for column in (test.column, *(v[1:-1] for v in test.values if v.startswith("{"))):
                if column not in own:
                    yield f"a case tests {column}, which the message does not capture"
        if case.tests in seen:
            yield f"a case is never reached: {' & '.join(str(t) for t in case.tests) or 'the second without tests'}"
        if case.table is None:
            seen.add(case.tests)

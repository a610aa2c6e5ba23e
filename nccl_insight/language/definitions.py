"""Definitions of a grammar file as they stand there: name, body and directives, nothing parsed."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from nccl_insight.base.errors import GrammarError
from nccl_insight.base.words import words

_HEADER = re.compile(r"(_?[A-Za-z][A-Za-z0-9_]*)[ \t]*:(?!:)")
# Lines of comment from the first directive on.
_COMMENTS = re.compile(r"^[ \t]*//!.*(?:\n[ \t]*//.*)*", re.MULTILINE)
_DIRECTIVES = set(
    words("""table set family normalise versions source headless type alias column diagnosis role when
    define default-diagnosis default-role default-table default-headless speaker names end part says check where
    fix do help for enum value""")
)
# Blocks that belong to no rule: a table of cases, help, an enumeration, what holds for the rest of the file.
OWN_BLOCKS = {"define", "help", "enum", "default-diagnosis", "default-role", "default-table", "default-headless"}
_OWN = re.compile(r"//! *(?:define|help|enum|default-[a-z]+):")
_ADDED = {"when", "value"}
_INHERITED = {"default-table": "table", "default-headless": "headless"}


class Definition(NamedTuple):
    """One definition of a file as it stands there: name, text behind the colon, directives, file and line."""

    name: str
    body: str
    directives: dict[str, str]
    where: str


def blocks(name: str, text: str) -> Iterator[dict[str, str]]:
    """The blocks of directives that belong to no rule, with ``where`` (file:line) added, in order; a
    directive of that name is ``place``."""
    number, at = 1, 0
    for found in _COMMENTS.finditer(text):
        if not _OWN.search(found[0]):
            continue
        block: dict[str, str] = {}
        for line in found[0].split("\n"):
            if line.lstrip().startswith("//!"):
                key, _, value = line.strip()[3:].partition(":")
                _add(block, key.strip(), value.strip())
        if OWN_BLOCKS & block.keys():
            number, at = number + text.count("\n", at, found.start()), found.start()
            yield {**block, "place": block.get("where", ""), "where": f"{name}:{number}"}


def _add(directives: dict[str, str], key: str, value: str) -> None:
    """Notes a directive; cases and values add up, one per line."""
    directives[key] = f"{directives[key]}\n{value}" if key in _ADDED and key in directives else value


def definitions(name: str, text: str) -> Iterator[Definition]:
    """The definitions of a file in order; messages with the table and ``headless`` that hold for the file.

    Raises GrammarError: a line that is neither definition, continuation, comment nor known directive.
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
        elif not stripped and OWN_BLOCKS & directives.keys():
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

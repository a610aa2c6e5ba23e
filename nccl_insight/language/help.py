"""The help that a message brings itself: what it means, what to look at and what to change, with its values filled in.

``says``, ``check``, ``where``, ``fix`` and ``do`` above a rule hold for its lines. Help that depends on a value stands
in a block of its own (``help: NAME``), for messages or diagnoses (``for``), behind tests (``when``). Enumerations
(``enum: COLUMN`` with one ``value: NUMBER = words`` per line) say what numbers stand for. docs/grammar.md, "Help".
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from nccl_insight.base import late
from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import GrammarError
from nccl_insight.base.grouping import grouped
from nccl_insight.language.load import blocks_of, default_grammar
from nccl_insight.language.meanings import Case, parse_case

# What every line has beside the values that its message captures.
PLACE: Final = frozenset(
    {"host", "pid", "rank", "cuda_device", "text", "function", "launcher", "advice", "option", "package", "place"}
)
_PARTS: Final = ("says", "check", "where", "fix", "do")
_KEYS: Final = frozenset({*_PARTS, "help", "for", "when", "place"})
_VALUE_MOST: Final = 90
_FIELD: Final = late.compiled(r"\{([a-z_][a-z0-9_]*)(:raw|:last)?\}")
_OPTIONAL: Final = late.compiled(r"\[\[(.*?)\]\]")


@dataclass(frozen=True)
class Help:
    """What one message, or one value in it, means. Templates: ``{column}``, and ``[[words]]`` left out where a value
    in them is unknown."""

    name: str
    says: str = ""
    check: str = ""
    where: str = ""
    fix: str = ""
    do: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """Its texts by name."""
        return {part: getattr(self, part) for part in _PARTS}


@dataclass(frozen=True)
class Block:
    """Help for messages or diagnoses, where one of the cases holds (none: always)."""

    help: Help
    names: tuple[str, ...]
    cases: tuple[Case, ...]

    def covers(self, case: Case, other: Help) -> bool:
        """Whether this help speaks wherever a case of another holds, whose ``says`` has its values."""
        known = {*needed(other.says), *(t.column for t in case.tests if "!" not in t.operator)}
        says = [self.help.says] if self.help.says else [self.help.check, self.help.fix, self.help.do]
        said = any(text and needed(text) <= known for text in says)
        return said and any(all(t.follows(case.tests) for t in c.tests) for c in self.cases or (Case(()),))


def _help(name: str, given: Mapping[str, str]) -> Help:
    return Help(name, **{part: given.get(part, "") for part in _PARTS})


def own_help(name: str, directives: Mapping[str, str]) -> Help | None:
    """The help in the directives of a message, or None."""
    return _help(name, directives) if any(part in directives for part in _PARTS) else None


def _names(block: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(block.get("for", "").replace(",", " ").split())


def _block(block: Mapping[str, str]) -> Block:
    where = block["where"]
    for key in block.keys() - _KEYS:
        raise GrammarError(f"{where}: a block of help has no {key}")
    given = {**block, "where": block.get("place", "")}
    if not _names(block) or not any(given.get(part) for part in _PARTS):
        raise GrammarError(f"{where}: help needs `for:` and one of {', '.join(_PARTS)}")
    lines = [line for line in block.get("when", "").split("\n") if line]
    cases = tuple(parse_case(f"{line} => {block['help']}", where) for line in lines)
    return Block(_help(block["help"], given), _names(block), cases)


def help_blocks(files: Mapping[str, str]) -> Iterator[Block]:
    """The blocks of help of grammar files, in order.

    Raises GrammarError: an unknown key, a block for nothing, or a case that cannot be read.
    """
    return (_block(block) for block in blocks_of(files) if "help" in block)


def enumerations(files: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What the numbers in columns stand for, by column.

    Raises GrammarError: a value that is not of the form ``NUMBER = words``.
    """
    found: dict[str, dict[str, str]] = {}
    for block in blocks_of(files):
        for column in block.get("enum", "").replace(",", " ").split():
            pairs = (line.partition("=") for line in block.get("value", "").split("\n"))
            for number, equals, words in pairs:
                if not equals:
                    raise GrammarError(f"{block['where']}: a value is `NUMBER = words`, not {number!r}")
                found.setdefault(column, {})[number.strip()] = words.strip()
    return found


@cache
def _blocks_by_name() -> Mapping[str, list[dict[str, str]]]:
    return grouped((name, block) for block in blocks_of(default_grammar().sources) for name in _names(block))


@cache
def default_blocks(name: str) -> tuple[Block, ...]:
    """The blocks of help of the packaged grammar for a message or a diagnosis, in order; a run needs few of all."""
    return tuple(_block(block) for block in _blocks_by_name().get(name, ()))


@cache
def default_enumerations() -> Mapping[str, Mapping[str, str]]:
    """The enumerations of the packaged grammar."""
    return enumerations(default_grammar().sources)


def fields(template: str) -> Iterator[str]:
    """The columns that a template names."""
    return (match[1] for match in _FIELD.finditer(template))


def needed(template: str) -> set[str]:
    """The columns without which a template is left out."""
    return set(fields(_OPTIONAL.sub("", template)))


def filled(template: str, values: Mapping[str, object], enums: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """The template with its values; of ``[[words||other words]]`` the first whose values are known, or nothing.

    A text whose value is unknown is left out (empty). A number of an enumeration is given in words, with
    ``{column:raw}`` as it is, and of several lines ``{column:last}`` the last."""
    known = default_enumerations() if enums is None else enums

    def given(name: str, how: object) -> str | None:
        value = values.get(name)
        if value is None or value == "":
            return None
        lines = [line for line in str(value).splitlines() if line.strip(" -")] or [""]
        said = " ".join((lines[-1] if how == ":last" else " ".join(lines)).split())
        told = said if how == ":raw" else known.get(name, {}).get(said, said)
        return told if len(told) <= _VALUE_MOST or name == "advice" else f"{told[:_VALUE_MOST].rsplit(' ', 1)[0]} ..."

    def whole(text: str) -> str | None:
        said = {m[0]: given(m[1], m[2]) for m in _FIELD.finditer(text)}
        if None in said.values():
            return None
        return _FIELD.sub(lambda m: str(said[m[0]]), text)

    def first(choices: str) -> str:
        return next((said for part in choices.split("||") if (said := whole(part))), "")

    kept = _OPTIONAL.sub(lambda m: first(m[1]), template)
    return " ".join((whole(kept) or "").split())


def unknown_fields(help_: Help, columns: Iterable[str]) -> list[str]:
    """Fields of its templates that no line has."""
    have = {*columns, *PLACE}
    return sorted({f for text in help_.parts.values() for f in fields(text)} - have)

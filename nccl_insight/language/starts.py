"""What a text can start with where an expression of the grammar stands: the ground of the determinism checks."""

from typing import TypeAlias

from nccl_insight.base.data import dataclass
from nccl_insight.language.charset import CharSets, charsets
from nccl_insight.language.syntax import Choice, Column, Expr, Grammar, Literal, Sequence, Terminal, inside


@dataclass(frozen=True)
class Lit:
    """Text that stands as it is."""

    text: str


@dataclass(frozen=True)
class Chars:
    """One of these characters."""

    first: frozenset[str]


@dataclass(frozen=True)
class End:
    """Nothing: the text ends."""


Start: TypeAlias = Lit | Chars | End


def told_apart(one: Start, other: Start) -> bool:
    """Whether no text can begin in both ways."""
    if isinstance(one, End) or isinstance(other, End):
        return type(one) is not type(other)
    if isinstance(one, Lit) and isinstance(other, Lit):
        return not (one.text.startswith(other.text) or other.text.startswith(one.text))
    return not _first(one) & _first(other)


def _first(start: Start) -> frozenset[str]:
    """The characters that a text can begin with."""
    if isinstance(start, Lit):
        return frozenset(start.text[0])
    return start.first if isinstance(start, Chars) else frozenset()


def show(start: Start) -> str:
    """In words for the author of a rule."""
    if isinstance(start, Lit):
        return repr(start.text)
    return "the end" if isinstance(start, End) else "a value"


class Starts:
    """What texts of a grammar's expressions begin with and consist of."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar

    def sets(self, expr: Terminal | Column) -> CharSets:
        """Characters that a value can begin with and hold."""
        if isinstance(expr, Terminal):
            return charsets(self._grammar.terminals[expr.name].pattern)
        inner = self._grammar.columns[expr.name].expr
        first = frozenset[str]().union(*map(_first, self.starts((inner,))))
        pieces = (frozenset(p.text) if isinstance(p, Literal) else self.sets(p).all for p in leaves(inner))
        return CharSets(first, frozenset[str]().union(*pieces), False)

    def starts(self, items: tuple[Expr, ...]) -> list[Start]:
        """What a text that begins with these items can start with."""
        return [start for start, _ in self.openings(items)]

    def openings(self, items: tuple[Expr, ...]) -> list[tuple[Start, tuple[Expr, ...]]]:
        """Each way to begin, with what stands behind it."""
        found: list[tuple[Start, tuple[Expr, ...]]] = []
        for index, item in enumerate(items):
            rest = items[index + 1 :]
            if isinstance(item, Literal):
                return [*found, (Lit(item.text), rest)]
            if isinstance(item, Terminal):
                return [*found, (Chars(self.sets(item).first), rest)]
            if isinstance(item, Column):
                return [*found, *self.openings((self._grammar.columns[item.name].expr, *rest))]
            if isinstance(item, Sequence):
                return [*found, *self.openings((*item.items, *rest))]
            if isinstance(item, Choice):
                for option in item.options:
                    found += self.openings((option, *rest))
                return found
            found += self.openings((item.item, *rest))
            if item.least:
                return found
        return [*found, (End(), ())]


def may_start(start: Start, chars: frozenset[str]) -> bool:
    """Whether a start begins with one of these characters."""
    return bool(_first(start) & chars)


def leaves(expr: Expr) -> list[Literal | Terminal]:
    """Texts and terminals of an expression in order."""
    if isinstance(expr, Literal | Terminal):
        return [expr]
    return [leaf for part in inside(expr) for leaf in leaves(part)]

"""What a text can start with where an expression of the grammar stands: the ground of the determinism checks."""

from typing import TypeAlias

from nccl_insight.base.data import dataclass
from nccl_insight.language.charset import CharSets, charsets
from nccl_insight.language.syntax import Choice, Column, Expr, Grammar, Literal, Repeat, Sequence, Terminal


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
        return not (isinstance(one, End) and isinstance(other, End))
    if isinstance(one, Lit) and isinstance(other, Lit):
        return not (one.text.startswith(other.text) or other.text.startswith(one.text))
    if isinstance(one, Lit):
        assert isinstance(other, Chars)
        return one.text[0] not in other.first
    if isinstance(other, Lit):
        return other.text[0] not in one.first
    return not (one.first & other.first)


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
        first: frozenset[str] = frozenset()
        everything: frozenset[str] = frozenset()
        inner = self._grammar.columns[expr.name].expr
        for start in self.starts((inner,)):
            first |= frozenset(start.text[0]) if isinstance(start, Lit) else frozenset()
            first |= start.first if isinstance(start, Chars) else frozenset()
        for piece in leaves(inner):
            everything |= frozenset(piece.text) if isinstance(piece, Literal) else self.sets(piece).all
        return CharSets(first, everything, False)

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
    if isinstance(start, Lit):
        return start.text[0] in chars
    return isinstance(start, Chars) and bool(start.first & chars)


def leaves(expr: Expr) -> list[Literal | Terminal]:
    """Texts and terminals of an expression in order."""
    if isinstance(expr, Literal | Terminal):
        return [expr]
    if isinstance(expr, Sequence):
        return [leaf for item in expr.items for leaf in leaves(item)]
    if isinstance(expr, Choice):
        return [leaf for option in expr.options for leaf in leaves(option)]
    if isinstance(expr, Repeat):
        return leaves(expr.item)
    return []

"""The pieces of a rule in the restricted grammar language (docs/grammar.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

from nccl_insight.base import late
from nccl_insight.base.data import dataclass, field
from nccl_insight.language.meanings import Meaning


@dataclass(frozen=True)
class Literal:
    """Text that stands as it is."""

    text: str


@dataclass(frozen=True)
class Column:
    """A captured value; the definition is in :attr:`Grammar.columns`."""

    name: str


@dataclass(frozen=True)
class Terminal:
    """A terminal that is matched and not captured."""

    name: str


@dataclass(frozen=True)
class Sequence:
    """Items one after the other."""

    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Choice:
    """One of several branches."""

    options: tuple[Expr, ...]


@dataclass(frozen=True)
class Repeat:
    """An item ``least`` .. ``most`` times (``most`` None: unbounded)."""

    item: Expr
    least: int
    most: int | None


Expr: TypeAlias = Literal | Column | Terminal | Sequence | Choice | Repeat


@dataclass(frozen=True)
class TerminalDef:
    """A named character pattern. ``dtype`` is one of int, float, str, ints, strs."""

    name: str
    pattern: str
    dtype: str
    origin: str


@dataclass(frozen=True)
class ColumnDef:
    """What may stand for a column: an expression without columns, and its type.

    ``column`` is the column of the table: another than ``name`` where this is a second notation of it.
    """

    name: str
    expr: Expr
    dtype: str
    origin: str
    column: str


@dataclass(frozen=True)
class Message:
    """A message rule: name, expression, directives, the file it stands in, and what the message means."""

    name: str
    expr: Expr
    origin: str
    directives: Mapping[str, str] = field(default_factory=dict)
    meaning: Meaning | None = None

    @property
    def literals(self) -> tuple[str | None, ...] | None:
        """The outermost items, texts as they are and None for all else, where they are known without parsing and the
        first is text."""
        return None

    @property
    def table(self) -> str | None:
        """The table that rows of this message go to; none for those that are counted only (``table: none``)."""
        named = self.directives.get("table")
        return None if named == "none" else named

    @property
    def aliases(self) -> tuple[str, ...]:
        """Older names of the message, which are understood for one release."""
        return tuple(name.strip() for name in self.directives.get("alias", "").split(",") if name.strip())

    @property
    def headless(self) -> bool:
        """Whether the wording is distinctive enough to be taken without a head."""
        return self.directives.get("headless", "no") != "no"

    @property
    def last_resort(self) -> bool:
        """Whether it is taken only where no other rule is (``headless: last``): the speaker is known, not the words."""
        return self.directives.get("headless") == "last"

    @property
    def constants(self) -> dict[str, str]:
        """Columns with a fixed value (``set`` directive)."""
        pairs = (p.split("=", 1) for p in self.directives.get("set", "").split(",") if "=" in p)
        return {key.strip(): value.strip() for key, value in pairs}


class LazyMessage(Message):
    """A message whose expression, meaning and literals are found when asked for."""

    def __init__(
        self,
        name: str,
        parse: Callable[[], Expr],
        meaning: Callable[[], Meaning | None],
        origin: str,
        directives: Mapping[str, str],
        literals: Callable[[], tuple[str | None, ...] | None],
    ) -> None:
        self.__dict__.update(
            name=name, origin=origin, directives=directives, _literals=literals, _parse=parse, _mean=meaning
        )

    @property
    def literals(self) -> tuple[str | None, ...] | None:
        """See :class:`Message`."""
        return self._literals()  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def expr(self) -> Expr:
        """The parsed expression. Raises GrammarError: syntax outside the subset, an unknown name."""
        return self._parse()  # type: ignore[attr-defined,no-any-return]

    @cached_property
    def meaning(self) -> Meaning | None:
        """What the message means. Raises GrammarError: a case that cannot be read, or a diagnosis without a role."""
        return self._mean()  # type: ignore[attr-defined,no-any-return]


@dataclass(frozen=True)
class Grammar:
    """All files together. ``digest`` is a hash of their text."""

    terminals: Mapping[str, TerminalDef]
    columns: Mapping[str, ColumnDef]
    fragments: Mapping[str, Expr]
    messages: Mapping[str, Message]
    digest: str
    sources: Mapping[str, str]

    @cached_property
    def renamed(self) -> Mapping[str, str]:
        """Names of messages by their older names."""
        return {old: message.name for message in self.messages.values() for old in message.aliases}


def inside(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that one is put together from, in order."""
    if isinstance(expr, Sequence | Choice):
        return expr.items if isinstance(expr, Sequence) else expr.options
    return (expr.item,) if isinstance(expr, Repeat) else ()


def columns_of(expr: Expr) -> Iterator[str]:
    """Names of the captured columns (the notations that stand there) in order of appearance."""
    if isinstance(expr, Column):
        yield expr.name
    for part in inside(expr):
        yield from columns_of(part)


_LABEL = late.compiled(r"([A-Za-z_][A-Za-z0-9_]*)(?:=| ?: ?| )\(?(?:0x)?$")
_NO_LABELS = frozenset(
    ("to", "of", "with", "is", "are", "but", "only", "at", "on", "for", "in", "and", "got", "from", "than", "not")
)


def labels_of(expr: Expr) -> frozenset[str]:
    """The words in front of values that a message has and no column takes: ``size`` of ``"size " INT``."""
    found = set[str]().union(*map(labels_of, inside(expr)))
    if isinstance(expr, Sequence):
        for before, item in zip(expr.items, expr.items[1:], strict=False):
            bare = item.options[0] if isinstance(item, Choice) else item
            label = _LABEL.search(before.text) if isinstance(before, Literal) else None
            if label and isinstance(bare, Terminal) and label[1] not in _NO_LABELS:
                found.add(label[1])
    return frozenset(found)


def sequence(items: tuple[Expr, ...]) -> Expr:
    """A sequence, flattened and with neighbouring literals joined."""
    flat: list[Expr] = []
    for item in items:
        parts = item.items if isinstance(item, Sequence) else (item,)
        for part in parts:
            last = flat[-1] if flat else None
            if isinstance(part, Literal) and isinstance(last, Literal):
                flat[-1] = Literal(last.text + part.text)
            else:
                flat.append(part)
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))

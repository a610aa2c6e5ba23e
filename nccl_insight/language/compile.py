"""Rule -> regular expression, with the determinism checks of docs/grammar.md on the way.

The pattern is common ground of Python's ``re`` and Rust's ``regex`` (polars). A string column that could
swallow the literal behind it is matched lazily and *guarded*: rows whose value holds that literal are
rejected afterwards, which is what "ends at the first occurrence" means.
"""

import re
from collections.abc import Collection
from itertools import combinations
from typing import Final, NamedTuple

from nccl_insight.base.data import dataclass
from nccl_insight.base.errors import GrammarError
from nccl_insight.language.starts import Chars, End, Lit, Start, Starts, leaves, may_start, show, told_apart
from nccl_insight.language.syntax import Choice, Column, Expr, Grammar, Literal, Message, Repeat, Sequence, Terminal

_META: Final = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")
_ONE_CLASS: Final = re.compile(r"\[(?:[^\]\\]|\\.)+\]\+")
_LAZY_CLASS: Final = re.compile(r"(\[(?:[^\]\\]|\\.)+\])\+\?\)")


@dataclass(frozen=True)
class Guard:
    """``group`` must not hold ``literal`` (counting what would straddle the end of the value).

    ``notation`` is the name that stands in the rule there.
    """

    group: str
    literal: str
    notation: str

    def holds(self, value: str) -> bool:
        """Whether a captured value keeps the promise."""
        return self.literal not in value + self.literal[:-1]


@dataclass(frozen=True)
class Compiled:
    """A message rule ready to run.

    ``pattern`` matches the whole text of a message. ``head_pattern`` matches its first line alone (rules that
    span lines). ``columns`` are the captured columns and their types; ``groups`` the columns that the groups of the
    pattern fill, in order: a column may stand in several branches, of which one is taken. ``prefixes`` are the
    literals that the text can start with (empty: it starts with a value). ``required`` is a literal that occurs in
    the first line of every such text.
    """

    message: Message
    pattern: str
    head_pattern: str | None
    columns: tuple[tuple[str, str], ...]
    groups: tuple[str, ...]
    guards: tuple[Guard, ...]
    prefixes: tuple[str, ...]
    required: str
    weight: int


def group_name(column: str, times: int) -> str:
    """The name of a column's group in a pattern that names the column ``times`` times before."""
    return f"{column}__{times + 1}" if times else column


def escape(text: str) -> str:
    """Literal text as a pattern that Python and Rust read alike."""
    return _META.sub(r"\\\g<0>", text).replace("\n", r"\n").replace("\t", r"\t")


class _Compiler:
    """One pass over a rule; collects problems instead of stopping at the first."""

    def __init__(self, grammar: Grammar, blanks: bool) -> None:
        self._grammar = grammar
        self._starts = Starts(grammar)
        self._blanks = blanks
        self.problems: list[str] = []
        self.guards: list[Guard] = []
        self.columns: dict[str, str] = {}
        self.groups: list[str] = []
        # Columns on the way through the rule so far, and how each notation ends wherever it stands.
        self._passed: frozenset[str] = frozenset()
        self._ends: dict[str, tuple[str, ...]] = {}

    def emit(self, expr: Expr, follow: tuple[Expr, ...], captured: bool = True) -> str:
        """The pattern of an expression that ``follow`` stands behind."""
        if isinstance(expr, Literal):
            return self._literal(expr.text)
        if isinstance(expr, Sequence):
            parts = [self.emit(item, (*expr.items[i + 1 :], *follow), captured) for i, item in enumerate(expr.items)]
            return "".join(parts)
        if isinstance(expr, Choice):
            return self._choice(expr, follow, captured)
        if isinstance(expr, Repeat):
            if expr.least == 0 or expr.most is None:
                self._apart(
                    self._starts.starts((expr.item,)), self._starts.starts(follow), "an optional and what follows it"
                )
            again = (expr, *follow) if expr.most is None else follow
            suffix = "?" if expr.most == 1 else "+" if expr.least else "*"
            count = len(self.groups)
            body = self.emit(expr.item, again, captured)
            if expr.most is None and len(self.groups) > count:
                self.problems.append(f"column {self.groups[-1]} stands in a repeat; use a list column")
            return f"(?:{body}){suffix}"
        if isinstance(expr, Column):
            return self._column(expr, follow)
        pattern = self._grammar.terminals[expr.name].pattern
        return self._value(expr, pattern, self._grammar.terminals[expr.name].dtype, follow, None)

    def _choice(self, choice: Choice, follow: tuple[Expr, ...], captured: bool) -> str:
        for one, other in combinations([self._starts.starts((o, *follow)) for o in choice.options], 2):
            self._apart(one, other, "branches")
        before, after = self._passed, self._passed
        emitted: list[str] = []
        for option in choice.options:
            self._passed = before
            emitted.append(self.emit(option, follow, captured))
            after |= self._passed
        self._passed = after
        # Rust's engine captures in one pass only where no two branches begin alike.
        shared = "" if self._blanks else escape(_shared([_lead(option) for option in choice.options]))
        return f"{shared}(?:{'|'.join(branch[len(shared) :] for branch in emitted)})"

    def _literal(self, text: str) -> str:
        if not self._blanks:
            return escape(text)
        return re.sub(" +", " ", escape(text))

    def _column(self, column: Column, follow: tuple[Expr, ...]) -> str:
        definition = self._grammar.columns[column.name]
        name = definition.column
        if name in self._passed:
            self.problems.append(f"column {name} stands twice")
        self._passed |= {name}
        self.columns[name] = definition.dtype
        group = group_name(name, self.groups.count(name))
        self.groups.append(name)
        inner = definition.expr
        if isinstance(inner, Terminal):
            terminal = self._grammar.terminals[inner.name]
            count = len(self.guards)
            pattern = self._value(inner, terminal.pattern, terminal.dtype, follow, (group, column.name))
            ends = tuple(guard.literal for guard in self.guards[count:])
            if self._ends.setdefault(column.name, ends) != ends:
                self.problems.append(f"{column.name} ends before different texts; make it two notations")
        else:
            pattern = self.emit(inner, follow, False)
        return f"(?P<{group}>{pattern})"

    def _value(
        self, terminal: Terminal, pattern: str, dtype: str, follow: tuple[Expr, ...], place: tuple[str, str] | None
    ) -> str:
        """``place``: the group and the notation of a captured value."""
        shown = place[1] if place else terminal.name
        own = self._starts.sets(terminal)
        guarded: list[str] = []
        for start, rest in self._starts.openings(follow):
            if isinstance(start, End) or (isinstance(start, Lit) and not set(start.text) <= own.all):
                continue
            if isinstance(start, Chars):
                if start.first & own.all:
                    clash = min(start.first & own.all)
                    self.problems.append(f"{shown}: the value behind it may start with {clash!r}")
                continue
            nexts = self._starts.starts(rest)
            if all(isinstance(n, End) for n in nexts):
                continue
            if dtype == "str":
                guarded.append(start.text)
            elif any(may_start(n, own.all) for n in nexts):
                self.problems.append(f"{shown}: could swallow {start.text!r} behind it")
        if not guarded:
            return f"(?:{pattern})" if "|" in pattern else pattern
        if place is None or not _ONE_CLASS.fullmatch(pattern) or len(set(guarded)) > 1:
            self.problems.append(f"{shown}: cannot tell where it ends before {guarded!r}")
            return pattern
        self.guards.append(Guard(place[0], guarded[0], place[1]))
        return pattern + "?"

    def _apart(self, one: list[Start], other: list[Start], what: str) -> None:
        for a in one:
            for b in other:
                if not told_apart(a, b):
                    self.problems.append(f"{what} cannot be told apart: {show(a)} and {show(b)}")
                    return


def _trimmed(expr: Expr) -> Expr:
    """Trailing blanks of a message are removed before matching, so they go from the rule too."""
    if isinstance(expr, Literal):
        return Literal(expr.text.rstrip() or expr.text)
    if isinstance(expr, Sequence) and isinstance(expr.items[-1], Literal):
        last = expr.items[-1].text.rstrip()
        return Sequence((*expr.items[:-1], Literal(last))) if last else Sequence(expr.items[:-1])
    return expr


def _first_line(expr: Expr) -> Expr | None:
    """The part before the first line break of a rule that spans lines."""
    items = expr.items if isinstance(expr, Sequence) else (expr,)
    for index, item in enumerate(items):
        if isinstance(item, Literal) and "\n" in item.text:
            head = item.text.split("\n", 1)[0].rstrip()
            kept = (*items[:index], Literal(head)) if head else items[:index]
            return Sequence(kept) if len(kept) > 1 else kept[0]
        if any(isinstance(leaf, Literal) and "\n" in leaf.text for leaf in leaves(item)):
            return Sequence(items[:index]) if index > 1 else items[0]
    return None


def _weight(expr: Expr) -> int:
    items = expr.items if isinstance(expr, Sequence) else (expr,)
    return sum(len(i.text) for i in items if isinstance(i, Literal))


def _literal_prefixes(starts: list[Start]) -> tuple[str, ...]:
    if not all(isinstance(s, Lit) for s in starts):
        return ()
    return tuple(sorted({s.text.split("\n", 1)[0] for s in starts if isinstance(s, Lit)}))


def _required(expr: Expr) -> str:
    """The longest literal of the first line, which a text of the rule has also where its other lines are missing."""
    expr = _first_line(expr) or expr
    items = expr.items if isinstance(expr, Sequence) else (expr,)
    return max((i.text for i in items if isinstance(i, Literal)), key=len, default="")


def check(grammar: Grammar, message: Message) -> list[str]:
    """Breaches of the determinism rules, in words for the author; empty when there is none."""
    compiler = _Compiler(grammar, blanks=False)
    try:
        compiler.emit(_trimmed(message.expr), ())
    except GrammarError as error:
        return [str(error)]
    return compiler.problems


def compile_message(grammar: Grammar, message: Message, blanks: bool = False) -> Compiled:
    """Compiles one rule. ``blanks``: runs of blanks in literals count as one (for text that lost its spacing).

    Raises GrammarError: the rule breaks the determinism rules.
    """
    compiler = _Compiler(grammar, blanks)
    expr = _trimmed(message.expr)
    pattern = compiler.emit(expr, ())
    if compiler.problems:
        raise GrammarError(f"{message.origin} ({message.name}): {compiler.problems[0]}")
    first = _first_line(expr)
    head = _Compiler(grammar, blanks).emit(first, ()) if first is not None else None
    return Compiled(
        message=message,
        pattern=pattern,
        head_pattern=head,
        columns=tuple(compiler.columns.items()),
        groups=tuple(compiler.groups),
        guards=tuple(compiler.guards),
        prefixes=_literal_prefixes(Starts(grammar).starts((expr,))),
        required=_required(expr),
        weight=_weight(expr),
    )


def _lead(expr: Expr) -> str:
    """The literal that an expression begins with."""
    first = expr.items[0] if isinstance(expr, Sequence) and expr.items else expr
    return first.text if isinstance(first, Literal) else ""


def _shared(texts: Collection[str]) -> str:
    """What all texts begin with."""
    least, greatest = min(texts), max(texts)
    return next((least[:n] for n, sign in enumerate(least) if not greatest.startswith(sign, n)), least)


def python_pattern(pattern: str, guards: tuple[Guard, ...], blanks: bool = False) -> str:
    """The pattern for Python's engine, with the guards built in: a guarded value stops at its literal.

    Python backtracks; without this a long text that repeats the literal costs quadratic time. Rust's engine
    is linear and has no look-ahead, so the portable pattern stays as it is.
    """
    for guard in guards:
        literal = re.sub(" +", " ", guard.literal) if blanks else guard.literal
        opening = f"(?P<{guard.group}>"
        start = pattern.find(opening) + len(opening)
        value = _LAZY_CLASS.match(pattern, start) if start >= len(opening) else None
        if value is not None:
            guarded = f"(?:(?!{escape(literal)}){value[1]})+)"
            pattern = pattern[:start] + guarded + pattern[value.end() :]
    return pattern


class Outline(NamedTuple):
    """A message for the index: literals that its texts can start with, one that all have in their first line, how
    specific it is, and whether it may stand without a head."""

    prefixes: tuple[str, ...]
    required: str
    weight: int
    headless: bool


def outline(grammar: Grammar, message: Message) -> Outline:
    """Prefixes, required literal and weight of a rule without compiling it (cheap, for the index)."""
    literals = message.literals
    if literals is not None:
        # The outline from the outermost items of a rule of one line that begins with text.
        texts = [text for text in literals if text is not None]
        if literals[-1] is not None:
            last = texts[-1].rstrip()
            texts[-1] = last if last or len(literals) > 1 else texts[-1]
        prefixes, required, weight = (texts[0],), max(texts, key=len), sum(map(len, texts))
        return Outline(prefixes, required, -1 if message.last_resort else weight, message.headless)
    expr = _trimmed(message.expr)
    starts = Starts(grammar).starts((expr,))
    weight = -1 if message.last_resort else _weight(expr)
    return Outline(_literal_prefixes(starts), _required(expr), weight, message.headless)


def pattern_of(grammar: Grammar, items: tuple[Expr, ...]) -> str:
    """The pattern of the first items of a rule, for showing how far a text follows it."""
    return _Compiler(grammar, False).emit(Sequence(items), ())

"""Parser of the bodies of definitions: the subset of lark's syntax that docs/grammar.md allows."""

from __future__ import annotations

import ast
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise

from nccl_insight.base import late
from nccl_insight.base.errors import GrammarError
from nccl_insight.language.definitions import Definition
from nccl_insight.language.syntax import Choice, Column, Expr, Literal, Repeat, Terminal, sequence

# A string, a comment, a name, an operator; the last branch is what none of them is.
_TOKEN = late.compiled(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|_?[A-Za-z][A-Za-z0-9_]*|[()\[\]|?*+]|[^\s]')
_SUFFIXES = frozenset("?*+")
_PLAIN = late.compiled(r'"[^"\\]*"')


def tokens_of(definition: Definition) -> list[str]:
    """Tokens of a body, without comments."""
    found = _TOKEN.findall(definition.body)
    if "//" in definition.body:
        found = [t for t in found if not t.startswith("//")]
    return found


def _text_of(string: str) -> str:
    """The text of a string token."""
    return string[1:-1] if _PLAIN.fullmatch(string) else str(ast.literal_eval(string))


class Parser:
    """Recursive descent over one definition's body."""

    def __init__(self, definition: Definition, columns: Container[str], terminals: Container[str]) -> None:
        self._where = f"{definition.where} ({definition.name})"
        self._columns = columns
        self._terminals = terminals
        self._tokens = [*tokens_of(definition), ""]
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


def outer_literals(tokens: Sequence[str]) -> tuple[str | None, ...] | None:
    """The outermost items of a body that begins with text: literals joined, None for all else.

    None where that cannot be told from the tokens alone (branches, shared pieces and groups without suffix).
    """
    items: list[str | None] = []
    depth = 0
    branches = False
    for token, follows in pairwise([*tokens, ""]):
        if token in {"(", "["}:
            depth += 1
            branches = branches and depth > 1
        elif token in {")", "]"}:
            depth -= 1
            if depth == 0:
                if token == ")" and not branches and follows not in _SUFFIXES:
                    return None
                items.append(None)
        elif token == "|" and depth:
            branches |= depth == 1
        elif depth or token in _SUFFIXES:
            continue
        elif token[0] in "_|":
            return None
        elif token[0] != '"' or follows in _SUFFIXES:
            items.append(None)
        elif items and items[-1] is not None:
            items[-1] += _text_of(token)
        else:
            items.append(_text_of(token))
    return tuple(items) if items and items[0] is not None else None


def expanded(expr: Expr, fragments: Mapping[str, Expr], where: str) -> Expr:
    """The expression with shared pieces put in their place; ``fragments`` are expanded themselves.

    Raises GrammarError: a shared piece does not exist; ``where`` names the rule that wants it.
    """
    if isinstance(expr, Column):
        if not expr.name.startswith("_"):
            return expr
        if expr.name not in fragments:
            raise GrammarError(f"{where}: no shared piece named {expr.name}")
        return fragments[expr.name]
    if isinstance(expr, Literal | Terminal):
        return expr
    if isinstance(expr, Choice):
        return Choice(tuple(expanded(o, fragments, where) for o in expr.options))
    if isinstance(expr, Repeat):
        return Repeat(expanded(expr.item, fragments, where), expr.least, expr.most)
    return sequence(tuple(expanded(i, fragments, where) for i in expr.items))

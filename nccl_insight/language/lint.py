"""Checks of the whole grammar: determinism, portability, names."""

from __future__ import annotations

from dataclasses import dataclass

from nccl_insight.errors import GrammarError
from nccl_insight.language.charset import charsets
from nccl_insight.language.compile import check
from nccl_insight.language.syntax import Grammar


@dataclass(frozen=True)
class Problem:
    """One breach: where (file:line), which definition, what."""

    origin: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.name}: {self.text}"


def lint(grammar: Grammar) -> list[Problem]:
    """Every breach of docs/grammar.md in a grammar, in file order."""
    problems: list[Problem] = []
    for terminal in grammar.terminals.values():
        try:
            sets = charsets(terminal.pattern)
        except GrammarError as error:
            problems.append(Problem(terminal.origin, terminal.name, str(error)))
            continue
        if sets.nullable:
            problems.append(Problem(terminal.origin, terminal.name, "may be empty; use + instead of *"))
    broken = {p.name for p in problems}
    if broken:
        return problems
    for message in grammar.messages.values():
        problems += [Problem(message.origin, message.name, text) for text in check(grammar, message)]
    return problems

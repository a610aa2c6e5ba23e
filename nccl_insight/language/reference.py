"""lark as the reference engine: the same rule, read by lark itself and parsed with Earley.

Slow (milliseconds a line) and independent of the compiler; used by tests and ``grammar explain-line``. What it
takes over from the compiler is only where a guarded string column ends.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby

from lark import Lark, Token, Tree, UnexpectedInput

from nccl_insight.language.compile import Compiled, compile_message
from nccl_insight.language.definitions import definitions
from nccl_insight.language.syntax import Grammar

_WORD = re.compile(r'"(?:[^"\\\n]|\\.)*"|/(?:[^/\\\n]|\\.)+/|//[^\n]*|(?P<name>_?[A-Za-z][A-Za-z0-9_]*)')


class Reference:
    """Earley parsers for single rules of a grammar, built when first needed."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._bodies = {d.name: d.body for name, text in grammar.sources.items() for d in definitions(name, text)}
        self._parsers: dict[str, Lark] = {}

    def _names(self, name: str, seen: set[str]) -> Iterator[str]:
        if name in seen:
            return
        seen.add(name)
        yield name
        for match in _WORD.finditer(self._bodies[name]):
            if match["name"] and match["name"] in self._bodies:
                yield from self._names(match["name"], seen)

    def source(self, rule: str) -> str:
        """The rule with everything it needs as one lark grammar, verbatim except for guarded columns."""
        compiled = compile_message(self._grammar, self._grammar.messages[rule])
        guards = {g.notation: g.literal for g in compiled.guards}
        lines = [f"start: {rule}"]
        for name in self._names(rule, set()):
            body = " ".join(line for line in self._bodies[name].splitlines() if not line.strip().startswith("//"))
            if name in guards:
                terminal = self._grammar.terminals[body.strip()]
                inner = re.sub(r"(?<!\\)/", r"\\/", terminal.pattern.removesuffix("+"))
                ahead = re.escape(guards[name]).replace("/", "\\/").replace("\n", "\\n")
                lines.append(f"{name}: GUARDED_{name.upper()}")
                lines.append(f"GUARDED_{name.upper()}: /(?:(?!{ahead}){inner})+/")
            else:
                lines.append(f"{name}: {body}")
        return "\n".join(lines) + "\n"

    def parser(self, rule: str) -> Lark:
        """lark's parser of one rule."""
        if rule not in self._parsers:
            self._parsers[rule] = Lark(
                self.source(rule), parser="earley", lexer="dynamic_complete", ambiguity="explicit",
                keep_all_tokens=True, maybe_placeholders=False,
            )  # fmt: skip
        return self._parsers[rule]

    def tree(self, rule: str, text: str) -> Tree[Token] | None:
        """What lark makes of a text, None when it rejects it."""
        with suppress(UnexpectedInput):
            return self.parser(rule).parse(text)
        return None

    def pieces(self, rule: str, text: str) -> list[tuple[str | None, str]] | None:
        """The text cut as lark reads it: what each column takes, and the words between (column None)."""
        tree = self.tree(rule, text)
        if tree is None:
            return None
        found: list[tuple[str | None, str]] = []
        for column, group in groupby(_pieces(tree, self._grammar), key=lambda piece: piece[0]):
            texts = [text for _, text in group]
            found += [(column, text) for text in texts] if column else [(None, "".join(texts))]
        return found


def _pieces(tree: Tree[Token], grammar: Grammar) -> Iterator[tuple[str | None, str]]:
    for child in tree.children[:1] if tree.data == "_ambig" else tree.children:
        if not isinstance(child, Tree):
            yield None, str(child)
        elif str(child.data) in grammar.columns:
            yield grammar.columns[str(child.data)].column, text_of(child)
        else:
            yield from _pieces(child, grammar)


def trailing_blanks(compiled: Compiled) -> str:
    """Blanks at the end of a rule, which the compiler takes off (they are removed from the log's lines too)."""
    expr = compiled.message.expr
    last = getattr(expr, "items", (expr,))[-1]
    text = getattr(last, "text", "")
    return text[len(text.rstrip()) :] if text.strip() else ""


def text_of(node: Tree[Token]) -> str:
    """The text that a node stands for."""
    return "".join(str(t) for t in node.scan_values(lambda v: isinstance(v, Token)))

"""Shell text as simple commands, each with the blocks around it. Survives unbalanced text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from nccl_insight.advise.settings.lint.words import Token, tokenize
from nccl_insight.base.data import dataclass, field

_OPENERS = {
    "sh": frozenset({"if", "for", "while", "until", "case", "select"}),
    "csh": frozenset({"if", "foreach", "while", "switch"}),
    "fish": frozenset({"if", "for", "while", "switch", "begin", "function"}),
}
# What ends a block of which kinds; of any where none are named.
_BRACE = {"}": "{"}
_CLOSERS: Mapping[str, Mapping[str, str]] = {
    "sh": {"fi": "if", "done": "for while until select", "esac": "case", **_BRACE},
    "csh": {**dict.fromkeys(("endif", "end", "endsw"), ""), **_BRACE},
    "fish": {"end": "", **_BRACE},
}
_FILLERS = frozenset({"then", "do", "!", "time", "exec", "nohup", "command", "builtin", "and", "or", "not"})
_CONDITIONS = frozenset({"if", "while", "until", "elif"})
_BEFORE_COMMANDS = _CONDITIONS | _FILLERS | {"else", "{"}
_SEPARATORS = frozenset({";", "&", "&&", "||", "|", "|&", "(", ")", ";;"})
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=")
# Blocks within blocks that are looked at: each command asks all that are open around it.
_DEEPEST = 50
_MOST_SAID = 9
_NEVER = re.compile(r"false|\[\[? (?:0 (?:-eq|=|==) 1|1 (?:-eq|=|==) 0|0 -gt 0) \]\]?|\(\( ?0 ?\)\)|\(0\)|0")


@dataclass(frozen=True)
class Body:
    """A here-document. ``quoted``: the shell leaves its text as it is."""

    text: str
    line: int
    quoted: bool


@dataclass
class Command:
    """Words of a simple command, what is fed to it, where it writes, and the blocks around it.

    ``elements``: those of arrays that it assigns, or of the list of a loop.
    """

    words: list[Token]
    elements: list[Token] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    conditional: bool = False
    dead: bool = False
    function: str = ""
    subshell: int = 0
    loop: str = ""
    pipe: Command | None = None


@dataclass
class _Block:
    kind: str
    conditional: bool = False
    dead: bool = False
    function: str = ""
    subshell: int = 0


class _Reader:
    def __init__(self, dialect: str, comment: Callable[[Token], None]) -> None:
        self.dialect, self.comment = dialect, comment
        self.blocks: list[_Block] = []
        self.found: list[Command] = []
        self.current = Command([])
        self.waiting: list[tuple[Command, bool]] = []
        self.chained = False
        self.redirect = ""
        self.subshells = 0
        self.ended = False
        self.piped: Command | None = None
        self.naming = ""
        self.array = False

    def take(self, token: Token) -> None:
        if self.array:
            if token.kind == "word":
                self.current.elements.append(token)
            self.array = token.kind != "op" or token.text != ")"
        elif token.kind == "op" and token.text == "(" and self.assigns():
            self.array = True
        elif token.kind == "heredoc":
            if self.waiting:
                command, quoted = self.waiting.pop(0)
                command.bodies.append(Body(token.text, token.line, quoted))
        elif token.kind == "comment":
            self.comment(token)
        elif token.kind == "newline" or (token.kind == "op" and token.text in _SEPARATORS):
            self.separate(token)
        elif token.kind == "op":
            if self.current.words and self.current.words[-1].text.isdigit():
                self.current.words.pop()
            self.redirect = token.text
        elif self.redirect:
            if self.redirect in {"<<", "<<-"}:
                self.waiting.append((self.current, re.search(r"['\"\\]", token.text) is not None))
            elif ">" in self.redirect and not token.text.isdigit():
                self.current.targets.append(token.text)
            self.redirect = ""
        else:
            self.current.words.append(token)

    def assigns(self) -> bool:
        """Whether the word before ``(`` is ``NAME=``, so an array follows."""
        words = self.current.words
        return self.dialect == "sh" and bool(words) and _ARRAY.fullmatch(words[-1].text) is not None

    def separate(self, token: Token) -> None:
        text = token.text
        self.redirect = ""
        words = self.current.words
        if text in "()" and self.dialect == "csh":
            return  # a condition: its words belong to the command
        if text == "(":
            if words and words[-1].text in _BEFORE_COMMANDS:
                self.end_command()
                words = self.current.words
            elif len(words) == 1:  # NAME ( ) {  : a function
                self.naming, self.current = words[0].text, Command([])
                self.open(_Block("()"))
                return
            if not words and not self.naming:
                self.subshells += 1
                self.open(_Block("(", self.chained, subshell=self.subshells))
                return
        before = len(words)
        self.end_command()
        if text == ")":
            if self.blocks and self.blocks[-1].kind in {"(", "()"}:
                self.blocks.pop()
        elif text in {"&&", "||"}:
            self.chained = True
        elif text == "\n":
            self.chained = self.chained and not before
        else:
            self.chained = False
        if text in {"|", "|&"} and self.found:
            self.piped = self.found[-1]

    def end_command(self) -> None:
        command, self.current = self.current, Command([])
        words = self.blocks_of(command)
        if not words and not command.loop:
            return
        command.words = words
        command.conditional = self.chained or any(b.conditional for b in self.blocks)
        command.dead = self.ended or any(b.dead for b in self.blocks)
        command.function = next((b.function for b in self.blocks if b.function), "")
        command.subshell = next((b.subshell for b in reversed(self.blocks) if b.subshell), 0)
        if self.piped is not None:
            self.piped.pipe, self.piped = command, None
        self.found.append(command)
        if words and words[0].text == "exit" and not (command.conditional or command.function or command.subshell):
            self.ended = True

    def blocks_of(self, command: Command) -> list[Token]:
        """The words behind what opens and closes blocks."""
        words = deque(t for t in command.words if t.text)
        while words:
            first = words[0].text
            if self.naming and first != "{":
                self.naming = ""
            if first == "function" and len(words) > 1:
                name = words[1].text.removesuffix("()")
                if self.dialect == "fish":
                    self.open(_Block("function", function=name))
                    return []
                self.naming = name
                words.popleft()
            elif first in _OPENERS[self.dialect]:
                if (rest := self.opened(command, list(words))) is not None:
                    return rest
            elif first in _CLOSERS[self.dialect]:
                self.close(_CLOSERS[self.dialect][first])
            elif first in {"else", "elif"}:
                self.otherwise()
            elif first == "{":
                self.open(_Block("{", self.chained, function=self.naming))
                self.naming, self.chained = "", False
            elif first not in _FILLERS:
                break
            words.popleft()
        return list(words)

    def opened(self, command: Command, words: list[Token]) -> list[Token] | None:
        """The words that the command runs in the block that it opens; None where they follow its first one."""
        first = words[0].text
        if self.dialect == "csh" and first == "if" and words[-1].text != "then":
            at = next((i for i, w in enumerate(words) if w.text in {"setenv", "set"}), len(words))
            self.chained = True  # if (...) command: may run or not
            return words[at:]
        said = " ".join(w.text for w in words[1:_MOST_SAID]) if first in {"if", "while"} else ""
        self.open(_Block(first, conditional=first != "begin", dead=_NEVER.fullmatch(said) is not None))
        if first in _CONDITIONS or first == "begin":
            return None
        if first in {"for", "foreach", "select"} and len(words) > 1:
            command.loop, command.elements = words[1].text, words[2:]
        return []

    def open(self, block: _Block) -> None:
        if len(self.blocks) < _DEEPEST:
            self.blocks.append(block)

    def close(self, kinds: str) -> None:
        """Ends the innermost block of a kind, and what was left open in it."""
        for index in range(len(self.blocks) - 1, -1, -1):
            if not kinds or self.blocks[index].kind in kinds.split():
                del self.blocks[index:]
                return

    def otherwise(self) -> None:
        for block in reversed(self.blocks):
            if block.kind == "if":
                block.dead = False
                return


def commands(text: str, first_line: int, dialect: str, comment: Callable[[Token], None]) -> Iterator[Command]:
    """Simple commands of shell text in its order; ``comment`` gets the comments (job directives)."""
    reader = _Reader(dialect, comment)
    for token in tokenize(text, first_line):
        reader.take(token)
    reader.separate(Token("newline", "\n", 0))
    yield from reader.found

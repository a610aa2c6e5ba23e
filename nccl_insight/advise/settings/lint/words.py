"""Splits shell text into words, operators and here-documents, and expands what needs no execution."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from nccl_insight.base import texts
from nccl_insight.base.data import dataclass
from nccl_insight.base.words import words

_RE: Final = texts.compiled(__file__)

_OPERATORS = words("&& || |& ;; <<< <<- << >> &>> &> >& <& >| ; & | ( ) < >")
_HEREDOC = frozenset({"<<", "<<-"})
_DEPTH = 8
# Quotes within substitutions within quotes.
_DEEPEST: Final = 50
_ROOM: Final = 1 << 20
_MOST_ARITHMETIC: Final = 500


@dataclass
class Room:
    """How many characters may still be put in for variables, in all of a file: ten lines can ask for gigabytes."""

    left: int = _ROOM


class Known(dict[str, str]):
    """Variables whose values are known. Nothing is known any more when the room is used up."""

    def __init__(self, room: Room, values: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(values)
        self.room = room

    def put(self, name: str) -> str | None:
        """The value, to be put into a text; ``None`` when it is not known or there is no room."""
        value = self.get(name)
        if value is not None:
            self.room.left -= len(value)
        return value if self.room.left >= 0 else None


@dataclass(frozen=True)
class Token:
    """``kind`` is ``word`` (raw text with its quotes), ``op``, ``newline``, ``comment`` or ``heredoc``."""

    kind: str
    text: str
    line: int


def tokenize(text: str, first_line: int = 1) -> Iterator[Token]:
    """The tokens of shell text. Unclosed quotes run to the end of the text; nothing is refused."""
    position, line, size = 0, first_line, len(text)
    waiting: list[tuple[str, bool]] = []
    heredoc_next: str | None = None
    while position < size:
        char = text[position]
        if char == "\n":
            yield Token("newline", "\n", line)
            position, line = position + 1, line + 1
            for delimiter, strip in waiting:
                body, position, lines = _heredoc(text, position, delimiter, strip)
                yield Token("heredoc", body, line)
                line += lines
            waiting = []
            continue
        if char in " \t\r":
            position += 1
            continue
        if text.startswith(("\\\n", "\\\r\n"), position):
            position, line = text.index("\n", position) + 1, line + 1
            continue
        if char == "#":
            end = text.find("\n", position)
            end = size if end < 0 else end
            yield Token("comment", text[position:end], line)
            position = end
            continue
        if text.startswith("((", position) and (end := _arithmetic(text, position)):
            yield Token("word", text[position:end], line)
            line += text.count("\n", position, end)
            position = end
            continue
        operator = next((op for op in _OPERATORS if text.startswith(op, position)), None)
        if operator is not None:
            yield Token("op", operator, line)
            position += len(operator)
            heredoc_next = operator if operator in _HEREDOC else None
            continue
        end = _word_end(text, position)
        raw = text[position:end]
        if heredoc_next is not None:
            waiting.append((re.sub(r"['\"\\]", "", raw), heredoc_next == "<<-"))
            heredoc_next = None
        yield Token("word", raw, line)
        line += raw.count("\n")
        position = end


def _arithmetic(text: str, position: int) -> int:
    """Position after ``(( ... ))``, 0 where two parentheses open something else."""
    piece = text[position : position + _MOST_ARITHMETIC]
    end = _closing(piece, 0)
    return position + end if piece.endswith("))", 0, end) else 0


def substitutions(raw: str) -> Iterator[tuple[int, str]]:
    """Commands whose output the shell puts into a word, each with the number of lines above it."""
    at, quoted = 0, False
    while at < len(raw):
        end = _skip(raw, at)
        if raw[at] == "`" or (raw.startswith("$(", at) and not raw.startswith("$((", at)):
            yield raw.count("\n", 0, at), raw[at + 1 + (raw[at] == "$") : end - 1]
        elif raw[at] == '"' or (quoted and raw[at] == "'"):
            quoted, end = quoted != (raw[at] == '"'), at + 1
        at = end


def _heredoc(text: str, position: int, delimiter: str, strip: bool) -> tuple[str, int, int]:
    start, lines = position, 0
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        row = text[position:end]
        lines += 1
        position = min(end + 1, len(text))
        if (row.strip("\t") if strip else row).rstrip("\r") == delimiter:
            return text[start : position - len(row) - 1], position, lines
    return text[start:], len(text), lines


def _word_end(text: str, position: int) -> int:
    while position < len(text) and text[position] not in " \t\r\n;&|()<>":
        position = _skip(text, position)
    return position


def _skip(text: str, position: int, depth: int = 0) -> int:
    """Position after the character or the quoted or substituted piece that starts here."""
    if depth > _DEEPEST:
        return position + 1
    char, size = text[position], len(text)
    if char == "\\":
        return min(position + 2, size)
    if char in "'`":
        end = text.find(char, position + 1)
        return size if end < 0 else end + 1
    if char == '"':
        position += 1
        while position < size and text[position] != '"':
            position = _skip(text, position, depth + 1) if text[position] in "\\`$" else position + 1
        return min(position + 1, size)
    if char == "$" and position + 1 < size and text[position + 1] in "({":
        return _closing(text, position + 1, depth + 1)
    return position + 1


def _closing(text: str, position: int, deep: int = 0) -> int:
    opening = text[position]
    closing = ")" if opening == "(" else "}"
    depth, size = 0, len(text)
    while position < size:
        char = text[position]
        if char == opening:
            depth += 1
        elif char == closing:
            depth -= 1
            if depth == 0:
                return position + 1
        elif char in "'\"\\`":
            position = _skip(text, position, deep + 1)
            continue
        elif char == "<" and (body := _RE["body"].match(text, position)):
            position = body.end()
            continue
        position += 1
    return size


def expand(raw: str, known: Known, depth: int = 0, *, joined: bool = True) -> tuple[str, bool]:
    """Quotes removed and known variables put in; False where part of it is known only at run time.

    ``${X:-text}`` of an unset X is taken as its default. Nothing is executed. ``joined``: lines that go on in the
    next one become one; not so for text that another shell reads, whose lines have numbers.
    """
    out: list[str] = []
    complete, position, quoted = True, 0, False
    while position < len(raw):
        char = raw[position]
        if char == '"':
            quoted, position = not quoted, position + 1
        elif char == "'" and not quoted:
            end = _skip(raw, position)
            out.append(raw[position + 1 : end].removesuffix("'"))
            position = end
        elif char == "\\":
            following = raw[position + 1 : position + 2]
            if following != "\n" or not joined:
                out.append(following if not quoted or following in '"\\$`' else char + following)
            position += 2
        elif char == "`" or raw.startswith("$(", position):
            end = _skip(raw, position)
            said = _RE["cat"].fullmatch(raw, position, end)
            text = said[3] if said and said[1] else substitute(said[3], known) if said else raw[position:end]
            out.append(text)
            complete = complete and said is not None and (bool(said[1]) or "$" not in text)
            position = end
        elif char == "$":
            piece, whole, position = _variable(raw, position, known, depth)
            out.append(piece)
            complete = complete and whole
        else:
            out.append(char)
            position += 1
    return "".join(out), complete


def _variable(raw: str, position: int, known: Known, depth: int) -> tuple[str, bool, int]:
    if raw.startswith("${", position):
        end = _closing(raw, position + 1)
        match = _RE["parameter"].fullmatch(raw[position + 2 : end - 1])
        if match is not None and depth < _DEPTH:
            name, operator, default = match[1], match[2] or "", match[3] or ""
            if operator.lstrip(":") != "+" and (value := known.put(name)) is not None:
                return value, True, end
            if operator.lstrip(":") in {"-", "="}:
                piece, whole = expand(default, known, depth + 1)
                return piece, whole, end
        return raw[position:end], False, end
    match = _RE["name"].match(raw, position + 1)
    if match is None:
        end = min(position + 2, len(raw))
        return raw[position:end], len(raw) == position + 1, end
    value = known.put(match[0])
    return value if value is not None else f"${match[0]}", value is not None, match.end()


def substitute(text: str, known: Known) -> str:
    """A here-document as the shell fills it in: known variables replaced, everything else as it stands."""

    def filled(match: re.Match[str]) -> str:
        value = known.put(match[1] or match[2])
        return match[0] if value is None else value

    return _RE["filled"].sub(filled, text)


def split_pairs(text: str, separator: str = ",") -> list[tuple[str, str, list[str]]]:
    """``A=1,B=x,y`` as (name, value, what was cut off behind the value); quotes inside protect the separator."""
    pieces, start, quote = list[str](), 0, ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == separator:
            pieces.append(text[start:position])
            start = position + 1
    pieces.append(text[start:])
    pairs: list[tuple[str, str, list[str]]] = []
    for piece in pieces:
        name, equals, value = piece.strip().partition("=")
        if equals and _RE["name"].fullmatch(name):
            pairs.append((name, value.strip("'\""), []))
        elif pairs and piece:
            pairs[-1][2].append(piece)
    return pairs


def logical_lines(text: str, commented: bool = False) -> Iterator[tuple[int, str]]:
    """Number and text of each line, with those that a backslash joins to it.

    ``commented``: lines of a comment are left out, also between joined ones, and blanks may follow a backslash.
    """
    held, start = "", 0
    for number, row in enumerate(text.split("\n"), 1):
        row = row.rstrip("\r")
        if commented and row.lstrip().startswith("#"):
            held += "\\\n" if held else ""
            continue
        start = start or number
        whole = row.rstrip() if commented else row
        if whole.endswith("\\"):
            held += whole + "\n"
            continue
        yield start, held + row
        held, start = "", 0
    if held:
        yield start, held

"""Patterns of Python's engine as one for Rust's, which looks through all lines of a log at once.

What only Python's engine knows (looks around) is left out or becomes a part of the match, and repeats have no upper
bound: the made expression is found wherever a pattern is, in few places besides, and costs a thousandth.
"""

import re
from collections.abc import Iterable
from typing import Final

_TOKENS: Final = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\]){1,500}\]|\(\?<?[=!]|\(\?P<[a-z]+>|\{[0-9]+,[0-9]*\}|.", re.S)
_LOOKS: Final = ("(?=", "(?!", "(?<=", "(?<!")
# What Python's engine takes for letters and blanks, rather more of them, and in a negated class rather fewer.
_ASCII: Final = "0-9A-Za-z_"
_LETTERS: Final = _ASCII + r"\x{80}-\x{10FFFF}"
_BLANKS: Final = r"\s\x1c-\x1f"
_ALONE: Final = {r"\w": f"[{_LETTERS}]", r"\s": f"[{_BLANKS}]", r"\b": r"(?-u:\b)"}
_CLASSES: Final = {r"\w": r"[\w]", r"\S": r"[^\s]"}


def loosened(patterns: Iterable[re.Pattern[str]]) -> str:
    """An expression for Rust's engine that is found in every line, with what follows, in which a match begins.

    It can also be found one character before the match.

    Args:
        patterns: without references to groups.
    """
    made = (f"(?{'i' if p.flags & re.IGNORECASE else ''}:{_loose(_TOKENS.findall(p.pattern))})" for p in patterns)
    return f"(?m)(?:{'|'.join(made)})"


def _loose(tokens: list[str]) -> str:
    made: list[str] = []
    depth = at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token in _LOOKS:
            begin, within = at, 1
            while within:
                within += tokens[at].startswith("(") - (tokens[at] == ")")
                at += 1
            edge = made[-1:] if "<" in token else tokens[at : at + 1]
            if depth == 0 and edge in ([], ["|"]):
                made.append(_look(token, tokens[begin : at - 1]))
            continue
        depth += token.startswith("(") - (token == ")")
        made.append(_token(token))
    return "".join(made)


def _look(token: str, inner: list[str]) -> str:
    """A look around at the edge of a pattern as a part of the match, ``""`` if it cannot be one."""
    if "=" in token:
        return f"(?:{_loose(inner)})"
    one = _CLASSES.get(inner[0], inner[0])
    if len(inner) > 1 or len(one) < len("[x]"):
        return ""
    other = _token(one.replace("[^", "[", 1) if one.startswith("[^") else "[^" + one[1:])
    return f"(?:{'^' if '<' in token else '$'}|{other})"


def _token(token: str) -> str:
    if token.startswith("(?P<"):
        return "("
    if len(token) > 1 and token[0] == "{":
        return re.sub(",[0-9]*", ",", token)
    if len(token) > 1 and token[0] == "[":
        begin = token[: 2 if token[1] == "^" else 1]
        letters, blanks = (_ASCII, r"\s") if begin == "[^" else (_LETTERS, _BLANKS)
        return begin + re.sub(r"(?<!\\)\[", r"\\[", token[len(begin) :]).replace(r"\w", letters).replace(r"\s", blanks)
    return _ALONE.get(token, token)

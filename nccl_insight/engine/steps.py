"""The next step of a finding taken apart: what to look at (check), what to change (fix), what to do in words."""

import re
from dataclasses import replace
from typing import Final

from nccl_insight.base import late, toml
from nccl_insight.base.model import Step

_WORDS: Final = toml.beside(__file__)
_LOOKS: Final = frozenset(_WORDS["looks"])
_CHANGES: Final = frozenset(_WORDS["changes"])
_SHOWS: Final = tuple(_WORDS["shows"])
_SETTING: Final = late.compiled(r"([A-Z][A-Z0-9_]{2,})=")
# Settings that make a run tell more and mend nothing.
_TELLS: Final = frozenset(_WORDS["tells"])
_TRIAL: Final = "if that works"
# Commands that are words, too: "find the late rank first", "ping each host".
_ENGLISH: Final = late.compiled(
    r"(?:find|free|ping|echo|env|stat|export|mount) (?:the|a|an|each|every|all|out|which|what|why|one|memory)\b"
)
# Words behind a command that are no part of it: "(or --ipc=host)", ", or what the line names", " on both hosts".
_REMARK: Final = late.compiled(
    r"\s\((?P<aside>[^()]+)\)(?=$|,)|,?\s(?=(?:or|and|then|if|only|where|on|for|between|shows|in)\s)"
)
_SHIELDED: Final = late.compiled(r"'[^']*'|\"[^\"]*\"|`[^`]*`|<[^>]*>|\$\([^)]*\)|\[[^]]*\]")
_PLACE: Final = late.compiled(r"(on [^:;]{1,60}):\s+(?=\S)")
_COMMENT: Final = late.compiled(r"\s+#\s+")
# Where a comment ends: at a labeled step, or at a semicolon with a command behind it.
_NEXT: Final = late.compiled(r"(?:(?:^|;\s+)(check|fix|then)\b[:,]?|;)\s+")


def steps_of(next_step: str) -> tuple[Step, ...]:
    """The steps in order; a text that is no command is one step ``do``."""
    text = " ".join(next_step.split("\n")).strip()
    if not text:
        return ()
    command, *comment = _COMMENT.split(text, maxsplit=1)
    place = _PLACE.match(command)
    if place and _is_command(command[place.end() :]):
        first, *rest = steps_of(text[place.end() :])
        return (Step(first.label, first.text, first.where or place[1]), *rest)
    if not _is_command(command):
        behind = next((m for m in re.finditer(r";\s+", command) if _is_command(command[m.end() :])), None)
        return (Step("do", text[: behind and behind.start()]), *steps_of(text[behind.end() :] if behind else ""))
    found: list[Step] = []
    for part in _segments(command):
        label = _kind(part)
        if label == "do":
            found.append(Step(label, part))
            continue
        pasted, remark = _remark_apart(part)
        if found and found[-1].label == label and not found[-1].where:
            found[-1] = Step(label, f"{found[-1].text}; {pasted}", remark)
        else:
            found.append(Step(label, pasted, remark))
    where, extra = _from_comment("".join(comment))
    if where:
        found[0] = replace(found[0], where="; ".join(filter(None, (where, found[0].where))))
    return (*(replace(s, label="check") if s.where.startswith(_TRIAL) else s for s in found), *extra)


def _remark_apart(command: str) -> tuple[str, str]:
    """What can be pasted, and the words behind it that explain it; quoted words and placeholders stay."""
    hidden = _SHIELDED.sub(lambda match: "\0" * len(match[0]), command)
    match = _REMARK.search(hidden)
    if match is None or match.start() == 0:
        return command, ""
    if match["aside"] is None:
        return command[: match.start()], command[match.end() :].strip()
    aside, rest = command[slice(*match.span("aside"))], command[match.end() :]
    return command[: match.start()], aside + rest


def _segments(command: str) -> list[str]:
    """Parts between semicolons that stand outside quotes, brackets and backticks."""
    parts, depth, quote, start = [], 0, "", 0
    for at, char in enumerate(command):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == ";" and depth <= 0:
            parts.append(command[start:at])
            start = at + 1
    parts.append(command[start:])
    return [p for part in parts if (p := re.sub(r"^(?:then|or)\s+", "", part.strip()))]


def _first(text: str) -> str:
    return next((word for word in text.split() if word != "sudo"), "")


def _is_command(text: str) -> bool:
    word = _first(_segments(text)[0]) if _segments(text) else ""
    return (word in _LOOKS | _CHANGES and not _ENGLISH.match(text)) or bool(_SETTING.match(word))


def _kind(text: str) -> str:
    word = _first(text)
    if setting := _SETTING.match(word):
        return "check" if setting[1] in _TELLS else "fix"
    if _ENGLISH.match(text) or word not in _LOOKS | _CHANGES:
        return "do"
    return "check" if word in _LOOKS or text.startswith(_SHOWS) else "fix"


def _from_comment(comment: str) -> tuple[str, tuple[Step, ...]]:
    """What the comment says about the first command, and the steps behind it."""
    found = next((m for m in _NEXT.finditer(comment) if m[1] or _is_command(comment[m.end() :])), None)
    if found is None:
        return comment.strip(" ;"), ()
    steps = steps_of(comment[found.end() :].strip(" ;"))
    if found[1] == "fix" and steps and steps[0].is_command:
        steps = (replace(steps[0], label="fix"), *steps[1:])
    return comment[: found.start()].strip(" ;"), steps


def text_of(steps: tuple[Step, ...]) -> str:
    """The steps in one line."""
    return "; ".join(
        f"{s.label}: {s.text}{f' ({s.where})' if s.where else ''}" if s.is_command else s.text for s in steps
    )

"""Lines that are not one clean record: several records on a line, torn and duplicated text, lost heads.

Everything here is Python per line; it only sees the lines that the vectorised path could not take.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Final

from nccl_insight.base import late, texts
from nccl_insight.base.data import dataclass
from nccl_insight.language.catalog import Catalog, Match
from nccl_insight.readers.nccl_log.head import FULL_END, HOST, LEVELS, OPEN_LEVEL
from nccl_insight.readers.nccl_log.likely import TORCH

_RECORD: Final = re.compile(rf"(?<![A-Za-z])NCCL ({OPEN_LEVEL})(?:[ :]|$)")
_FULL_END: Final = late.compiled(FULL_END)
# Before 2.4 the word NCCL is missing: "host:pid:tid [0] INFO text", "host:pid:tid [0] file.cu:12 WARN text".
_OLD: Final = re.compile(r"(?:\[-?[0-9]+\] |\.c[cu]:[0-9]+ )(INFO|WARN) ")
# RCCL writes errors that end the job without the word NCCL: "host:pid:tid [0] [FATAL ERROR]: text".
_FATAL: Final = re.compile(r"(?<=\] )(\[FATAL ERROR\]):(?: |$)")
#: One of these three, as Rust's engine looks for it.
SOME_RECORD: Final = rf"(?:^|[^A-Za-z])NCCL (?:{OPEN_LEVEL})(?:[ :]|$)|{_OLD.pattern}|\] \[FATAL ERROR\]:(?: |$)"
#: A word that stands in each of them, for which the engine looks with vector instructions.
RECORD_WORD: Final = r"NCCL |INFO |WARN |\[FATAL ERROR\]:"
# Looked for at the end of a text only, within the longest head that is one (_HEAD_MOST): searching all of a long text
# for something that ends it would take the square of its length.
_CORE: Final = late.compiled(rf"(?:{HOST}):[0-9]+:[0-9]+(?: \[-?[0-9]+\])?(?: \S+:[0-9]+(?: \([^()\s]*\))?)? ?$")
# A head is shorter than this, also one that names a C++ function as its source.
_HEAD_MOST: Final = 640
_NUMBERS: Final = late.compiled(r":[0-9]{1,20}:[0-9]{1,20} \[-?[0-9]{1,9}\]")
_HOST_BEFORE: Final = late.compiled(rf"(?:{HOST})$")
_HOST_MOST: Final = 255
_TAGS: Final = (
    ("(", late.compiled(r"\([A-Za-z_0-9]+ pid=[0-9]+[^()]*\)")),
    (
        "[",
        late.compiled(
            r"\[[0-9]+,[0-9]+\]<std(?:out|err)>:|\[[A-Za-z]*rank[0-9]+\]:|\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]+\]"
        ),
    ),
)
_STAMP: Final = late.compiled(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{1,30}(?:Z|[+-][0-9:]{1,8})?$")
_STAMP_MOST: Final = 64
_PATTERNS: Final = texts.patterns(__file__)
_PREFIX: Final = late.compiled(_PATTERNS["prefix"])
# A name in front of a line: kubectl's of a pod, Docker Compose's of a container, pdsh's of a host (with a number).
_NAME: Final = late.compiled(_PATTERNS["name"])
# The number of a task, as srun -l puts it in front of each line.
_TASK: Final = late.compiled(r"\s*[0-9]{1,6}:(?= )")
_LABEL_MOST: Final = 300
_LABEL_ENDS: Final = " \t:|>)]"
_WORD: Final = late.compiled(r"\S")


# XLA quotes NCCL's last warning, with `log entry (may be unrelated)` or without, in quotes or behind a colon. The quote
# ends the line, or a stack follows it.
_DATED: Final = late.compiled(r"^.{0,80}?[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9][0-9:.,]+")
_QUOTED: Final = late.compiled(_PATTERNS["quoted"])


@dataclass(frozen=True)
class Piece:
    """One record found on a line. ``head`` is the text in front of its level, ``level`` None for a lost head."""

    line: int
    sub: int
    head: str
    level: str | None
    body: str
    torn: bool = False
    match: Match | None = None


def _untailed(text: str) -> str:
    """The text without what a launcher put in front of the next record: blanks, bars, one tag or time stamp."""
    cut = text.rstrip(" \t\n\r\f\v|>*")
    for mark, tag in _TAGS:
        at = cut.rfind(mark)
        if at >= 0 and tag.fullmatch(cut, at):
            return cut[:at].rstrip(" \t\n\r\f\v|")
    stamp = _STAMP.search(cut, max(0, len(cut) - _STAMP_MOST))
    return cut[: stamp.start()].rstrip(" \t\n\r\f\v|") if stamp else cut


def _head_start(text: str) -> int | None:
    """Where the head ``host:pid:tid [dev]`` begins that ends the text, None when none does."""
    found = _CORE.search(text, max(0, len(text) - _HEAD_MOST))
    return found.start() if found else None


def _embedded(text: str) -> int | None:
    """Where the first head within the text begins, None when there is none."""
    for numbers in _NUMBERS.finditer(text):
        host = _HOST_BEFORE.search(text, max(0, numbers.start() - _HOST_MOST), numbers.start())
        if host:
            return host.start()
    return None


def _cut_body(segment: str) -> tuple[str, str, bool]:
    """Splits the text between two records into the end of the first and the head of the second.

    The flag tells that the second head was glued to the first text, that is: a writer tore the line.
    """
    start = _head_start(segment)
    if start is None:
        return segment, "", True
    before = segment[:start]
    body = _untailed(before)
    glued = bool(body) and body == before
    return body, segment[len(body) :].strip(), glued


def _is_level(found: re.Match[str]) -> bool:
    """Whether the word behind NCCL is a level: one that is known, or any word behind a full head."""
    if found[1] in LEVELS:
        return True
    before = found.string[max(0, found.start() - _HEAD_MOST) : found.start()].rstrip(" ")
    return found[0].endswith(" ") and _FULL_END.search(before) is not None


def split_line(line: int, text: str) -> list[Piece]:
    """The records of a line that holds the word NCCL (or the old form) somewhere; empty when there is none."""
    found = [m for m in _RECORD.finditer(text) if _is_level(m)]
    found = found or [m for m in [_OLD.search(text)] if m] or _fatal(text)
    if not found:
        return []
    pieces: list[Piece] = []
    old = found[0].re is not _RECORD
    head = text[: found[0].start(1) if old else found[0].start()]
    torn = False
    if not old:
        before, rest, _ = _cut_body(head)
        if rest and _embedded(before) is not None:
            head, torn = rest, True
    for index, match in enumerate(found):
        last = index + 1 == len(found)
        segment = text[match.end() :] if last else text[match.end() : found[index + 1].start()]
        body, next_head, glued = (segment, "", False) if last else _cut_body(segment)
        if last:
            embedded = _embedded(body)
            if embedded is not None:
                body, torn = _untailed(body[:embedded]), True
        level = "ERROR" if match.re is _FATAL else match[1]
        pieces.append(Piece(line, len(pieces), head.strip(), level, body.strip(), torn or glued))
        head, torn = next_head, glued
    # A log collector may print a record twice, in two columns.
    return list({(piece.level, piece.body): piece for piece in reversed(pieces)}.values())[::-1]


def _fatal(text: str) -> list[re.Match[str]]:
    """RCCL's fatal errors of a line: behind a full head only, for other programs have the same words."""
    return [
        m
        for m in _FATAL.finditer(text)
        if _FULL_END.search(text[max(0, m.start() - _HEAD_MOST) : m.start()].rstrip(" "))
    ]


def strip_prefix(text: str) -> str:
    """A line without the launcher prefixes that can stand before a text without head."""
    at = 0
    while word := _WORD.search(text, at):
        prefix = _PREFIX.match(text, word.start())
        if prefix is None:
            break
        at = prefix.end()
    return text[at:].strip()


def without_tags(text: str) -> str:
    """A line without the tags of its launcher; blanks behind them stay, where they belong to the text."""
    at = 0
    while prefix := _PREFIX.match(text, at):
        at = prefix.end()
        if text[at : at + 1] == " " and not text[:at].endswith(" "):
            at += 1
    return text[at:]


def stamp(text: str) -> str:
    """What a line begins with, up to its date and time; empty when it has none."""
    found = _DATED.match(text)
    return found[0].rstrip(":.,") if found else ""


def quoted(text: str) -> str | None:
    """NCCL's last warning as XLA quotes it in its own errors; None where a line quotes none."""
    found = _QUOTED.search(text)
    return (found[1] or found[2]).strip() or None if found else None


# Exceptions that a program prints with their own traceback behind them.
_TRACE_BEHIND: Final = "Traceback (most recent call last)"
GLUED_LEAST: Final = 200
_TAG_INSIDE: Final = late.compiled(
    r"(?<!:[0-9]{2})(?<!:[0-9]{2}\]) (?=\([A-Za-z_]\w{0,63} pid=[0-9]{1,9}[^()]{0,80}\) )"
    r"|(?<=[.!\w] )(?=(?:\[rank[0-9]{1,6}\]:)?\[[EW][0-9]{0,4} (?:[0-9:.]{8,18} )?ProcessGroupNCCL\.cpp:[0-9]{1,5}\] )"
)


# What a message leaves of a longer progress bar that it was printed over: ``.11:15:08, 17.35s/it]``.
_BAR_BEHIND: Final = late.compiled(r"(?<=[.!)\]])[0-9:?<]{0,17}, {1,2}[0-9.?]{1,9} ?(?:s/it|it/s)[^\[\]]{0,99}\]\s*$")


def tagged(text: str) -> list[str]:
    """The lines that a long one was put together from, told by how each begins: a launcher's tag, torch's head."""
    several = len(text) > GLUED_LEAST and (" pid=" in text or text.count(TORCH) > 1)
    return _TAG_INSIDE.split(text) if several else [text]


def before_records(text: str) -> str:
    """What a long line holds in front of its first record; empty when that is no more than tags."""
    first = _RECORD.search(text)
    if first is None or first.start() < GLUED_LEAST:
        return ""
    start = _head_start(text[: first.start()])
    return text[: first.start() if start is None else start]


def _bodies(text: str, thrown: bool) -> list[str]:
    """What may be the message of a text that lost its head: without tags and what an exception adds."""
    bare = strip_prefix(text)
    found = [bare, text.strip()]
    if thrown and _TRACE_BEHIND in bare:
        found.append(bare[: bare.find(_TRACE_BEHIND)].rstrip(", "))
    named = _NAME.match(text)
    if named is not None:
        found.append(strip_prefix(text[named.end() :]))
    task = _TASK.match(text)
    if task is not None:  # what follows may look like a tag and be the message's own
        found.append(text[task.end() :].strip().removeprefix("- ").lstrip())
    return list(dict.fromkeys(found))


def match_headless(
    catalog: Catalog, text: str, thrown: bool = False, present: Collection[str] | None = None
) -> tuple[Match, str, int] | None:
    """The rule of a text that lost its head, the text it matched, and where that began in the line.

    ``thrown``: the text is NCCL's own, as part of an exception; then any rule will do. ``present``: those of
    :meth:`Catalog.headless_prefixes` that stand in the text, where the caller knows.
    """
    spare: tuple[Match, str, int] | None = None
    text = _BAR_BEHIND.sub("", text)
    for body in _bodies(text, thrown):
        found = catalog.match(body)
        if found is None:
            continue
        if found.message.last_resort:
            spare = spare or (found, body, text.find(body))
        elif found.message.headless or thrown:
            return found, body, text.find(body)
    if present is None:
        present = [p for p in catalog.headless_prefixes if p in text]
    for name, prefix in catalog.headless if present else ():
        if prefix not in present:
            continue
        at = text.find(prefix, 1)
        if spare is not None and catalog.grammar.messages[name].last_resort:
            continue
        if at > 0 and not (text[at - 1].isalnum() and prefix[0].isalnum()):
            found = catalog.try_rule(name, text[at:].rstrip())
            if found is not None:
                return found, text[at:].rstrip(), at
    return match_unspoken(catalog, text) or spare


def match_unspoken(catalog: Catalog, text: str) -> tuple[Match, str, int] | None:
    """Like :func:`match_headless`, for words of which also NCCL's part that speaks them was lost or changed."""
    for name, body, at in catalog.unspoken(text):
        found = catalog.try_rule(name, body)
        if found is not None:
            return found, body, at
    return None


# What a sentence puts behind a message that it quotes, and in front of it.
_CLOSING: Final = "`\"'\u201d\u2019*_)].,;:!? "
_OPENING: Final = late.compiled('`+|"|\u201c|[*][*]|(?=\\bnccl[A-Z][A-Za-z]{1,40}Error: )')
_QUOTE_LEAST: Final = 24


def match_unclosed(catalog: Catalog, text: str) -> Match | None:
    """The rule of a text but for the marks that close a sentence or a quote behind it."""
    inside = text.partition("`")[0]
    bare = inside.rstrip(_CLOSING)
    return catalog.match(inside) or catalog.match(bare) if bare != text.rstrip() else None


def match_prose(catalog: Catalog, text: str, following: Sequence[str]) -> tuple[Match, str, int] | None:
    """A failure that a sentence quotes, wrapped with it or not: in back-ticks, quotes or bold, or behind the name of a
    result; its words and where they begin. Other messages may be anybody's words."""
    whole = " ".join([text, *(line.strip() for line in following)])
    for mark in _OPENING.finditer(text):
        closing = mark[0].replace("\u201c", "\u201d") or "`"
        said = whole[mark.end() :].partition(closing)[0].strip()
        found = (catalog.match(said) or match_unclosed(catalog, said)) if len(said) >= _QUOTE_LEAST else None
        if found is not None and found.message.meaning is not None:
            return found, said, mark.end()
    return None


# A part that a release added to a message: ` key=value`, with the comma that may stand before it.
_PART: Final = late.compiled(r",? [A-Za-z_][A-Za-z0-9_]*=[^\s,;()=]+(?=[\s,;)]|$)")
_PARTS_MOST: Final = 12


def match_without_part(catalog: Catalog, text: str) -> Match | None:
    """The rule of a text but for one ``key=value`` that no rule knows, or one that the text lacks: what another release
    put in or left out.

    For lines with NCCL's head only, which no rule accepts as they are.
    """
    for found, _ in zip(_PART.finditer(text), range(_PARTS_MOST), strict=False):
        match = catalog.match(text[: found.start()] + text[found.end() :])
        if match is not None:
            return match
    return catalog.match_fewer(text)


def labeled(text: str, label: str) -> tuple[str, str]:
    """A line's launcher label and the rest, where it has the same label as another line up to its numbers."""
    at = _behind(text, label)
    if at is None and _behind(text, label.rstrip()) == len(text):
        return text, ""
    return (text[:at], text[at:]) if at is not None else ("", text)


def untagged(text: str, following: Sequence[str]) -> Iterator[Sequence[str]]:
    """The lines behind a text as they are, behind a launcher's tags, and behind the label that it shares with them."""
    yield following
    if following:
        yield [without_tags(line) for line in following]
        yield unlabeled(text, following)


def unlabeled(text: str, following: Sequence[str]) -> list[str]:
    """The lines behind a text without the label that the first shares with it."""
    label = shared_label(text, following[0])
    return [labeled(line, label)[1] for line in following]


def shared_label(text: str, other: str) -> str:
    """The label with which two lines begin, up to its numbers, as the first has it; empty if there is none."""
    at = end = to = 0
    while at < min(len(text), _LABEL_MOST) and to < len(other):
        if text[at].isdigit() and other[to].isdigit():
            at, to = _past_digits(text, at), _past_digits(other, to)
            continue
        if text[at] != other[to]:
            break
        at, to = at + 1, to + 1
        if text[at - 1] in _LABEL_ENDS:
            end = at
    return text[:end]


def _behind(text: str, label: str) -> int | None:
    """Where a text goes on behind a label, which may have other numbers in it."""
    at = 0
    for number, signs in groupby(label, str.isdigit):
        known = "".join(signs)
        end = _past_digits(text, at) if number else at + len(known)
        if end == at or not (number or text.startswith(known, at)):
            return None
        at = end
    return at


def _past_digits(text: str, at: int) -> int:
    """The end of the digits that begin at a place."""
    while at < len(text) and text[at].isdigit():
        at += 1
    return at


def extend(catalog: Catalog, name: str, body: str, following: Sequence[str]) -> tuple[Match, int] | None:
    """A message of several lines: the longest run of following lines that continues the rule, and its length."""
    # Blanks at the end of the first line are gone; some messages have one there. A web page shows tabs as blanks.
    tabbed = [f"\t{line.lstrip()}" if line.startswith("    ") else line for line in following]
    if tabbed != following and (whole := extend(catalog, name, body, tabbed)) is not None:
        return whole
    for taken in range(len(following), 0, -1):
        for first in (body, f"{body} "):
            found = catalog.try_rule(name, "\n".join([first, *following[:taken]]))
            if found is not None:
                return found, taken
    return None


def rejoin(catalog: Catalog, body: str, following: Sequence[str]) -> tuple[Match, int] | None:
    """A message that was wrapped onto the next lines, joined with and without blanks, and how many it took."""
    for taken in range(1, len(following) + 1):
        for glue in (" ", ""):
            found = catalog.match(glue.join([body, *(text.strip() for text in following[:taken])]))
            if found is not None:
                return found, taken
    return None

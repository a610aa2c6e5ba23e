"""What a pasted line means, and which known messages contain a part of a text.

The one view of a text and not of a run: a line alone makes no tables, so it goes through the grammar and what gives
lines their meaning here. It is a view because reports show what it gives.
"""

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.language.catalog import Catalog, Match, default_catalog
from nccl_insight.language.load import topic_cases
from nccl_insight.language.meanings import Meaning
from nccl_insight.language.syntax import Choice, Expr, Literal, Message, Repeat, Sequence
from nccl_insight.readers.embedded.tracebacks import exception_in
from nccl_insight.readers.nccl_log import recover
from nccl_insight.readers.nccl_log.extract import row_of
from nccl_insight.readers.nccl_log.head import parse_heads
from nccl_insight.tables.normalise.ends import FAILED
from nccl_insight.tables.normalise.help import help_of
from nccl_insight.tables.normalise.meaning import meanings, with_meaning

_LEAST_PART: Final = 4
_WORDINGS: Final = 200


@dataclass(frozen=True)
class Known:
    """A message of the grammar: its name, where it is defined, versions and file that print it (empty: not told).

    ``words``: its fixed words, with a sign where a value stands. ``diagnoses``: all that it can mean.
    """

    name: str
    origin: str
    versions: str
    source: str
    words: str
    diagnoses: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A line without its head: the message that it is, its values, diagnosis (None: nothing is wrong) and role.

    ``help``: what the grammar says of this line in particular (``says``, ``check``, ``where``, ``fix``, ``do``).
    """

    text: str
    level: str | None
    message: Known | None
    values: Mapping[str, object]
    diagnosis: str | None
    role: str | None
    help: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Explained:
    """Lines that were understood, or the messages that contain the text, those that report failures first.

    ``renamed``: the name that the message of this name has now.
    """

    lines: tuple[Line, ...] = ()
    messages: tuple[Known, ...] = ()
    renamed: str | None = None


def explained(text: str) -> Explained | None:
    """What a line of a log means, or which known messages contain a part of a text; None when nothing does.

    Lines may lack their head, and may be followed by the lines that belong to them.
    """
    catalog = default_catalog()
    now = catalog.grammar.renamed.get(text.strip())
    if now is not None:
        return Explained(messages=_containing(catalog, now), renamed=now)
    lines = _told(catalog, text)
    if lines:
        return Explained(lines)
    found = _containing(catalog, text.strip())
    if found:
        return Explained(messages=found)
    raised = _raised(text.strip("\n").split("\n")[0])
    return Explained((raised,)) if raised else None


def means_something(text: str) -> bool:
    """Whether a line has a diagnosis, harmless or not."""
    lines = _told(default_catalog(), text) or (_raised(text.strip("\n").split("\n")[0]),)
    return any(line is not None and line.diagnosis for line in lines)


def _told(catalog: Catalog, text: str) -> tuple[Line, ...]:
    """The lines that a text holds, as far as rules know them."""
    lines = text.strip("\n").split("\n")
    pieces = recover.split_line(1, lines[0].strip())
    if pieces:
        return tuple(_piece(catalog, piece, lines[1:] if piece is pieces[-1] else []) for piece in pieces)
    match = catalog.match(text.strip()) or catalog.match_collapsed(lines[0])
    if (match is None or match.message.last_resort) and (hit := recover.match_headless(catalog, lines[0], thrown=True)):
        match = hit[0]
    return (_line(catalog, match, text.strip(), None, None),) if match is not None else ()


def _raised(text: str) -> Line | None:
    """An exception of a program, by its class and its words; None for others.

    Other lines without NCCL's head that no rule knows are not guessed at: anybody may have printed them.
    """
    name = exception_in(text)
    if name is None:
        return None
    said = text[text.find(name) + len(name) :].lstrip(": ")
    row = pl.DataFrame({"exception": [name], "error_text": [said], "_body": [text], "_level": ["WARN"]})
    meaning = Meaning(FAILED, "root", topic_cases("exception"))
    diagnosis, role = with_meaning(row, meaning).select("diagnosis", "role").row(0)
    given = row.with_columns(pl.lit(text).alias("text"), pl.lit(None, pl.String).alias("level"))
    return Line(text, None, None, {}, diagnosis, role, help_of(given, diagnosis, ""))


def _piece(catalog: Catalog, piece: recover.Piece, rest: list[str]) -> Line:
    (head,) = parse_heads(pl.Series([piece.head])).to_dicts()
    body = "\n".join([piece.body, *rest]).rstrip()
    match = catalog.match(body) or catalog.match(piece.body) or catalog.match_collapsed(piece.body)
    match = match or recover.match_unclosed(catalog, body) or recover.match_without_part(catalog, body)
    source = head.get("_source", head.get("source"))
    return _line(catalog, match, body, piece.level, str(source) if source else None)


def _line(catalog: Catalog, match: Match | None, body: str, level: str | None, source: str | None) -> Line:
    values: dict[str, object] = {}
    message = match.message if match else None
    if match is not None:
        values = {**row_of(match, dict(catalog.compiled(match.message.name).columns)), **match.message.constants}
    said = {k: v for k, v in values.items() if v is not None}
    failing = message is None or message.meaning is not None or message.table == "errors"
    head = {"_level": level or ("WARN" if failing else "INFO"), "_source": source, "_body": body}
    frame = pl.DataFrame([pl.Series(k, [v]) for k, v in said.items()]).with_columns(
        pl.lit(v, pl.String).alias(k) for k, v in head.items()
    )
    if not said:
        frame = pl.DataFrame({k: pl.Series(k, [v], dtype=pl.String) for k, v in head.items()})
    diagnosis, role = meanings(frame, message).row(0)
    row = frame.with_columns(pl.lit(body).alias("text"), pl.lit(level, pl.String).alias("level"))
    help_ = help_of(row, diagnosis or "", message.name if message else "") if role != "benign" else None
    return Line(body, level, _known(message) if message else None, values, diagnosis, role, help_)


def _known(message: Message, words: str = "") -> Known:
    names = tuple(dict.fromkeys(message.meaning.names())) if message.meaning else ()
    versions, source = (message.directives.get(key, "") for key in ("versions", "source"))
    return Known(message.name, str(message.origin), versions, source, words, names)


def wordings(expr: Expr) -> list[str]:
    """The fixed words of an expression, with a sign where a value stands; one text a choice, a bounded number."""
    if isinstance(expr, Literal):
        return [expr.text]
    if isinstance(expr, Sequence):
        texts = [""]
        for item in expr.items:
            texts = [text + more for text in texts for more in wordings(item)][:_WORDINGS]
        return texts
    if isinstance(expr, Choice):
        return [text for option in expr.options for text in wordings(option)]
    if isinstance(expr, Repeat):
        return wordings(expr.item)
    return ["..."]


def _containing(catalog: Catalog, part: str) -> tuple[Known, ...]:
    """The known messages with a part of a text among their fixed words; none for a part that is too short to tell."""
    wanted = part.lower()
    if len(wanted) < _LEAST_PART:
        return ()
    found: list[tuple[bool, Known]] = []
    for message in catalog.grammar.messages.values():
        parts = wordings(message.expr)
        known = [*parts, message.name, message.directives.get("when", "")]
        if any(wanted in words.lower() for words in known):
            shown = next((words for words in parts if wanted in words.lower()), parts[0])
            found.append((message.meaning is None, _known(message, shown)))
    return tuple(known for _, known in sorted(found, key=lambda f: (f[0], f[1].name)))

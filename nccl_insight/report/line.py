"""What a pasted line means: diagnosis, role, since when it is printed, what comes before it, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.facts.errors import OTHER
from nccl_insight.language.catalog import Catalog, Match, default_catalog
from nccl_insight.language.syntax import Choice, Expr, Literal, Message, Repeat, Sequence
from nccl_insight.readers.nccl_log import recover
from nccl_insight.readers.nccl_log.extract import row_of
from nccl_insight.readers.nccl_log.head import parse_heads
from nccl_insight.rules import Rule, discover
from nccl_insight.tables.normalise.meaning import meanings

_ROLES: Final = {
    "root": "It can be the first cause.",
    "effect": "It is printed on the way out after another fault: look for an earlier line, on any rank.",
    "caller": "The program uses NCCL's interface wrongly.",
    "setting": "A value that was set is wrong, ignored, or leads to this.",
    "benign": "It is expected on healthy systems.",
}
_MOST: Final = 12
_WORDS_OF_A_LINE: Final = 4
_SHOWN: Final = 200
_WORDINGS: Final = 200


def explain_text(text: str) -> str | None:
    """What a line of a log means, or which known messages contain a part of a text; None when nothing does.

    Lines may lack their head, and may be followed by the lines that belong to them.
    """
    catalog = default_catalog()
    now = catalog.grammar.renamed.get(text.strip())
    if now is not None:
        return f"{text.strip()} is called {now} now.\n\n{_containing(catalog, now)}"
    lines = text.strip("\n").split("\n")
    pieces = recover.split_line(1, lines[0].strip())
    if pieces:
        return "\n\n".join(
            _piece(catalog, piece, lines[1:] if piece is pieces[-1] else []) for piece in pieces
        )
    match = catalog.match(text.strip()) or catalog.match_collapsed(lines[0])
    if match is None and (hit := recover.match_headless(catalog, lines[0], thrown=True)):
        match = hit[0]
    if match is not None:
        return _told(catalog, match, text.strip(), None, None)
    return _containing(catalog, text.strip()) or _guessed(catalog, text.strip())


def _guessed(catalog: Catalog, text: str) -> str | None:
    """A line without head that no rule knows, by its words; None where they say nothing, or it is too short to tell."""
    if len(text.split()) < _WORDS_OF_A_LINE:
        return None
    frame = pl.DataFrame(
        {"_level": ["WARN"], "_source": [None], "_body": [text]}, schema_overrides={"_source": pl.String}
    )
    (diagnosis,) = meanings(frame, None)["diagnosis"]
    return _told(catalog, None, text, None, None) if diagnosis != OTHER else None


def _piece(catalog: Catalog, piece: recover.Piece, rest: list[str]) -> str:
    (head,) = parse_heads(pl.Series([piece.head])).to_dicts()
    body = "\n".join([piece.body, *rest]).rstrip()
    match = catalog.match(body) or catalog.match(piece.body) or catalog.match_collapsed(piece.body)
    source = head.get("_source", head.get("source"))
    return _told(catalog, match, body, piece.level, str(source) if source else None)


def _told(catalog: Catalog, match: Match | None, body: str, level: str | None, source: str | None) -> str:
    values: dict[str, object] = {}
    message = match.message if match else None
    if match is not None:
        values = {
            **row_of(match, dict(catalog.compiled(match.message.name).columns)),
            **match.message.constants,
        }
    said = {k: v for k, v in values.items() if v is not None}
    failing = message is None or message.meaning is not None or message.table == "errors"
    head = {"_level": level or ("WARN" if failing else "INFO"), "_source": source, "_body": body}
    frame = pl.DataFrame([pl.Series(k, [v]) for k, v in said.items()]).with_columns(
        pl.lit(v, pl.String).alias(k) for k, v in head.items()
    )
    if not said:
        frame = pl.DataFrame({k: pl.Series(k, [v], dtype=pl.String) for k, v in head.items()})
    diagnosis, role = meanings(frame, message).row(0)
    rule = {r.name: r for r in discover()}.get(diagnosis)
    lines = [_short(body), ""]
    if diagnosis is None:
        lines.append("  means       nothing is wrong: the line tells what NCCL does")
    else:
        code = f" ({rule.code})" if rule else ""
        guess = "" if message else "; no message of the grammar matches, so this is a guess by its words"
        lines += [f"  means       {diagnosis}{code}{guess}", f"  role        {role}: {_ROLES[role]}"]
        lines.append(f"  harmless    {_harmless(role, level)}")
    if message is not None:
        where = message.directives.get("source")
        printed = message.directives.get("versions", "")
        lines.append(f"  printed by  {_versions(printed)}{f', in {where}' if where else ''}")
        lines.append(f"  message     {message.name} ({message.origin})")
    if values:
        lines.append("  values      " + ", ".join(f"{k} = {v}" for k, v in values.items()))
    return "\n".join(lines + _advice(rule, role))


def _harmless(role: str, level: str | None) -> str:
    if role == "benign":
        return "yes, unless something else fails"
    return "often: NCCL prints it at INFO and goes on" if level == "INFO" else "no"


def _versions(text: str) -> str:
    return (
        "every version"
        if not text
        else f"NCCL {text}".replace("NCCL ofi", "the OFI plugin")
        .replace("NCCL rccl", "RCCL")
        .replace(", rccl", " and RCCL")
    )


def _advice(rule: Rule | None, role: str | None) -> list[str]:
    if rule is None or role is None:
        return []
    lines = ["", rule.summary]
    before = ", ".join(rule.caused_by[:_MOST])
    if before:
        more = len(rule.caused_by) - _MOST
        lines += ["", f"  comes before it  {before}{f' and {more} more' if more > 0 else ''}"]
    for title, heading in (("why it matters", "Why it matters"), ("what to do", "What to do")):
        text = " ".join(rule.section(heading).split())
        if text and role != "benign":
            lines += ["", f"  {title}: {text}"]
    lines += ["", f"  more: nccl-insight explain {rule.code}"]
    return lines


def _short(text: str) -> str:
    first = text.split("\n", 1)[0]
    return first if len(first) <= _SHOWN else f"{first[:_SHOWN]}..."


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


def _containing(catalog: Catalog, part: str) -> str | None:
    """The known messages with a part of a text among their fixed words, those that report failures first."""
    wanted = part.lower()
    found: list[tuple[bool, str, Message]] = []
    for message in catalog.grammar.messages.values():
        parts = wordings(message.expr)
        known = [*parts, message.name, message.directives.get("when", "")]
        if any(wanted in words.lower() for words in known):
            shown = next((words for words in parts if wanted in words.lower()), parts[0])
            found.append((message.meaning is None, shown, message))
    if not found or len(wanted) < 4:
        return None
    found.sort(key=lambda f: (f[0], f[2].name))
    codes: Mapping[str, str] = {r.name: r.code for r in discover()}
    count = f"{len(found)} known messages contain" if len(found) > 1 else "1 known message contains"
    lines = [f"{count} {part!r}:", ""]
    for _, words, message in found[:_MOST]:
        lines.append(f"  {_short(words)}")
        names = list(dict.fromkeys(message.meaning.names())) if message.meaning else []
        told = ", ".join(f"{n} ({codes[n]})" if n in codes else n for n in names[:4])
        more = f" and {len(names) - 4} more, by its values" if len(names) > 4 else ""
        lines.append(
            f"      {told + more if told else 'no failure'}; {_versions(message.directives.get('versions', ''))}"
        )
    if len(found) > _MOST:
        lines.append(f"  ... and {len(found) - _MOST} more; give more of the text")
    return "\n".join(lines)

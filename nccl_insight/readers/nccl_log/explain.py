"""What a single line means, in words, for people."""

import re
from typing import Final

from nccl_insight.language.catalog import Catalog, Match, default_catalog
from nccl_insight.language.syntax import Expr, Sequence
from nccl_insight.readers.nccl_log import recover
from nccl_insight.readers.nccl_log.extract import row_of
from nccl_insight.readers.nccl_log.head import COLUMNS, parse_heads

_NEAR_MOST = 3
# Directives of a message that are shown, and how they are called.
_SHOWN: Final = {
    "table": "table", "versions": "printed by NCCL", "source": "source", "diagnosis": "evidence of", "role": "role",
}  # fmt: skip


def explain(line: str) -> str:
    """Head fields, rule, versions and captured values; for an unknown text the nearest rules and how far they go."""
    import polars as pl

    catalog = default_catalog()
    pieces = recover.split_line(1, line.strip())
    if not pieces:
        hit = recover.match_headless(catalog, line)
        if hit is None:
            return "not an NCCL line: no 'NCCL INFO' or its kin, and no wording that is unmistakable without it\n"
        return "(no head)\n" + _meaning(catalog, hit[0], hit[1])
    parts: list[str] = []
    for piece in pieces:
        (head,) = parse_heads(pl.Series([piece.head])).to_dicts()
        shown = [f"  {name:<14}{head[name]}" for name in COLUMNS if head[name] is not None]
        parts.append("\n".join([f"  {'level':<14}{piece.level}", *shown]) + "\n")
        match = catalog.match(piece.body) or catalog.match_collapsed(piece.body)
        parts.append(_meaning(catalog, match, piece.body) if match else _nearest(catalog, piece.body))
    return "".join(parts)


def _meaning(catalog: Catalog, match: Match, text: str) -> str:
    message = match.message
    values = {**row_of(match, dict(catalog.compiled(message.name).columns)), **message.constants}
    lines = [f"message {message.name} ({message.origin})"]
    given = message.directives
    lines += [f"  {_SHOWN.get(key, key)}: {given[key]}" for key in _SHOWN if key in given]
    lines += [f"  {name:<24}{value}" for name, value in values.items()]
    lines += _parsed(catalog, message.name, text)
    return "\n".join(lines) + "\n"


def _parsed(catalog: Catalog, rule: str, text: str) -> list[str]:
    """How lark, which reads the same grammar, cuts the text; nothing where blanks were folded to match it."""
    from nccl_insight.language.reference import Reference, trailing_blanks

    whole = text.rstrip() + trailing_blanks(catalog.compiled(rule))
    pieces = Reference(catalog.grammar).pieces(rule, whole)
    return [] if pieces is None else ["  read as", *(f"    {column or '':<22}{piece!r}" for column, piece in pieces)]


def _reach(expr: Expr, catalog: Catalog, text: str) -> int:
    """How many characters of the text a rule follows, item by item."""
    from nccl_insight.language.compile import pattern_of

    items = expr.items if isinstance(expr, Sequence) else (expr,)
    best = 0
    for count in range(1, len(items) + 1):
        found = re.compile(pattern_of(catalog.grammar, items[:count])).match(text)
        if found is None:
            break
        best = found.end()
    return best


def _nearest(catalog: Catalog, text: str) -> str:
    """The rules that follow an unknown text the farthest."""
    scored: list[tuple[int, str]] = []
    for name, message in catalog.grammar.messages.items():
        prefixes = catalog.prefixes(name)
        if prefixes and not any(p[:1] == text[:1] for p in prefixes):
            continue
        near = not prefixes or any(text.startswith(p[:6]) for p in prefixes)
        reach = _reach(message.expr, catalog, text) if near else 0
        if reach:
            scored.append((reach, name))
    scored.sort(key=lambda s: (-s[0], s[1]))
    lines = ["no rule knows this text; nearest:"]
    lines += [
        f"  {name} follows it up to character {reach}: {text[:reach]!r} ... then "
        f"{repr(text[reach : reach + 30]) if reach < len(text) else 'it wants more'}"
        for reach, name in scored[:_NEAR_MOST]
    ]
    if not scored:
        lines.append("  no rule begins like this; `grammar suggest` writes a skeleton")
    return "\n".join(lines) + "\n"

"""One chunk of a log -> typed messages by rule, unknown texts, and the fate of every line.

Columns that start with ``_`` are the record's surroundings: ``_line, _sub, _level, _body`` and ``_hid``, the row of
its head in the chunk's table of heads (columns of ``HEAD``); the others are what the rule captured.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from nccl_insight.grammar.catalog import Match
from nccl_insight.grammar.syntax import Message
from nccl_insight.ingest import head, recover
from nccl_insight.ingest.classify import Classifier, shape_of
from nccl_insight.ingest.extract import extract, row_of
from nccl_insight.io.chunks import Chunk

_ANSI: Final = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\(https?://[^)\n]*\)")
_LAST_ERROR: Final = "Last error:"
_REPEATED: Final = r"\s*\[repeated ([0-9]+)x across cluster\].*$"
_SPLIT: Final = " NCCL "
_AGAIN: Final = rf"NCCL (?:{'|'.join(head.LEVELS)})(?: |$)|:[0-9]+:[0-9]+ \[-?[0-9]+\]|NCCL$"
_INTERESTING: Final = r"NCCL|\] INFO |\] WARN |\.c[cu]:[0-9]+ (?:INFO|WARN) "
LOUD: Final = ("WARN", "ABORT", "DIAG")
_JOINED_MOST: Final = 2000
_FOLLOW_MOST: Final = 80
_FOREIGN_MOST: Final = 1_000_000
HEAD: Final = {f"_{name}": dtype for name, dtype in head.COLUMNS.items()}
RECORD: Final = {
    "_line": pl.UInt64, "_sub": pl.UInt16, "_level": pl.String, "_hid": pl.UInt32, "_body": pl.String,
}  # fmt: skip


@dataclass(frozen=True)
class Fate:
    """Physical lines by what became of them."""

    lines: int = 0
    parsed: int = 0
    unknown: int = 0
    foreign: int = 0
    torn: int = 0

    def __add__(self, other: Fate) -> Fate:
        return Fate(
            self.lines + other.lines,
            self.parsed + other.parsed,
            self.unknown + other.unknown,
            self.foreign + other.foreign,
            self.torn + other.torn,
        )


@dataclass(frozen=True)
class ChunkResult:
    """What a chunk gave. ``unknown`` has the columns of ``RECORD``; ``repeats`` counts Ray's dropped lines.

    ``messages``: rows by rule, with what the rule captured but without its constants (:func:`with_constants`).
    ``warned``: the rules of which a row is as loud as a warning (``LOUD``).

    ``heads``: one row a distinct head (``HEAD``), in the order of ``_hid``, with the first ``_line`` that has it and
    the number of its lines.
    """

    messages: dict[str, pl.DataFrame]
    unknown: pl.DataFrame
    foreign: pl.DataFrame
    heads: pl.DataFrame
    fate: Fate
    warned: frozenset[str] = frozenset()
    torn_lines: tuple[int, ...] = ()
    repeats: tuple[int, int] = (0, 0)


@dataclass
class _Work:
    """Collects records while a chunk is taken apart."""

    chunk: Chunk
    classifier: Classifier
    lines: pl.Series
    parts: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    heads: list[pl.DataFrame] = field(default_factory=list)
    head_count: int = 0
    parsed: list[pl.Series] = field(default_factory=list)
    warned: set[str] = field(default_factory=set)
    torn: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)

    def line(self, number: int) -> str:
        """Text of a line by its number in the file; empty outside the chunk."""
        at = number - self.chunk.first_line
        return str(self.lines[at]) if 0 <= at < self.lines.len() else ""

    def add_heads(self, heads: pl.DataFrame) -> int:
        """Takes rows for the table of heads and gives the number of the first."""
        first = self.head_count
        self.heads.append(heads)
        self.head_count += heads.height
        return first

    def accept(self, name: str, rows: pl.DataFrame, checked: bool = False) -> None:
        """Takes rows of a rule. ``checked``: the caller has seen to ``warned``."""
        if rows.height:
            self.parts.setdefault(name, []).append(rows)
            self.parsed.append(rows["_line"])
            if not checked and rows["_level"].is_in(LOUD).any():
                self.warned.add(name)


def attach_heads(rows: pl.DataFrame, heads: pl.DataFrame, columns: Sequence[str] = tuple(HEAD)) -> pl.DataFrame:
    """Rows with the columns of their head instead of its number."""
    numbers = rows["_hid"]
    rest = rows[[c for c in rows.columns if c != "_hid"]]
    if not rows.height:
        return rest.with_columns(pl.lit(None, HEAD[c]).alias(c) for c in columns)
    return rest.hstack([heads[c].gather(numbers) for c in columns])


def with_constants(rows: pl.DataFrame, message: Message) -> pl.DataFrame:
    """Rows of a rule with the columns that its directives set."""
    columns = [pl.Series(k, [v]).new_from_index(0, rows.height) for k, v in message.constants.items()]
    return rows.hstack(columns) if columns else rows


def _clean(text: str) -> str:
    """The chunk's text without colours, links and stray control bytes; line breaks stay where they are."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "](http" in text:
        text = _LINK.sub(r"\1", text)
    return text


def _lines_of(text: str, chunk: Chunk) -> pl.Series:
    # Split by polars: millions of Python strings would cost more than all of the parsing.
    return pl.Series("_text", [text]).str.split("\n").explode().head(chunk.count)


def _with_heads(work: _Work, frame: pl.DataFrame) -> pl.DataFrame:
    """Replaces ``_head`` by ``_hid``; every distinct head is parsed once."""
    keyed = frame.with_columns(_key=pl.col("_head").hash())
    unique = keyed.group_by("_key", maintain_order=True).agg(
        pl.col("_head").first(), pl.col("_line").first(), pl.len().cast(pl.UInt64).alias("_lines")
    )
    parsed = head.parse_heads(unique["_head"].unique()).rename({c: f"_{c}" for c in ("head", *head.COLUMNS)})
    heads = unique.join(parsed, on="_head", how="left", maintain_order="left")
    first = work.add_heads(heads.select(*HEAD, "_line", "_lines"))
    numbers = unique.select("_key", _hid=pl.int_range(first, first + unique.height, dtype=pl.UInt32))
    return keyed.drop("_head").join(numbers, on="_key", how="left", maintain_order="left").drop("_key")


def _split_fast(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Clean single records (with ``_head``, ``_level``, ``_body``) and all other lines."""
    cut = frame.with_columns(pl.col("_text").str.splitn(_SPLIT, 2).alias("_s")).unnest("_s")
    cut = cut.rename({"field_0": "_head", "field_1": "_rest"})
    cut = cut.with_columns(pl.col("_rest").str.splitn(" ", 2).alias("_s")).unnest("_s")
    cut = cut.rename({"field_0": "_level", "field_1": "_body"}).with_columns(pl.col("_body").fill_null(""))
    level = pl.col("_level").is_in(head.LEVELS)
    clean = level & ~pl.col("_body").str.contains(_AGAIN).fill_null(False)
    ok = cut.select(clean.fill_null(False)).to_series()
    wanted = cut.select("_line", "_head", "_level", "_body")
    fast = (wanted if ok.all() else wanted.filter(ok)).with_columns(pl.col("_body").str.strip_chars_end())
    return fast, frame.filter(~ok)


def _records(work: _Work, pieces: list[recover.Piece]) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "_line": [p.line for p in pieces],
            "_sub": [p.sub for p in pieces],
            "_head": [p.head for p in pieces],
            "_level": [p.level for p in pieces],
            "_body": [p.body for p in pieces],
        },
        schema={
            "_line": pl.UInt64, "_sub": pl.UInt16, "_head": pl.String, "_level": pl.String, "_body": pl.String,
        },
    )  # fmt: skip
    return _with_heads(work, frame).select(list(RECORD))


def _take_classified(work: _Work, frame: pl.DataFrame) -> pl.DataFrame:
    """Classifies records and extracts their columns; returns those that no rule accepts."""
    if not frame.height:
        return frame
    chosen = work.classifier.classify(frame["_body"])
    frame = frame.with_columns(_rule=chosen["rule"], _blanks=chosen["blanks"])
    left: list[pl.DataFrame] = []
    catalog = work.classifier.catalog
    loud = frame.filter(pl.col("_level").is_in(LOUD) & (pl.col("_rule") >= 0))["_rule"].unique().to_list()
    work.warned.update(work.classifier.names[number] for number in loud)
    groups = frame.partition_by("_rule", "_blanks", as_dict=True, include_key=False)
    for (number, blanks), rows in groups.items():
        if number < 0:
            left.append(rows)
            continue
        name = work.classifier.names[int(number)]
        rule = catalog.compiled(name, bool(blanks))
        if rule.head_pattern is not None:
            left.append(_take_multiline(work, name, rows))
            continue
        source = rows.with_columns(pl.col("_body").str.replace_all(" +", " ")) if blanks else rows
        kept, dropped = extract(rule, source)
        work.accept(name, kept, checked=True)
        if dropped.height:
            left.append(dropped)
    return pl.concat([part.select(list(RECORD)) for part in left]) if left else frame.clear().select(list(RECORD))


def _take_multiline(work: _Work, name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rules that span lines: joins the following lines without head as far as they continue the rule."""
    catalog = work.classifier.catalog
    dtypes = dict(catalog.compiled(name).columns)
    taken: list[int] = []
    out: list[pl.DataFrame] = []
    for index, (number, body) in enumerate(
        zip(rows["_line"].to_list(), rows["_body"].to_list(), strict=True)
    ):
        following: list[str] = []
        while len(following) < _FOLLOW_MOST:
            text = work.line(number + len(following) + 1)
            if _SPLIT in text or (not text and following and not following[-1]):
                break
            following.append(text)
        joined = recover.extend(catalog, name, body, following)
        match: Match | None
        if joined is not None:
            match, count = joined
            work.used.update(range(number + 1, number + 1 + count))
        else:
            match = catalog.try_rule(name, body)
        if match is not None:
            taken.append(index)
            values = {k: [v] for k, v in row_of(match, dtypes).items()}
            out.append(pl.concat([rows[index], pl.DataFrame(values)], how="horizontal"))
    if out:
        work.accept(name, pl.concat(out, how="diagonal_relaxed"))
    missed = sorted(set(range(rows.height)) - set(taken))
    return rows[missed]


def _take_one(work: _Work, row: pl.DataFrame, match: Match) -> None:
    dtypes = dict(work.classifier.catalog.compiled(match.message.name).columns)
    values = {k: [v] for k, v in row_of(match, dtypes).items()}
    work.accept(
        match.message.name, pl.concat([row, pl.DataFrame(values)], how="horizontal") if values else row
    )


def _repair(work: _Work, left: pl.DataFrame) -> pl.DataFrame:
    """Last tries for records that no rule accepts: a shape's odd row, a wrapped line."""
    if not left.height:
        return left
    catalog = work.classifier.catalog
    failed: list[int] = []
    tries = 0
    bodies, numbers = left["_body"].to_list(), left["_line"].to_list()
    shapes = work.classifier.classify(left["_body"])["rule"].to_list()
    for index, (number, body, shape) in enumerate(zip(numbers, bodies, shapes, strict=True)):
        match = (catalog.match(body) or catalog.match_collapsed(body)) if shape >= 0 else None
        following = work.line(number + 1)
        if match is None and following and _SPLIT not in following and tries < _JOINED_MOST:
            tries += 1
            match = recover.rejoin(catalog, body, following)
            if match is not None:
                work.used.add(number + 1)
        if match is None:
            failed.append(index)
        else:
            _take_one(work, left[index], match)
    return left[failed]


def _take_irregular(work: _Work, others: pl.DataFrame) -> tuple[pl.DataFrame, set[int]]:
    """Lines with a record in an unusual place; returns records that no rule accepts, and all lines seen."""
    odd = others.filter(pl.col("_text").str.contains(_INTERESTING))
    pieces = recover.pieces_of(zip(odd["_line"].to_list(), odd["_text"].to_list(), strict=True))
    if not pieces:
        return pl.DataFrame(schema=RECORD), set()
    left = _take_classified(work, _records(work, pieces))
    left = _repair(work, left)
    missed = set(zip(left["_line"].to_list(), left["_sub"].to_list(), strict=True))
    several = {p.line for p in pieces if p.sub}
    for piece in pieces:
        if piece.torn or (piece.line in several and (piece.line, piece.sub) in missed):
            work.torn.add(piece.line)
    left = left.filter(~pl.col("_line").is_in(list(work.torn))) if work.torn else left
    return left, {p.line for p in pieces}


def _take_headless(work: _Work, others: pl.DataFrame, seen: set[int]) -> None:
    """Lines without a head whose wording is unmistakable, or that an exception announces as NCCL's last error."""
    keys = work.classifier.catalog.headless_keys()
    if not keys:
        return
    thrown = pl.col("_text").shift(1).str.strip_chars_end().str.ends_with(_LAST_ERROR).fill_null(False)
    likely = others.with_columns(_thrown=thrown).filter(
        pl.col("_thrown") | pl.col("_text").str.contains_any(keys)
    )
    catalog, foreign = work.classifier.catalog, work.classifier.foreign
    likely = likely.select(
        "_line", "_text", "_thrown", shape_of(pl.col("_text")).alias("_shape"),
        pl.col("_text").str.extract_many(catalog.headless_prefixes(), overlapping=True).alias("_present"),
    )  # fmt: skip
    rows: list[recover.Piece] = []
    found: list[Match] = []
    for number, text, announced, shape, present in likely.iter_rows():
        if number in seen or number in work.used or shape in foreign:
            continue
        hit = recover.match_headless(catalog, text, announced, present)
        if hit is None and not announced and len(foreign) < _FOREIGN_MOST:
            foreign.add(shape)
        if hit is not None:
            match, body, at = hit
            level = "WARN" if announced or match.message.table == "errors" else "INFO"
            if match.message.table == "versions":
                level = "VERSION"
            rows.append(recover.Piece(number, 0, text[: max(at, 0)], level, body))
            found.append(match)
    if not rows:
        return
    frame = _records(work, rows)
    by_rule: dict[str, list[int]] = {}
    for index, match in enumerate(found):
        by_rule.setdefault(match.message.name, []).append(index)
    for name, indexes in by_rule.items():
        rule = work.classifier.catalog.compiled(name)
        if rule.head_pattern is not None:
            left = _take_multiline(work, name, frame[indexes])
        else:
            kept, left = extract(rule, frame[indexes])
            work.accept(name, kept)
        for row in left.iter_slices(1):
            again = work.classifier.catalog.match_collapsed(row["_body"][0])
            if again is not None:
                _take_one(work, row, again)


def read_chunk(chunk: Chunk, classifier: Classifier) -> ChunkResult:
    """Takes a chunk apart. Every physical line ends as parsed, unknown, foreign or torn."""
    text = _clean(chunk.text)
    work = _Work(chunk, classifier, _lines_of(text, chunk))
    frame = (
        pl.DataFrame({"_text": work.lines})
        .with_row_index("_line", chunk.first_line)
        .cast({"_line": pl.UInt64})
    )
    repeats = (0, 0)
    if "x across cluster]" in text:
        count = frame["_text"].str.extract(_REPEATED).cast(pl.UInt32, strict=False)
        first = frame.filter(count.is_not_null())["_line"].first()
        repeats = (int(count.sum()), first if isinstance(first, int) else 0)
        frame = frame.with_columns(pl.col("_text").str.replace(_REPEATED, ""))
    fast, others = _split_fast(frame)
    fast = _with_heads(work, fast).with_columns(_sub=pl.lit(0, pl.UInt16)).select(list(RECORD))
    left = [_repair(work, _take_classified(work, fast))]
    others = others.filter(pl.col("_text").str.len_bytes() > 0)
    lost, seen = _take_irregular(work, others)
    left.append(lost)
    _take_headless(work, others, seen)
    unknown = pl.concat(left)
    parsed = pl.concat(work.parsed).unique() if work.parsed else pl.Series("_line", [], dtype=pl.UInt64)
    return _result(work, unknown, parsed, others, repeats)


def _result(
    work: _Work, unknown: pl.DataFrame, parsed: pl.Series, others: pl.DataFrame, repeats: tuple[int, int]
) -> ChunkResult:
    used = pl.Series("_line", sorted(work.used), dtype=pl.UInt64)
    torn = pl.Series("_line", sorted(work.torn), dtype=pl.UInt64)
    good = pl.concat([parsed, used]).unique()
    good = good.filter(~good.is_in(torn.implode()))
    lost = unknown["_line"].unique()
    lost = lost.filter(~lost.is_in(good.implode()) & ~lost.is_in(torn.implode()))
    unknown = unknown.filter(~pl.col("_line").is_in(good.implode()))
    foreign = work.chunk.count - good.len() - lost.len() - torn.len()
    fate = Fate(work.chunk.count, good.len(), lost.len(), foreign, torn.len())
    messages = {
        name: pl.concat(parts, how="diagonal_relaxed") if len(parts) > 1 else parts[0]
        for name, parts in work.parts.items()
    }
    rest = others.filter(
        ~pl.col("_line").is_in(good.implode())
        & ~pl.col("_line").is_in(lost.implode())
        & ~pl.col("_line").is_in(torn.implode())
    )
    return ChunkResult(
        messages, unknown, rest, pl.concat(work.heads), fate, frozenset(work.warned), tuple(sorted(work.torn)),
        repeats,
    )

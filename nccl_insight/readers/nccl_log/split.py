"""The text of a chunk cut into lines, and lines into head, level and body, all at once."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import polars as pl

from nccl_insight.base import late
from nccl_insight.inputs.chunks import Chunk
from nccl_insight.readers.nccl_log import envelope, head
from nccl_insight.readers.nccl_log.wrapped import unwrapped

SEPARATOR: Final = " NCCL "
# Colours and cursor movements, then strings with an end of their own: titles, links, marks of CI systems.
_ANSI: Final = late.compiled(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
# Blanks and marks without width that web pages and chats put into copied text, and what forums make of quotes, arrows
# and dots.
_COPIED: Final = {
    0xA0: " ", 0x202F: " ", 0x200B: None, 0x2060: None, 0xFEFF: None, 0xFE0E: None,
    0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x2190: "<-", 0x2192: "->", 0x2194: "<->", 0x2026: "...",
}  # fmt: skip
_LINK: Final = late.compiled(r"\[([^\[\]\n]+)\]\(https?://[^\[)\n]*\)")
# Looked for in the whole text at once: a search in every line would take as long as cutting the lines.
_ODD: Final = ("\x1b", "\x00")
_ODD_WORD: Final = "](http"
# Bytes of which few stand in a log.
_RARE: Final = (b'"', b"(", b"#", b"&")
_RARE_MOST: Final = 2000
# Evidence is read back from the mark in front of it: some 300 KB.
_MARKED_EVERY: Final = 2000
_USUAL: Final = " NCCL INFO "
# Not in all releases of polars that are supported.
_read_lines: Final = getattr(pl, "read_lines", None)
_OPEN: Final = rf"^{head.OPEN_LEVEL}$"
_AGAIN: Final = rf"NCCL (?:{'|'.join(head.LEVELS)})(?: |$)|:[0-9]+:[0-9]+ \[-?[0-9]+\]|NCCL$"


def _cut(text: pl.Series, ended: bool) -> pl.Series:
    # Split by polars: millions of Python strings would cost more than all of the parsing.
    lines = text.str.split("\n").explode().alias("_text")
    return lines.head(lines.len() - 1) if ended else lines


def _marks(lines: pl.Series) -> Iterator[tuple[int, int]]:
    """Where some of the lines begin, evenly spread: how many lines stand before, and how many bytes."""
    ends = (lines.str.len_bytes().cast(pl.Int64) + 1).cum_sum()
    before = range(_MARKED_EVERY, lines.len(), _MARKED_EVERY)
    return zip(before, ends.gather([line - 1 for line in before]).to_list(), strict=True)


def lines_of(chunk: Chunk) -> pl.Series:
    """The lines without colours, links, stray control bytes and envelopes; line breaks stay where they are."""
    holds = partial(_holds, chunk)
    ascii_only = chunk.text is None and chunk.data.isascii()
    data = chunk.data if chunk.size == len(chunk.data) else chunk.data[: chunk.size]
    odd = not data or data.endswith(b"\r") or any(map(holds, _ODD)) or holds(_ODD_WORD)
    if chunk.text is None and _read_lines is not None and not odd:
        # Lines that point into the bytes, without a copy, and without the carriage return that ends them.
        lines = _read_lines(data).to_series().alias("_text")
        if ascii_only or not lines.str.contains("|".join(map(chr, _COPIED))).any():
            if not (holds("\r") and holds("\r\n")):
                chunk.marks.extend(_marks(lines))
            return unwrapped(envelope.opened(lines, holds), chunk.starts, ascii_only)
    text = data.decode() if chunk.text is None else chunk.text
    ended = text.endswith("\n")
    if not ascii_only:
        text = text.translate(_COPIED)
    text = (_ANSI.sub("", text) if "\x1b" in text else text).replace("\x00", "").replace("\r\n", "\n")
    if _ODD_WORD in text:
        text = _LINK.sub(r"\1", text)
    return unwrapped(envelope.opened(_cut(pl.Series([text]), ended), holds), chunk.starts)


def _holds(chunk: Chunk, sign: str) -> bool:
    """Whether the text holds some characters.

    One byte is found thirty times as fast as several, so the places of a rare one of them are looked at first.
    """
    if chunk.text is not None:
        return sign in chunk.text
    wanted = sign.encode()
    rare = next((byte for byte in _RARE if byte in wanted), None)
    if rare is None:
        return wanted in chunk.data
    before = wanted.index(rare)
    at = -1
    for _ in range(_RARE_MOST):
        at = chunk.data.find(rare, at + 1)
        if at < 0:
            return False
        if at >= before and chunk.data.startswith(wanted, at - before):
            return True
    return chunk.data.find(wanted, max(0, at + 1 - before)) >= 0


def _usual(lines: pl.Series) -> pl.DataFrame:
    """Columns ``_head`` and ``_body`` of lines of level INFO; null where a line is not one clean record of it."""
    cut = lines.str.splitn(_USUAL, 2).struct.unnest()
    start, body = cut["field_0"], cut["field_1"]
    clean = ~body.str.contains(_AGAIN) & ~start.str.contains("NCCL", literal=True)
    return pl.DataFrame({"_head": start, "_body": body.str.strip_chars_end(), "_clean": clean.fill_null(False)})


def _others(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """Columns ``_head, _level, _body`` of lines of any level, and which of them are one clean record."""
    cut = frame.select("_line", pl.col("_text").str.splitn(SEPARATOR, 2).alias("_s")).unnest("_s")
    cut = cut.rename({"field_0": "_head", "field_1": "_rest"})
    cut = cut.with_columns(pl.col("_rest").str.splitn(" ", 2).alias("_s")).unnest("_s").drop("_rest")
    cut = cut.rename({"field_0": "_level", "field_1": "_body"}).with_columns(
        pl.col("_body").fill_null("").str.strip_chars_end()
    )
    named = pl.col("_level").is_in(head.LEVELS)
    other = pl.col("_level").str.contains(_OPEN) & pl.col("_head").str.contains(head.FULL_END)
    clean = (named | other) & ~pl.col("_body").str.contains(_AGAIN)
    return cut, cut.select(clean.fill_null(False)).to_series()


def split_clean(frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Clean single records (``_line, _head, _level, _body``) and all other lines (``_line, _text``)."""
    named = frame["_text"].str.contains(SEPARATOR, literal=True)
    some = frame if named.all() else frame.filter(named)
    usual = _usual(some["_text"])
    clean = usual["_clean"]
    records = pl.DataFrame([some["_line"], usual["_head"], usual["_body"]])
    records = (records if clean.all() else records.filter(clean)).with_columns(_level=pl.lit("INFO"))
    rest = some.filter(~clean)
    if rest.height:
        more, odd = _others(rest)
        records = pl.concat([records, more.filter(odd).select(records.columns)])
        clean = clean.scatter((~clean).arg_true().filter(odd), True)
    if some.height < frame.height:
        clean = named.scatter(named.arg_true().filter(~clean), False)
    return records, frame.filter(~clean)

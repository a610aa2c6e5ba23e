"""One chunk of a log -> typed messages by rule, unknown texts, and the fate of every line.

Columns that start with ``_`` are the record's surroundings: ``_line, _sub, _level, _body`` and ``_hid``, the row of
its head in the chunk's table of heads (columns of ``HEAD``); the others are what the rule captured.
"""

import re
from collections.abc import Collection
from typing import Final, TypeAlias

import polars as pl

from nccl_insight.base.grouping import grouped
from nccl_insight.inputs.chunks import Chunk
from nccl_insight.language.catalog import Catalog, Match
from nccl_insight.readers import host_tools
from nccl_insight.readers.nccl_log import likely, recover
from nccl_insight.readers.nccl_log.classify import Classifier, shape_of
from nccl_insight.readers.nccl_log.floods import LEAST
from nccl_insight.readers.nccl_log.head import LEVELS
from nccl_insight.readers.nccl_log.records import RECORD, ChunkResult, Fate, Places
from nccl_insight.readers.nccl_log.split import SEPARATOR, lines_of, split_clean
from nccl_insight.readers.nccl_log.work import (
    Work,
    has_loud,
    records,
    take,
    take_classified,
    take_one,
    take_records,
    with_heads,
)

_REPEATED_SIGN: Final = "x across cluster]"
_REPEATED: Final = r"\s*\[repeated ([0-9]+)x across cluster\].*$"
_JOINED_MOST: Final = 2000
_WRAPPED_MOST: Final = 3
_FOREIGN_MOST: Final = 1_000_000
_KNOWN_MOST: Final = 10_000
_SHORT: Final = 400
_TAIL: Final = 16
_Said: TypeAlias = tuple[recover.Piece, Match]
# So many records of a chunk are looked at for a part that their release added.
_PARTED_MOST: Final = 600


def _following(work: Work, number: int) -> list[str]:
    """Lines behind one that may have been wrapped onto them."""
    found: list[str] = []
    while len(found) < _WRAPPED_MOST:
        text = work.line(number + 1 + len(found))
        if not text.strip() or SEPARATOR in text:
            break
        found.append(text)
    return found


def _repair(work: Work, left: pl.DataFrame) -> pl.DataFrame:
    """Last tries for records that no rule accepts: a shape's odd row, a wrapped line."""
    if not left.height:
        return left
    catalog = work.classifier.catalog
    failed: list[int] = []
    tries = parts = 0
    bodies, numbers = left["_body"].to_list(), left["_line"].to_list()
    shapes = work.classifier.classify(left["_body"])["rule"].to_list()
    spoken = likely.holding(left["_body"], list(catalog.behind_speaker)).to_list()
    for index, (number, body, shape) in enumerate(zip(numbers, bodies, shapes, strict=True)):
        match = (catalog.match(body) or catalog.match_collapsed(body)) if shape >= 0 else None
        following = _following(work, number) if match is None and tries < _JOINED_MOST else []
        if following:
            tries += 1
            joined = recover.rejoin(catalog, body, recover.unlabeled(work.line(number), following))
            if joined is not None:
                match, count = joined
                work.used.update(range(number + 1, number + 1 + count))
        if match is None and spoken[index] and (unspoken := recover.match_unspoken(catalog, body)) is not None:
            match = unspoken[0]
        if match is None and parts < _PARTED_MOST:
            match = recover.match_unclosed(catalog, body)
        if match is None and parts < _PARTED_MOST and "=" in body:
            parts += 1
            match = recover.match_without_part(catalog, body)
        if match is None:
            failed.append(index)
        else:
            take_one(work, left[index], match)
    return left[failed]


def _take_irregular(work: Work, others: pl.DataFrame) -> tuple[pl.DataFrame, set[int]]:
    """Lines with a record in an unusual place; returns records that no rule accepts, and all lines seen."""
    said = pl.col("_text").str
    odd = others.filter(said.contains(likely.RECORD)).filter(said.contains(recover.SOME_RECORD))
    lines = odd.select("_line", "_text").iter_rows()
    pieces = [piece for line, text in lines for piece in recover.split_line(line, text)]
    if not pieces:
        return pl.DataFrame(schema=RECORD), set()
    left = take_classified(work, records(work, pieces))
    left = _repair(work, left)
    missed = set(zip(left["_line"].to_list(), left["_sub"].to_list(), strict=True))
    several = {p.line for p in pieces if p.sub}
    for piece in pieces:
        if piece.torn or (piece.line in several and (piece.line, piece.sub) in missed):
            work.torn.add(piece.line)
    left = left.filter(~pl.col("_line").is_in(list(work.torn))) if work.torn else left
    return left, {p.line for p in pieces}


# A head that another writer cut off, and the rest of a record that lost the beginning of its head.
_CUT_HEAD: Final = r"[A-Za-z][A-Za-z0-9._-]*:[0-9]+:[0-9]+ \[(?:[0-9]{0,3}|[0-9]{1,3}\](?: N(?:CC?L?)?)?) ?$"
_LOST_HEAD: Final = r"(?:^|[^A-Za-z])(?:CC?L|L) (?:INFO|WARN) "


def _note_fragments(work: Work, others: pl.DataFrame, seen: set[int]) -> None:
    """Counts pieces of heads as torn lines, but for the last line of an input, which may just not be written yet.

    A line alone decides, so that it does not matter which inputs are read together.
    """
    text = pl.col("_text")
    cut = text.str.contains(_CUT_HEAD)
    lost = text.str.contains_any(list(likely.LOST_HEAD)) & text.str.contains(_LOST_HEAD)
    found = others.filter(cut | lost)["_line"].to_list()
    ends = zip(work.places.starts, work.places.counts, strict=True)
    last = {start + count - 1 for start, count in ends} if work.ends else set()
    work.torn.update(n for n in found if n not in seen and n not in work.used and n not in last)


def _take_headless(work: Work, others: pl.DataFrame, seen: set[int]) -> None:
    """Lines without a head whose wording is unmistakable, or that an exception announces as NCCL's last error."""
    before = pl.col("_before").str.strip_chars_end()
    thrown = pl.when(before.str.ends_with(likely.LAST_ERROR)).then(before.str.strip_suffix(likely.LAST_ERROR))
    catalog, foreign = work.classifier.catalog, work.classifier.foreign
    signs = likely.headless_signs(catalog)
    at = others["_likely"].arg_true()
    spoken = others["_likely"].scatter(at, likely.holding(others["_text"].gather(at), signs))
    found = others.with_columns(_thrown=thrown).filter(
        pl.col("_thrown").is_not_null() | spoken | pl.col("_text").str.contains(likely.SAID),
        # A traceback shows what a line of source code would say, below the place where it stands.
        ~(before.str.contains(_FRAME) & pl.col("_text").str.contains(_INDENTED)).fill_null(False),
    )
    if found.is_empty():
        return
    found = found.select("_line", "_text", "_thrown", shape_of(pl.col("_text")).alias("_shape"))
    # Of many all has been said before: an automaton of a thousand literals would cost more than these lines.
    quoting = found["_text"].str.contains(likely.QUOTE, literal=True)
    asked = pl.Series([shape for shape in found["_shape"].unique() if shape in foreign], dtype=pl.UInt64)
    new = ~found["_shape"].is_in(asked.implode())
    said = found["_line"].is_in(pl.Series(list(seen), dtype=pl.UInt64).implode())
    rows = found.filter(new & said).select("_line", "_text", "_thrown").iter_rows()
    more = [n for n, text, label in rows if recover.before_records(recover.labeled(text, label or "")[1])]
    found = found.filter(quoting | (new & ~said) | pl.col("_line").is_in(more))
    many = found.height >= _ALIKE_LEAST
    for flood in _alike(work, found.filter(_plain & ~pl.col("_line").is_in(list(seen)))) if many else ():
        found = found.filter(~pl.col("_line").is_in(_take_alike(work, *flood).implode()))
    _take_singly(work, found, seen)


_FRAME: Final = r'File ".*", line [0-9]+, in \S+$'
_INDENTED: Final = r"^(?:\[[^\]]*\]:?|\S+:)?\s{3}"
# So many lines that look alike are asked about as one.
_ALIKE_LEAST: Final = 64
# Of a line that is no more than itself: nobody announces it, it quotes no other, and was not put together from several.
_plain: Final = (
    pl.col("_thrown").is_null()
    & ~pl.col("_text").str.contains(likely.QUOTE, literal=True)
    & ~(pl.col("_text").str.contains(" pid=", literal=True) & (pl.col("_text").str.len_chars() > recover.GLUED_LEAST))
)


def _take_floods(work: Work, others: pl.DataFrame) -> pl.DataFrame:
    """Takes floods of lines without a head, told by a sample, before all else is asked of each; returns the others."""
    if others.height < LEAST:
        return others
    text = pl.col("_text")
    sample = others.gather_every(others.height // LEAST).with_columns(_thrown=pl.lit(None, pl.String))
    sample = sample.filter(_plain).with_columns(_shape=shape_of(text))
    signs = likely.headless_signs(work.classifier.catalog)
    for rows, match, label in _alike(work, sample):
        if not likely.holding(rows["_text"].head(1), signs)[0]:
            continue
        body = rows["_text"][0][len(label) :].rstrip()
        opening = re.split("[0-9]", body, maxsplit=1)[0]
        guess = work.classifier.guess(opening, body)
        if guess is None or guess.rule != match.message.name:
            continue
        odd = "|".join(map(re.escape, (likely.QUOTE, " pid=", *likely.LOST_HEAD, *guess.without)))
        record = others["_text"].str.contains(recover.RECORD_WORD)
        if record.any():
            record &= others["_text"].str.contains(recover.SOME_RECORD)
        flood = others.filter(
            text.str.contains(f"^{_masked(label)}{re.escape(opening)}"),
            ~record,
            ~text.str.contains(odd),
            ~text.str.contains(_CUT_HEAD),
            ~pl.col("_before").str.strip_chars_end().str.ends_with(likely.LAST_ERROR).fill_null(False),
        )
        taken = _take_alike(work, flood, match, label)
        others = others.filter(~pl.col("_line").is_in(taken.implode()))
    return others


def _masked(label: str) -> str:
    """A pattern of labels like one."""
    return re.sub("[0-9]+", "[0-9]+", re.escape(label))


def _alike(work: Work, found: pl.DataFrame) -> list[tuple[pl.DataFrame, Match, str]]:
    """Floods of lines without a head: those that look alike, what the first of them says, and its label."""
    catalog = work.classifier.catalog
    alike = []
    for rows in found.filter(pl.len().over("_shape") >= _ALIKE_LEAST).partition_by("_shape", maintain_order=True):
        text = rows["_text"][0]
        hit = recover.match_headless(catalog, text)
        if hit is not None and 0 <= hit[2] <= _SHORT and not catalog.spans_lines(hit[0].message.name):
            alike.append((rows, hit[0], text[: hit[2]]))
    return alike


def _take_alike(work: Work, rows: pl.DataFrame, match: Match, label: str) -> pl.Series:
    """Takes lines that say what one of them says behind a label like its own; returns their numbers."""
    rows = rows.filter(~pl.col("_line").is_in(list(work.used))) if work.used else rows
    head = rows["_text"].str.extract(f"^({_masked(label)})")
    level = pl.lit(_level_of(match, False))
    body = pl.col("_text").str.strip_prefix(head).str.strip_chars_end()
    frame = rows.select("_line", _sub=pl.lit(0, pl.UInt16), _head=head, _level=level, _body=body)
    frame = frame.filter(pl.col("_head").is_not_null())
    name = match.message.name
    if frame.height and has_loud(frame["_level"]):
        work.warned.add(name)
    left = take(work, name, with_heads(work, frame).select(list(RECORD)))["_line"] if frame.height else frame["_line"]
    taken: pl.Series = frame["_line"].filter(~frame["_line"].is_in(left.implode()))
    return taken


def _take_singly(work: Work, found: pl.DataFrame, seen: set[int]) -> None:
    """Asks about each line by itself."""
    catalog, foreign = work.classifier.catalog, work.classifier.foreign
    found = found.with_columns(likely.held(found["_text"], catalog.headless_prefixes).alias("_present"))
    said: list[_Said] = []
    tries = 0
    for number, text, thrown_behind, shape, present in found.iter_rows():
        announced = thrown_behind is not None
        label, text = recover.labeled(text, thrown_behind or "")
        if likely.QUOTE in text and (inside := _quoted(catalog, number, text)) is not None:
            said.append(inside)
            continue
        if number in seen:
            text = recover.before_records(text)
        if not text or number in work.used or shape in foreign:
            continue
        if several := _glued(catalog, number, text):
            said += several
            continue
        hit = _headless(work.classifier, text, announced, present)
        if hit is None and number not in seen:
            if present and tries < _JOINED_MOST:
                tries += 1
                hit = _wrapped(work, number, text)
            if hit is None:
                hit = recover.match_prose(catalog, text, [work.line(number + 1), work.line(number + 2)])
            if hit is None and not announced and len(foreign) < _FOREIGN_MOST:
                foreign.add(shape)
        if hit is not None:
            match, body, at = hit
            before = label + text[: max(at, 0)]
            said.append((recover.Piece(number, 0, before, _level_of(match, announced), body), match))
    if said:
        _take_said(work, said)


def _quoted(catalog: Catalog, number: int, text: str) -> _Said | None:
    """The message that a line of an application quotes."""
    quoted = recover.quoted(text)
    match = (catalog.match(quoted) or catalog.match_collapsed(quoted)) if quoted is not None else None
    return (recover.Piece(number, 0, recover.stamp(text), "WARN", quoted), match) if quoted and match else None


def _glued(catalog: Catalog, number: int, text: str) -> list[_Said]:
    """The messages of a line that was put together from several, one behind another."""
    parts = recover.tagged(text)
    if len(parts) == 1:
        return []
    found = ((part, recover.match_headless(catalog, part)) for part in parts)
    hits = [(part[: max(hit[2], 0)], *hit[:2]) for part, hit in found if hit is not None]
    return [
        (recover.Piece(number, sub, head, _level_of(match, False), body), match)
        for sub, (head, match, body) in enumerate(hits)
    ]


def _headless(
    classifier: Classifier, text: str, announced: bool, present: Collection[str]
) -> tuple[Match, str, int] | None:
    """What a line without a head says; short texts that were said before are not asked about again."""
    known = classifier.headless
    hit = known.get((text, announced)) or recover.match_headless(classifier.catalog, text, announced, present)
    if hit is not None and len(text) <= _SHORT and len(known) < _KNOWN_MOST:
        known[text, announced] = hit
    return hit


def _take_said(work: Work, said: list[_Said]) -> None:
    """Takes the messages of lines that were asked about one by one."""
    frame = records(work, [piece for piece, _ in said])
    by_rule = grouped((match.message.name, index) for index, (_, match) in enumerate(said))
    for name, indexes in by_rule.items():
        group = frame[indexes]
        if has_loud(group["_level"]):
            work.warned.add(name)
        for row in take(work, name, group).iter_slices(1):
            again = work.classifier.catalog.match_collapsed(row["_body"][0])
            if again is not None:
                take_one(work, row, again)


def _level_of(match: Match, announced: bool) -> str:
    """The level at which NCCL would have printed a message that has no head."""
    named = {"versions": "VERSION", "diagnostics": "DIAG"}
    loud = announced or match.message.table == "errors"
    return named.get(match.message.table or "", "WARN" if loud else "INFO")


_WRAPPED_LEAST: Final = 60
_TAG: Final = 12


def _wrapped(work: Work, number: int, text: str) -> tuple[Match, str, int] | None:
    """A message without a head that a terminal wrapped onto the next lines, within words or between them."""
    parts = [text]
    for taken in range(1, _WRAPPED_MOST + 1):
        following = work.line(number + taken).strip()
        if len(parts[-1]) < _WRAPPED_LEAST or not following:
            return None
        if SEPARATOR in following and any(f"{SEPARATOR}{level}" in following for level in LEVELS):
            return None  # a record
        if following[:_TAG] == text.lstrip()[:_TAG]:
            return None  # a line of its own, behind the same tag
        parts.append(following)
        for glue in ("", " "):
            hit = recover.match_headless(work.classifier.catalog, glue.join(parts))
            if hit is not None and hit[2] < len(text):
                work.used.update(range(number + 1, number + taken + 1))
                return hit
    return None


def read_chunk(chunk: Chunk, classifier: Classifier) -> ChunkResult:
    """Takes a chunk apart. Every physical line ends as parsed, unknown, foreign or torn.

    Lines count from the beginning of the chunk, or of an input in it; ``records.moved`` gives them their
    place in the input.
    """
    lines = lines_of(chunk)
    work = Work(classifier, lines, _places(chunk, lines.len()), chunk.last)
    sizes = lines.str.len_bytes()
    texts = _cut_long(lines, sizes, chunk.longest)
    frame = pl.DataFrame({"_text": texts}).with_row_index("_line", 1).cast({"_line": pl.UInt64})
    blank = sizes == 0
    if blank.sum() > lines.len() // 4:
        frame = frame.filter(~blank)  # they are counted, and nothing else is to be done with them
    repeats: dict[int, tuple[int, int]] = {}
    if lines.str.contains(_REPEATED_SIGN, literal=True).any():
        told = frame.select("_line", pl.col("_text").str.extract(_REPEATED).cast(pl.UInt32, strict=False).alias("_n"))
        for number, count in told.drop_nulls().iter_rows():
            input_id, line = work.places.at(number)
            before = repeats.get(input_id, (0, line))
            repeats[input_id] = (before[0] + count, before[1])
        frame = frame.with_columns(pl.col("_text").str.replace(_REPEATED, ""))
    fast, others = split_clean(frame)
    fast = fast.with_columns(_sub=pl.lit(0, pl.UInt16))
    left = [_repair(work, take_records(work, fast))]
    lost_clean = work.places.count(left[0]["_line"])
    work.clean = [n - m for n, m in zip(work.places.count(fast["_line"]), lost_clean, strict=True)]
    work.parsed.clear()
    others = others.filter(pl.col("_text").str.len_bytes() > 0).with_columns(_before=pl.col("_text").shift(1))
    others = _take_floods(work, others)
    others = others.hstack(likely.likely(others["_text"], lambda: classifier.telling))
    near = others.filter("_near")
    told = near.filter("_likely")
    lost, seen = _take_irregular(work, told)
    left.append(lost)
    _note_fragments(work, told, seen)
    _take_headless(work, near, seen)
    outputs = host_tools.output_lines(lines, told, work.places.starts)
    return _result(work, pl.concat(left), others.drop("_before", "_near"), repeats, outputs)


def _cut_long(lines: pl.Series, sizes: pl.Series, longest: int) -> pl.Series:
    """The lines, those that are too long without their ends."""
    most = sizes.max()
    if not isinstance(most, int) or most <= longest:
        return lines
    cut = lines.to_frame("text").select(
        pl.when(sizes > longest).then(pl.col("text").str.head(longest)).otherwise("text")
    )
    return cut.to_series().alias("_text")


def _places(chunk: Chunk, lines: int) -> Places:
    if len(chunk.starts) == 1:
        return Places(chunk.input_ids, chunk.starts, (lines,))
    ends = (*chunk.starts[1:], lines + 1)
    counts = tuple(end - start - 1 for start, end in zip(chunk.starts, ends, strict=True))
    return Places(chunk.input_ids, chunk.starts, counts)


def _result(
    work: Work, unknown: pl.DataFrame, others: pl.DataFrame, repeats: dict[int, tuple[int, int]], outputs: pl.DataFrame
) -> ChunkResult:
    """Counts the lines. Those of clean records are either parsed or unknown; all others may be several things."""
    used = pl.Series("_line", sorted(work.used), dtype=pl.UInt64)
    torn = pl.Series("_line", sorted(work.torn), dtype=pl.UInt64)
    good = pl.concat([*work.parsed, used]).unique()
    good = good.filter(~good.is_in(torn.implode()))
    lost = unknown["_line"].unique()
    lost = lost.filter(~lost.is_in(good.implode()) & ~lost.is_in(torn.implode()))
    unknown = unknown.filter(~pl.col("_line").is_in(good.implode()))
    places = work.places
    messages = {
        name: places.place(pl.concat(parts, how="diagonal_relaxed") if len(parts) > 1 else parts[0])
        for name, parts in work.parts.items()
    }
    line = pl.col("_line")
    if len(places.starts) > 1:
        between = [start + count for start, count in zip(places.starts, places.counts, strict=True)]
        others = others.filter(~line.is_in(between))
    rest = others.filter(~line.is_in(good.implode()) & ~line.is_in(lost.implode()) & ~line.is_in(torn.implode()))
    foreign = places.place(rest)
    # What stands last is hardly ever blank.
    said = foreign.tail(_TAIL) if len(places.starts) == 1 else foreign
    said = said.filter(pl.col("_text").str.contains(r"\S"))
    if said.is_empty():
        said = foreign.filter(pl.col("_text").str.contains(r"\S"))
    ends = dict(said.group_by("input_id").agg(pl.col("_line").max()).iter_rows())
    fates: dict[int, Fate] = {}
    counts = (places.count(lines) for lines in (good, lost, torn))
    columns = zip(places.input_ids, places.counts, work.clean, *counts, strict=True)
    for input_id, count, clean, parsed, missed, broken in columns:
        known = clean + parsed
        fates[input_id] = Fate(count, known, missed, count - known - missed - broken, broken, ends.get(input_id, 0))
    return ChunkResult(
        fates=fates,
        torn_lines=grouped(map(places.at, sorted(work.torn))),
        repeats=repeats,
        messages=messages,
        unknown=places.place(unknown),
        foreign=foreign,
        outputs=places.place(outputs),
        heads=places.place(pl.concat(work.heads)),
        warned=frozenset(work.warned),
    )

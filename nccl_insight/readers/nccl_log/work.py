"""One chunk while it is taken apart: records go to rules, heads to a table of heads."""

from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.language.catalog import Match
from nccl_insight.readers.nccl_log import head, recover
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.extract import extract, row_of
from nccl_insight.readers.nccl_log.floods import LEAST, begin_with, holds_any, openings
from nccl_insight.readers.nccl_log.records import RECORD, Places
from nccl_insight.readers.nccl_log.split import SEPARATOR
from nccl_insight.tables.schema import QUIET_LEVELS, is_loud

_FOLLOW_MOST: Final = 80
# Where more of a sample of heads differ than this, they are parsed without their times.
_DATED: Final = 0.9


@dataclass
class Work:
    """Collects records while a chunk is taken apart.

    ``clean``: lines parsed that were one clean record, by input; ``parsed``: all others that were parsed. ``ends``: the
    inputs end with the chunk.
    """

    classifier: Classifier
    lines: pl.Series
    places: Places
    ends: bool = True
    parts: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    heads: list[pl.DataFrame] = field(default_factory=list)
    head_count: int = 0
    clean: list[int] = field(default_factory=list)
    parsed: list[pl.Series] = field(default_factory=list)
    warned: set[str] = field(default_factory=set)
    torn: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)

    def line(self, number: int) -> str:
        """Text of a line by its number in the chunk; empty outside of it."""
        at = number - 1
        return str(self.lines[at]) if 0 <= at < self.lines.len() else ""

    def add_heads(self, heads: pl.DataFrame) -> int:
        """Takes rows for the table of heads and gives the number of the first."""
        first = self.head_count
        self.heads.append(heads)
        self.head_count += heads.height
        return first

    def accept(self, name: str, rows: pl.DataFrame) -> None:
        """Takes rows of a rule."""
        if rows.height:
            self.parts.setdefault(name, []).append(rows)
            self.parsed.append(rows["_line"])


def with_heads(work: Work, frame: pl.DataFrame) -> pl.DataFrame:
    """Replaces ``_head`` by ``_hid``; every distinct head of an input is parsed once."""
    if len(work.places.starts) == 1:
        keyed = frame.with_columns(_key=pl.col("_head").hash())
    else:
        keyed = frame.hstack([work.places.slots(frame["_line"]).alias("_slot")])
        keyed = keyed.with_columns(_key=pl.struct("_head", "_slot").hash()).drop("_slot")
    unique = keyed.select("_key", "_head", "_line", _lines=pl.lit(1, pl.UInt64))
    if unique["_key"].n_unique() < unique.height:
        place, count = pl.col("_head", "_line").first(), pl.col("_lines").sum()
        unique = unique.group_by("_key", maintain_order=True).agg(place, count)
    parsed = work.classifier.heads.parsed(unique["_head"])
    heads = parsed.select(pl.col(c).alias(f"_{c}") for c in head.COLUMNS)
    first = work.add_heads(heads.hstack(unique[["_line", "_lines"]]))
    numbers = unique.select("_key", _hid=pl.int_range(first, first + unique.height, dtype=pl.UInt32))
    if unique.height == keyed.height:
        return keyed.drop("_head", "_key").hstack(numbers[["_hid"]])
    return keyed.drop("_head").join(numbers, on="_key", how="left", maintain_order="left").drop("_key")


def records(work: Work, pieces: list[recover.Piece]) -> pl.DataFrame:
    """Records that were found one by one."""
    frame = pl.DataFrame(
        {
            "_line": [p.line for p in pieces],
            "_sub": [p.sub for p in pieces],
            "_head": [p.head for p in pieces],
            "_level": [p.level for p in pieces],
            "_body": [p.body for p in pieces],
        },
        schema={"_line": pl.UInt64, "_sub": pl.UInt16, "_head": pl.String, "_level": pl.String, "_body": pl.String},
    )
    return with_heads(work, frame).select(list(RECORD))


def has_loud(levels: pl.Series) -> bool:
    """Whether a record is as loud as a warning."""
    return bool(levels.is_in(QUIET_LEVELS).not_().any())


def _distinct(texts: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The distinct texts, and for each text which of them it is: all ranks print many lines alike."""
    keys = texts.hash()
    first = keys.is_first_distinct()
    numbers = pl.DataFrame({"key": keys.filter(first)}).with_row_index("at")
    at = pl.DataFrame({"key": keys}).join(numbers, on="key", how="left", maintain_order="left")["at"]
    return texts.filter(first), at


@dataclass
class _Flood:
    """The texts of a chunk that are likely of one rule: how they begin, and literals that none of them may hold."""

    openings: list[str] = field(default_factory=list)
    without: dict[str, None] = field(default_factory=dict)


def _floods(work: Work, bodies: pl.Series) -> dict[str, _Flood]:
    """The floods of a chunk by rule: texts of one rule may begin in several ways, as calls do with their operation."""
    found: dict[str, _Flood] = {}
    for opening, sample in openings(bodies).items():
        guessed = work.classifier.guess(opening, sample)
        if guessed is not None:
            flood = found.setdefault(guessed.rule, _Flood())
            flood.openings.append(opening)
            flood.without |= dict.fromkeys(guessed.without)
    return found


def _take_floods(work: Work, frame: pl.DataFrame) -> pl.DataFrame:
    """Takes the records of floods; returns all others."""
    if frame.height < LEAST:
        return frame
    taken: pl.Series | None = None
    some_loud = has_loud(frame["_level"])
    for name, flood in _floods(work, frame["_body"]).items():
        mask = begin_with(frame["_body"], flood.openings)
        if taken is not None:
            mask &= ~taken
        rows = frame.filter(mask)
        texts = rows["_body"]
        if holds_any(texts, list(flood.without)):
            continue
        loud = some_loud and has_loud(rows["_level"])
        rule = work.classifier.catalog.compiled(name)
        unwanted = frozenset() if loud else work.classifier.unwanted(name)
        accepted, columns = extract(rule, texts, unwanted)
        if loud:
            work.warned.add(name)
        whole = bool(accepted.all())
        kept = rows.hstack(columns) if columns else rows
        kept = kept if whole else kept.filter(accepted)
        if "_head" in kept.columns:
            kept = with_heads(work, kept if loud or work.classifier.is_error(name) else _undated(kept))
        work.accept(name, kept)
        at = mask if whole else mask.clone().scatter(mask.arg_true().filter(~accepted).to_list(), False)
        taken = at if taken is None else taken | at
    return frame if taken is None else frame.filter(~taken)


def _undated(rows: pl.DataFrame) -> pl.DataFrame:
    heads = head.undated(rows["_head"])
    return rows.with_columns(heads.alias("_head"))


def take_records(work: Work, frame: pl.DataFrame) -> pl.DataFrame:
    """Like :func:`take_classified` for records that still have the text of their head.

    Where nearly each head is another, because of the times in them, the rows of floods do without: nothing asks when
    a single one of millions was printed, and each head would cost more than its line.
    """
    some = frame["_head"].gather_every(max(1, frame.height // LEAST))
    if frame.height >= LEAST and some.n_unique() > _DATED * some.len():
        frame = _take_floods(work, frame)
    return take_classified(work, with_heads(work, frame).select(list(RECORD)))


def take_classified(work: Work, frame: pl.DataFrame) -> pl.DataFrame:
    """Classifies records and extracts their columns; returns those that no rule accepts."""
    frame = _take_floods(work, frame)
    if not frame.height:
        return frame
    texts, at = _distinct(frame["_body"])
    chosen = work.classifier.classify(texts).with_columns(
        _body=texts, at=pl.int_range(pl.len(), dtype=pl.UInt32).over("rule", "blanks")
    )
    rule = chosen["rule"].gather(at).alias("_rule")
    frame = frame.hstack([rule, chosen["blanks"].gather(at).alias("_blanks"), chosen["at"].gather(at).alias("_at")])
    loud = frame.filter(is_loud(pl.col("_level")) & (pl.col("_rule") >= 0))["_rule"].unique().to_list()
    work.warned.update(work.classifier.names[number] for number in loud)
    left: list[pl.DataFrame] = []
    bodies = chosen.select("rule", "blanks", "_body").partition_by("rule", "blanks", as_dict=True, include_key=False)
    groups = frame.partition_by("_rule", "_blanks", as_dict=True, include_key=False)
    for (number, blanks), rows in groups.items():
        at = rows.drop_in_place("_at")
        if number < 0:
            left.append(rows)
            continue
        name = work.classifier.names[int(number)]
        found = bodies[number, blanks]["_body"]
        if blanks:
            rows = rows.with_columns(pl.col("_body").str.replace_all(" +", " "))
            found = found.str.replace_all(" +", " ")
        left.append(take(work, name, rows, bool(blanks), found, at))
    return pl.concat([part[list(RECORD)] for part in left])


def take(
    work: Work,
    name: str,
    rows: pl.DataFrame,
    blanks: bool = False,
    texts: pl.Series | None = None,
    at: pl.Series | None = None,
) -> pl.DataFrame:
    """Rows of one rule, as far as it accepts them; returns the others.

    ``texts`` and ``at``: the distinct texts of the rows, and which of them is whose.
    """
    rule = work.classifier.catalog.compiled(name, blanks)
    if rule.head_pattern is not None:
        return _take_multiline(work, name, rows)
    accepted, columns = extract(rule, rows["_body"] if texts is None else texts)
    if texts is not None and at is not None and texts.len() < rows.height:
        accepted = accepted.gather(at)
        columns = pl.DataFrame(columns)[at].get_columns() if columns else []
    kept = rows.hstack(columns) if columns else rows
    if accepted.all():
        work.accept(name, kept)
        return rows.clear()
    work.accept(name, kept.filter(accepted))
    return rows.filter(~accepted)


def _take_multiline(work: Work, name: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Rules that span lines: joins the following lines without head as far as they continue the rule.

    Versions of a message may share the first line; then the rule that takes most of the following lines is the one.
    """
    catalog = work.classifier.catalog
    taken: list[int] = []
    out: dict[str, list[pl.DataFrame]] = {}
    for index, (number, body) in enumerate(zip(rows["_line"].to_list(), rows["_body"].to_list(), strict=True)):
        following: list[str] = []
        while len(following) < _FOLLOW_MOST:
            text = work.line(number + len(following) + 1)
            if SEPARATOR in text or (not text and following and not following[-1]):
                break
            following.append(text)
        names = dict.fromkeys((name, *(n for n in catalog.candidates(body) if catalog.spans_lines(n))))
        joined: list[tuple[Match, int]] = []
        for lines in recover.untagged(work.line(number), following):
            joined = [j for j in (recover.extend(catalog, n, body, lines) for n in names) if j is not None]
            if joined:
                break
        match: Match | None
        count = 0
        if joined:
            match, count = max(joined, key=lambda j: (not j[0].message.last_resort, j[1]))
            work.used.update(range(number + 1, number + 1 + count))
        else:
            match = catalog.try_rule(name, body)
        if match is not None:
            taken.append(index)
            more = pl.lit("\n".join(following[:count]) or None, pl.String)
            row = rows[index].with_columns(_more=more)
            out.setdefault(match.message.name, []).append(_joined(work, row, match))
    loud = has_loud(rows["_level"])
    for found, frames in out.items():
        work.warned.update([found] if loud else [])
        work.accept(found, pl.concat(frames, how="diagonal_relaxed"))
    missed = sorted(set(range(rows.height)) - set(taken))
    return rows[missed]


def _joined(work: Work, row: pl.DataFrame, match: Match) -> pl.DataFrame:
    dtypes = dict(work.classifier.catalog.compiled(match.message.name).columns)
    values = {k: [v] for k, v in row_of(match, dtypes).items()}
    return pl.concat([row, pl.DataFrame(values)], how="horizontal") if values else row


def take_one(work: Work, row: pl.DataFrame, match: Match) -> None:
    """A record whose rule and captures are known already."""
    if has_loud(row["_level"]):
        work.warned.add(match.message.name)
    work.accept(match.message.name, _joined(work, row, match))

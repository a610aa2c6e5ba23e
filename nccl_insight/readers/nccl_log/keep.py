"""What is kept of a chunk: typed rows without their text, and warnings with theirs.

A row that keeps a piece of text must own it: a column that polars cut out of a chunk's text holds the whole
text in memory, which would make memory grow with the log.
"""

from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.words import words
from nccl_insight.language.syntax import Grammar, Message
from nccl_insight.readers.embedded.lines import tool_lines
from nccl_insight.readers.nccl_log import hexadecimal
from nccl_insight.readers.nccl_log.classify import CALL_DETAILS, UNNEEDED_TABLES
from nccl_insight.readers.nccl_log.records import HEAD, ChunkResult, Counts, attach_heads, with_constants
from nccl_insight.readers.nccl_log.unknown import templates
from nccl_insight.tables.normalise.meaning import meanings
from nccl_insight.tables.schema import is_loud

_FLOODED: Final = frozenset({"calls", "tuning_choice"})
_SMALL: Final = frozenset(
    words("""dtype_code red_op_code root nranks _length channels_lo channels_hi algorithm_code
    protocol_code""")
)
_SAME: Final = ("input_id", "_level", "_host", "_pid", "_tid", "_dev", "_source", "_body")
# What changes from line to line in the tag of one writer: clocks, dates, glog's day, seconds since boot.
_CLOCK: Final = "|".join(
    (
        r"[0-9]{2}:[0-9]{2}:[0-9]{2}\S*",
        r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}",
        r"\b[IWEF][0-9]{3,4}\b",
        r"\[ *[0-9]+\.[0-9]+\]",
    )
)
_FLOOD: Final = 1000
# Begins a line of NCCL's diagnostics whose check found nothing.
_ALL_WELL: Final = "[OK]"


@dataclass(frozen=True)
class Kept(Counts):
    """What one chunk gave.

    ``messages``: rows by rule; ``errors``: those of the rules of the errors table. ``loud``: records of a loud level
    that no rule knows, or whose rule feeds another table. ``unknown``: templates. Rows have ``_hid``, which counts
    ``heads``; floods of warnings have the columns of their head and ``repeats`` instead.
    """

    messages: dict[str, pl.DataFrame]
    errors: dict[str, pl.DataFrame]
    loud: list[pl.DataFrame]
    unknown: pl.DataFrame | None
    heads: pl.DataFrame
    processes: pl.DataFrame
    foreign: pl.DataFrame


def fold(frame: pl.DataFrame) -> pl.DataFrame:
    """Folds records that one thread printed again and again word for word; ``repeats`` counts them.

    Lines without a head are of one writer where the tags in front of them agree but for the time. The text of a
    message of several lines goes on in ``_more``.
    """
    same = [*_SAME, *(c for c in ("_more",) if c in frame.columns)]
    if "repeats" not in frame.columns:
        frame = frame.with_columns(repeats=pl.lit(1, pl.UInt64))
    again = frame["_body"].hash().is_duplicated()
    if not again.any():
        return frame
    rows = frame.with_row_index("_at")
    rest = [pl.col(c).first() for c in rows.columns if c not in {*same, "repeats"}]
    tag = pl.lit(None, pl.String)
    if frame["_host"].null_count():
        tag = pl.when(pl.col("_host").is_null()).then(pl.col("_launcher").str.replace_all(_CLOCK, ""))
    once = (
        rows.filter(again)
        .group_by(*same, tag.alias("_tag"), maintain_order=True)
        .agg(*rest, pl.col("repeats").sum())
        .select(rows.columns)
    )
    return pl.concat([rows.filter(~again), once]).sort("_at").drop("_at")


def processes_of(heads: pl.DataFrame) -> pl.DataFrame:
    """First line, launcher rank and number of lines of every (host, pid) of an input, in order of appearance."""
    return (
        heads.sort("input_id", "_line", maintain_order=True)
        .group_by("input_id", "_host", "_pid", maintain_order=True)
        .agg(pl.col("_launcher_rank").drop_nulls().first(), pl.col("_line").first(), pl.col("_lines").sum())
    )


def _own(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """The frame with a text column whose bytes are copied out of the chunk's text."""
    return frame.with_columns(pl.concat_str(column, pl.lit("")).alias(column))


def _warnings(rows: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    """Rows with a text of their own; a flood is folded at once."""
    return _own(fold(attach_heads(rows, heads)) if rows.height > _FLOOD else rows, "_body")


def slim(rule: Message, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows without text, but for what normalisation and connections need of it."""
    body = rows["_body"]
    left_out = {"_body", "_more"} if rule.table == "calls" else {"_body", "_more", "_level"}
    rows = rows[[c for c in rows.columns if c not in left_out]]
    if rule.table == "connections":
        via = body.str.splitn("via ", 2).struct.field("field_1")
        return rows.hstack([via.alias("_via")])
    if "normalise" in rule.directives:
        rows = rows.hstack([body.str.len_bytes().alias("_length")])
    return _packed(rows) if rule.table in _FLOODED else rows


def _packed(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a table that may have millions, in fewer bytes: pointers as numbers, words by number, integers short.

    :func:`nccl_insight.loading.assemble.base.table_rows` gives the words back.
    """
    return rows.select(
        numbers
        if (numbers := hexadecimal.packed(column)) is not None
        else column.cast(pl.Categorical)
        if column.dtype == pl.String
        else column.shrink_dtype()
        if column.name in _SMALL
        else column
        for column in rows.iter_columns()
    )


def _with_heads(rows: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    return attach_heads(rows, heads) if "_hid" in rows.columns else rows


def _means(rule: Message, rows: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
    """Warnings of a message whose values go to another table: what they mean, without the values."""
    keep = [*(c for c in rows.columns if c.startswith("_")), "input_id", "repeats"]
    means = meanings(with_constants(_with_heads(rows, heads), rule), rule)
    rows = rows.select(c for c in keep if c in rows.columns).hstack(means)
    return rows.with_columns(message=pl.lit(rule.name))


def _foreign(result: ChunkResult) -> pl.DataFrame:
    """Lines of other programs that are looked at, ``_output`` for those of host tools: the same line may be both."""
    ends = {input_id: fate.last_foreign for input_id, fate in result.fates.items()}
    rows = [
        frame.with_columns(_output=pl.lit(output))
        for frame, output in ((tool_lines(result.foreign, ends), False), (result.outputs, True))
        if frame.height or not output
    ]
    return _own(pl.concat(rows, how="diagonal"), "_text")


class Keeper:
    """Decides what is kept; the same for all chunks and files. ``details``: tables that no diagnosis needs, too."""

    def __init__(self, grammar: Grammar, details: bool) -> None:
        self._rules = grammar.messages
        self._details = details
        self._dropped = frozenset() if details else UNNEEDED_TABLES

    def keep(self, result: ChunkResult) -> Kept:
        """The part of a chunk's result that a run is made of."""
        messages: dict[str, pl.DataFrame] = {}
        errors: dict[str, pl.DataFrame] = {}
        loud: list[pl.DataFrame] = []
        for name, rows in result.messages.items():
            rule = self._rules[name]
            if rule.table == "errors":
                errors[name] = _warnings(rows, result.heads)
                continue
            # A passed or skipped check of NCCL's diagnostics is no trouble.
            if name in result.warned and (rule.table != "diagnostics" or rule.meaning is not None):
                # A warning is an error row too, whatever table its values go to.
                known = rows.filter(is_loud(pl.col("_level")))
                if known.height:
                    loud.append(_means(rule, _warnings(known, result.heads), result.heads))
            if rule.table is not None and rule.table not in self._dropped:
                if rule.table == "calls" and not self._details:
                    rows = rows.drop(CALL_DETAILS, strict=False)
                messages[name] = slim(rule, rows)
        unknown = result.unknown
        loud_rows = is_loud(pl.col("_level")) & ~pl.col("_body").str.starts_with(_ALL_WELL)
        strange = unknown.filter(loud_rows) if unknown.height else unknown
        if strange.height:
            strange = _warnings(strange, result.heads)
            loud.append(strange.hstack(meanings(_with_heads(strange, result.heads), None)))
        return Kept(
            messages=messages,
            errors=errors,
            loud=loud,
            unknown=_own(templates(unknown), "example") if unknown.height else None,
            heads=result.heads.select(*HEAD, "input_id"),
            processes=processes_of(result.heads),
            foreign=_foreign(result),
            fates=result.fates,
            torn_lines=result.torn_lines,
            repeats=result.repeats,
        )

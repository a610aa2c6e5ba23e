"""Reading of one NCCL log: chunks in parallel, one result in line order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import polars as pl

from nccl_insight.ingest.chunk import HEAD, RECORD, ChunkResult, Fate, attach_heads, read_chunk
from nccl_insight.ingest.classify import Classifier, template
from nccl_insight.io.chunks import ChunkIndex, read_chunks
from nccl_insight.io.embedded import tool_lines
from nccl_insight.io.source import InputFile

_TEMPLATES_MOST: Final = 5000
_LOUD: Final = ("WARN", "ABORT", "DIAG")
# Tables of inner workings, large in verbose logs; no diagnosis needs them.
DETAIL_TABLES: Final = frozenset({"memory", "proxy", "registration", "api_calls", "tuning_model"})
_SAME: Final = ("_level", "_host", "_pid", "_tid", "_dev", "_source", "_body")


@dataclass(frozen=True)
class LogPart:
    """What one log gave.

    ``messages``: rows by grammar rule. ``loud``: WARN, ABORT, DIAG records that no rule knows. ``unknown``: templates
    of all records that no rule knows. ``heads``: the heads that ``_hid`` of the messages counts. ``processes``: first
    line and launcher rank of every (host, pid). ``foreign``: lines of other tools.
    """

    messages: dict[str, pl.DataFrame]
    loud: pl.DataFrame
    unknown: pl.DataFrame
    heads: pl.DataFrame
    processes: pl.DataFrame
    foreign: pl.DataFrame
    fate: Fate
    torn_lines: tuple[int, ...]
    repeats: tuple[int, int]


def fold(frame: pl.DataFrame) -> pl.DataFrame:
    """Folds records that one thread printed again and again word for word; ``repeats`` counts them."""
    if "repeats" not in frame.columns:
        frame = frame.with_columns(repeats=pl.lit(1, pl.UInt64))
    rest = [pl.col(c).first() for c in frame.columns if c not in {*_SAME, "repeats"}]
    return (
        frame.group_by(_SAME, maintain_order=True).agg(*rest, pl.col("repeats").sum()).select(frame.columns)
    )


def processes_of(heads: pl.DataFrame) -> pl.DataFrame:
    """First line, launcher rank and number of lines of every (host, pid), in order of appearance."""
    return (
        heads.sort("_line", maintain_order=True)
        .group_by("_host", "_pid", maintain_order=True)
        .agg(pl.col("_launcher_rank").drop_nulls().first(), pl.col("_line").first(), pl.col("_lines").sum())
    )


def chunk_results(
    file: InputFile, index: ChunkIndex, classifier: Classifier, workers: int | None = None
) -> Iterator[ChunkResult]:
    """Results of an input's chunks in order; at most one chunk more than workers is in memory."""
    count = workers or min(8, os.cpu_count() or 1)
    chunks = read_chunks(file, index)
    if count == 1:
        yield from (read_chunk(c, classifier) for c in chunks)
        return
    with ThreadPoolExecutor(count) as pool:
        waiting: deque[Future[ChunkResult]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(read_chunk, chunk, classifier))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _errors(classifier: Classifier) -> frozenset[str]:
    rules = classifier.catalog.grammar.messages
    return frozenset(n for n, m in rules.items() if m.table == "errors")


def templates(unknown: pl.DataFrame) -> pl.DataFrame:
    """Templates of unknown records with their number, level, first line and an example."""
    return (
        unknown.with_columns(template=template(pl.col("_body")))
        .group_by("template", "_level", maintain_order=True)
        .agg(
            count=pl.len().cast(pl.UInt64),
            example=pl.col("_body").first().str.slice(0, 500),
            line=pl.col("_line").first(),
        )
        .rename({"_level": "level"})
    )


def merge_templates(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """One row a template over several chunks, most frequent first; rare ones beyond a limit are summed up."""
    schema = {
        "template": pl.String,
        "level": pl.String,
        "count": pl.UInt64,
        "example": pl.String,
        "line": pl.UInt64,
    }
    if not parts:
        return pl.DataFrame(schema=schema)
    merged = (
        pl.concat(parts)
        .group_by("template", "level", maintain_order=True)
        .agg(pl.col("count").sum(), pl.col("example").first(), pl.col("line").first())
        .sort("count", "line", descending=[True, False])
    )
    if merged.height <= _TEMPLATES_MOST:
        return merged
    rest = merged[_TEMPLATES_MOST:]
    other = pl.DataFrame(
        {
            "template": ["(further templates)"], "level": [None], "count": [rest["count"].sum()],
            "example": [rest["example"][0]], "line": [rest["line"][0]],
        },
        schema=schema,
    )  # fmt: skip
    return pl.concat([merged[:_TEMPLATES_MOST], other])


class _Merger:
    """Collects chunk results; floods are folded while they stream."""

    def __init__(self, input_id: int, classifier: Classifier, details: bool) -> None:
        self._id = pl.lit(input_id, pl.UInt16).alias("input_id")
        self._rules = classifier.catalog.grammar.messages
        self._kept = {
            n for n, m in self._rules.items() if m.table and (details or m.table not in DETAIL_TABLES)
        }
        self._errors = _errors(classifier)
        self._messages: dict[str, list[pl.DataFrame]] = {}
        self._loud: list[pl.DataFrame] = []
        self._unknown: list[pl.DataFrame] = []
        self._heads: list[pl.DataFrame] = []
        self._head_count = 0
        self._processes: list[pl.DataFrame] = []
        self._fate = Fate()
        self._torn: list[int] = []
        self._repeats = 0
        self._repeat_line = 0

    def add(self, result: ChunkResult) -> None:
        for name, rows in result.messages.items():
            if name not in self._errors:
                self._warn(name, rows, result.heads)
            if name in self._kept:
                self._messages.setdefault(name, []).append(self._slim(name, rows, result.heads))
        if result.unknown.height:
            self._unknown.append(templates(result.unknown))
            loud = result.unknown.filter(pl.col("_level").is_in(_LOUD))
            if loud.height:
                self._loud.append(fold(attach_heads(loud, result.heads)))
        self._heads.append(result.heads.drop("_line", "_lines"))
        self._head_count += result.heads.height
        self._processes.append(processes_of(result.heads))
        self._fate += result.fate
        self._torn += result.torn_lines
        self._repeats += result.repeats[0]
        self._repeat_line = self._repeat_line or result.repeats[1]

    def _warn(self, name: str, rows: pl.DataFrame, heads: pl.DataFrame) -> None:
        """A warning is an error row too, whatever table its values go to."""
        loud = rows.filter(pl.col("_level").is_in(_LOUD))
        if loud.height:
            family = self._rules[name].directives.get("family", "other")
            known = loud.select(list(RECORD)).with_columns(message=pl.lit(name), family=pl.lit(family))
            self._loud.append(fold(attach_heads(known, heads)))

    def _slim(self, name: str, rows: pl.DataFrame, heads: pl.DataFrame) -> pl.DataFrame:
        """Error rows whole, and folded; others without their text, so that memory does not grow with the log's."""
        rule = self._rules[name]
        if rule.table == "errors":
            return fold(attach_heads(rows, heads))
        if rule.table == "connections":
            rows = rows.with_columns(_body=pl.col("_body").str.extract(r"via (.*)$"))
        elif "normalise" not in rule.directives:
            rows = rows.drop("_body")
        return rows.with_columns(pl.col("_hid") + self._head_count) if self._head_count else rows

    def done(self, foreign: list[pl.DataFrame]) -> LogPart:
        messages: dict[str, pl.DataFrame] = {}
        for name, parts in self._messages.items():
            rows = pl.concat(parts, how="diagonal_relaxed")
            messages[name] = (fold(rows) if name in self._errors else rows).with_columns(self._id)
        loud = pl.concat(self._loud, how="diagonal_relaxed") if self._loud else pl.DataFrame()
        return LogPart(
            messages=messages,
            loud=fold(loud).with_columns(self._id) if loud.height else loud,
            unknown=merge_templates(self._unknown).with_columns(self._id),
            heads=pl.concat(self._heads) if self._heads else pl.DataFrame(schema=HEAD),
            processes=processes_of(pl.concat(self._processes)).with_columns(self._id)
            if self._processes
            else pl.DataFrame(),
            foreign=pl.concat(foreign) if foreign else pl.DataFrame(),
            fate=self._fate,
            torn_lines=tuple(self._torn[:1000]),
            repeats=(self._repeats, self._repeat_line),
        )


def read_log(
    file: InputFile,
    index: ChunkIndex,
    classifier: Classifier,
    workers: int | None = None,
    details: bool = True,
) -> LogPart:
    """Reads a whole log. Never raises for bad content; ``index.damage`` tells a broken stream.

    ``details``: keep the rows of ``DETAIL_TABLES`` too.
    """
    merger = _Merger(file.input_id, classifier, details)
    foreign: list[pl.DataFrame] = []
    for result in chunk_results(file, index, classifier, workers):
        merger.add(result)
        if result.foreign.height:
            foreign.append(tool_lines(result.foreign))
    return merger.done(foreign)

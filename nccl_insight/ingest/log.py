"""Reading of one NCCL log: chunks in parallel, one result in line order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from nccl_insight.ingest.chunk import read_chunk
from nccl_insight.ingest.classify import Classifier
from nccl_insight.ingest.keep import Keeper, Kept, fold, processes_of
from nccl_insight.ingest.records import HEAD, ChunkResult, Fate, attach_heads, moved, shifted
from nccl_insight.ingest.unknown import merge_templates
from nccl_insight.io.chunks import Chunk, ChunkIndex, read_chunks
from nccl_insight.io.source import InputFile

T = TypeVar("T")


@dataclass(frozen=True)
class LogPart:
    """What one log gave.

    ``chunks``: the rows of each chunk by grammar rule; those of the errors table stand all in the last. ``loud``: WARN,
    ABORT, DIAG records that no rule knows. ``unknown``: templates of all records that no rule knows. ``heads``: the
    heads that ``_hid`` of the rows counts. ``processes``: first line and launcher rank of every (host, pid).
    ``foreign``: lines of other tools.
    """

    chunks: list[dict[str, pl.DataFrame]]
    loud: pl.DataFrame
    unknown: pl.DataFrame
    heads: pl.DataFrame
    processes: pl.DataFrame
    foreign: pl.DataFrame
    fate: Fate
    torn_lines: tuple[int, ...]
    repeats: tuple[int, int]


def _map(file: InputFile, index: ChunkIndex, work: Callable[[Chunk], T], workers: int | None) -> Iterator[T]:
    """Results of an input's chunks in order; at most one chunk more than workers is in memory."""
    count = workers or min(8, os.cpu_count() or 1)
    chunks = read_chunks(file, index)
    if count == 1:
        yield from map(work, chunks)
        return
    with ThreadPoolExecutor(count) as pool:
        waiting: deque[Future[T]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def chunk_results(
    file: InputFile, index: ChunkIndex, classifier: Classifier, workers: int | None = None
) -> Iterator[ChunkResult]:
    """All records of an input, chunk by chunk in order."""
    for result in _map(file, index, lambda chunk: read_chunk(chunk, classifier), workers):
        yield moved(result, index.counted(result.fate.lines))


def _with_input(rows: pl.DataFrame, source: pl.Series) -> pl.DataFrame:
    return rows.hstack([source.new_from_index(0, rows.height)])


def _folded(frames: Sequence[pl.DataFrame], heads: pl.DataFrame) -> pl.DataFrame:
    """Warnings of all chunks, with the columns of their heads, folded."""
    plain = [f for f in frames if "_hid" in f.columns]
    rows = [f for f in frames if "_hid" not in f.columns]
    if plain:
        rows.append(
            attach_heads(pl.concat(plain, how="diagonal_relaxed"), heads).with_columns(
                repeats=pl.lit(1, pl.UInt64)
            )
        )
    merged = pl.concat(rows, how="diagonal_relaxed").sort("_line", "_sub", maintain_order=True)
    return fold(merged)


class _Merger:
    """Collects what the chunks gave."""

    def __init__(self, input_id: int) -> None:
        self._source = pl.Series("input_id", [input_id], dtype=pl.UInt16)
        self._chunks: list[dict[str, pl.DataFrame]] = []
        self._errors: dict[str, list[pl.DataFrame]] = {}
        self._loud: list[pl.DataFrame] = []
        self._unknown: list[pl.DataFrame] = []
        self._heads: list[pl.DataFrame] = []
        self._head_count = 0
        self._processes: list[pl.DataFrame] = []
        self._foreign: list[pl.DataFrame] = []
        self._fate = Fate()
        self._torn: list[int] = []
        self._repeats = 0
        self._repeat_line = 0

    def _at(self, rows: pl.DataFrame, before: int) -> pl.DataFrame:
        return shifted(shifted(rows, "_hid", self._head_count), "_line", before)

    def add(self, kept: Kept, before: int) -> None:
        """Takes what a chunk gave that stands behind so many lines."""
        self._chunks.append(
            {name: _with_input(self._at(rows, before), self._source) for name, rows in kept.messages.items()}
        )
        for name, rows in kept.errors.items():
            self._errors.setdefault(name, []).append(self._at(rows, before))
        self._loud += [self._at(rows, before) for rows in kept.loud]
        if kept.unknown is not None:
            self._unknown.append(shifted(kept.unknown, "line", before))
        self._heads.append(kept.heads)
        self._head_count += kept.heads.height
        self._processes.append(shifted(kept.processes, "_line", before))
        if kept.foreign.height:
            self._foreign.append(shifted(kept.foreign, "_line", before))
        self._fate += kept.fate
        self._torn += [line + before for line in kept.torn_lines]
        self._repeats += kept.repeats[0]
        if kept.repeats[1] and not self._repeat_line:
            self._repeat_line = kept.repeats[1] + before

    def done(self) -> LogPart:
        heads = pl.concat(self._heads) if self._heads else pl.DataFrame(schema=HEAD)
        processes = pl.DataFrame()
        if self._processes:
            processes = _with_input(processes_of(pl.concat(self._processes)), self._source)
        errors = {n: _with_input(_folded(f, heads), self._source) for n, f in self._errors.items()}
        return LogPart(
            chunks=[*self._chunks, errors],
            loud=_with_input(_folded(self._loud, heads), self._source) if self._loud else pl.DataFrame(),
            unknown=_with_input(merge_templates(self._unknown), self._source),
            heads=heads,
            processes=processes,
            foreign=pl.concat(self._foreign) if self._foreign else pl.DataFrame(),
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

    ``details``: keep the rows of the large tables of inner workings too.
    """
    keeper = Keeper(classifier.catalog.grammar, details)
    merger = _Merger(file.input_id)
    for kept in _map(file, index, lambda chunk: keeper.keep(read_chunk(chunk, classifier)), workers):
        merger.add(kept, index.counted(kept.fate.lines))
    return merger.done()

"""Reading of one NCCL log: chunks in parallel, one result in line order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

import polars as pl

from nccl_insight.ingest.chunk import read_chunk
from nccl_insight.ingest.classify import Classifier
from nccl_insight.ingest.keep import Keeper, Kept, fold, processes_of
from nccl_insight.ingest.records import HEAD, ChunkResult, Fate, attach_heads, moved, shifted
from nccl_insight.ingest.unknown import merge_templates
from nccl_insight.io.chunks import Chunk, ChunkIndex, read_chunks, read_together
from nccl_insight.io.source import InputFile

T = TypeVar("T")


@dataclass(frozen=True)
class LogPart:
    """What one log gave, or several small ones; all rows have ``input_id``.

    ``chunks``: the rows of each chunk by grammar rule; those of the errors table stand all in the last. ``loud``: WARN,
    ABORT, DIAG records that no rule knows. ``unknown``: templates of all records that no rule knows. ``heads``: the
    heads that ``_hid`` of the rows counts. ``processes``: first line and launcher rank of every (host, pid).
    ``foreign``: lines of other tools. The rest by input: lines by fate, torn lines, how many lines Ray left out and
    the first that says so.
    """

    chunks: list[dict[str, pl.DataFrame]]
    loud: pl.DataFrame
    unknown: pl.DataFrame
    heads: pl.DataFrame
    processes: pl.DataFrame
    foreign: pl.DataFrame
    fates: dict[int, Fate]
    torn_lines: dict[int, list[int]]
    repeats: dict[int, tuple[int, int]]

    @property
    def fate(self) -> Fate:
        """Lines of all inputs."""
        return sum(self.fates.values(), Fate())


def _cores() -> int:
    return min(8, os.cpu_count() or 1)


def _map(chunks: Iterator[Chunk], work: Callable[[Chunk], T], workers: int) -> Iterator[T]:
    """Results of chunks in order; at most one chunk more than workers is in memory."""
    if workers == 1:
        yield from map(work, chunks)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[T]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def chunk_results(
    file: InputFile, index: ChunkIndex, classifier: Classifier, workers: int | None = None
) -> Iterator[ChunkResult]:
    """All records of an input, chunk by chunk in order."""
    count = workers or _cores()
    chunks = read_chunks(file, index, count)
    for result in _map(chunks, lambda chunk: read_chunk(chunk, classifier), count):
        yield moved(result, index.counted(result.fate.lines))


def all_results(files: Iterable[InputFile], classifier: Classifier) -> Iterator[ChunkResult]:
    """All records of many inputs, in their order; rows have ``input_id``."""
    count = _cores()
    for small, group in groupby(files, key=lambda file: file.small):
        members = list(group)
        if small:
            chunks = read_together([(file, ChunkIndex()) for file in members], count)
            yield from _map(chunks, lambda chunk: read_chunk(chunk, classifier), count)
        else:
            for file in members:
                yield from chunk_results(file, ChunkIndex(), classifier)


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
    merged = pl.concat(rows, how="diagonal_relaxed").sort("input_id", "_line", "_sub", maintain_order=True)
    return fold(merged)


class _Merger:
    """Collects what the chunks gave."""

    def __init__(self) -> None:
        self._chunks: list[dict[str, pl.DataFrame]] = []
        self._errors: dict[str, list[pl.DataFrame]] = {}
        self._loud: list[pl.DataFrame] = []
        self._unknown: list[pl.DataFrame] = []
        self._heads: list[pl.DataFrame] = []
        self._head_count = 0
        self._processes: list[pl.DataFrame] = []
        self._foreign: list[pl.DataFrame] = []
        self._fates: dict[int, Fate] = {}
        self._torn: dict[int, list[int]] = {}
        self._repeats: dict[int, tuple[int, int]] = {}

    def _at(self, rows: pl.DataFrame, before: int) -> pl.DataFrame:
        return shifted(shifted(rows, "_hid", self._head_count), "_line", before)

    def add(self, kept: Kept, before: int) -> None:
        """Takes what a chunk gave that stands behind so many lines of its input."""
        self._chunks.append({name: self._at(rows, before) for name, rows in kept.messages.items()})
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
        for input_id, fate in kept.fates.items():
            self._fates[input_id] = self._fates.get(input_id, Fate()) + fate
        for input_id, lines in kept.torn_lines.items():
            self._torn.setdefault(input_id, []).extend(line + before for line in lines)
        for input_id, (count, line) in kept.repeats.items():
            known = self._repeats.get(input_id, (0, line + before))
            self._repeats[input_id] = (known[0] + count, known[1])

    def done(self) -> LogPart:
        heads = (
            pl.concat(self._heads) if self._heads else pl.DataFrame(schema={**HEAD, "input_id": pl.UInt16})
        )
        return LogPart(
            chunks=[*self._chunks, {name: _folded(rows, heads) for name, rows in self._errors.items()}],
            loud=_folded(self._loud, heads) if self._loud else pl.DataFrame(),
            unknown=merge_templates(self._unknown),
            heads=heads,
            processes=processes_of(pl.concat(self._processes)) if self._processes else pl.DataFrame(),
            foreign=pl.concat(self._foreign) if self._foreign else pl.DataFrame(),
            fates=self._fates,
            torn_lines=self._torn,
            repeats=self._repeats,
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
    merger = _Merger()
    count = workers or _cores()
    chunks = read_chunks(file, index, count)
    for kept in _map(chunks, lambda chunk: keeper.keep(read_chunk(chunk, classifier)), count):
        merger.add(kept, index.counted(sum(fate.lines for fate in kept.fates.values())))
    part = merger.done()
    return part if part.fates else replace(part, fates={file.input_id: Fate()})


def read_small_logs(
    files: Sequence[tuple[InputFile, ChunkIndex]], classifier: Classifier, details: bool = True
) -> LogPart:
    """Reads many small logs, several at once, like :func:`read_log` each of them."""
    keeper = Keeper(classifier.catalog.grammar, details)
    merger = _Merger()
    indexes = {file.input_id: index for file, index in files}
    count = _cores()
    chunks = read_together(files, count)
    for kept in _map(chunks, lambda chunk: keeper.keep(read_chunk(chunk, classifier)), count):
        for input_id, fate in kept.fates.items():
            indexes[input_id].counted(fate.lines)
        merger.add(kept, 0)
    return merger.done()

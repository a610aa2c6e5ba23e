"""Reading of one NCCL log: chunks in parallel, one result in line order."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias, TypeVar

import polars as pl

from nccl_insight.base.data import dataclass
from nccl_insight.base.threads import in_order
from nccl_insight.inputs.chunks import Chunk, ChunkIndex, Span, read_chunks, read_together
from nccl_insight.inputs.find import InputFile
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log.chunk import read_chunk
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.keep import Keeper, Kept, fold, processes_of
from nccl_insight.readers.nccl_log.records import HEAD, ChunkResult, Counts, Fate, attach_heads, moved, shifted
from nccl_insight.readers.nccl_log.unknown import merge_templates

C = TypeVar("C", bound=Counts)


@dataclass(frozen=True)
class LogPart(Counts):
    """What one log gave, or several small ones; all rows have ``input_id``.

    ``chunks``: the rows of each chunk by grammar rule; those of the errors table stand all in the last. ``loud``: WARN,
    ABORT, DIAG records that no rule knows. ``unknown``: templates of all records that no rule knows. ``heads``: the
    heads that ``_hid`` of the rows counts. ``processes``: first line and launcher rank of every (host, pid).
    ``foreign``: lines of other tools; ``_output`` tells those that are outputs of host tools.
    """

    chunks: list[dict[str, pl.DataFrame]]
    loud: pl.DataFrame
    unknown: pl.DataFrame
    heads: pl.DataFrame
    processes: pl.DataFrame
    foreign: pl.DataFrame


Sources: TypeAlias = Sequence[tuple[InputFile, ChunkIndex]]


def cores() -> int:
    """How many threads to read with."""
    return min(8, os.cpu_count() or 1)


def neighbours(files: Iterable[InputFile]) -> Iterator[list[InputFile]]:
    """Files to be read together, in their order: small ones that follow each other, each large one alone."""
    for small, group in groupby(files, key=lambda file: file.small):
        members = list(group)
        yield from [members] if small else [[file] for file in members]


def _results(
    sources: Sources, work: Callable[[Chunk], C], workers: int, span: Span | None = None
) -> Iterator[tuple[C, int]]:
    """What the chunks of one log, or of several small ones, give, and how many lines of their input stand before."""
    indexes = {file.input_id: index for file, index in sources}
    together = len(sources) > 1
    chunks = read_together(sources, workers) if together else read_chunks(*sources[0], workers, span=span)
    # At most one chunk more than workers is in memory.
    for result in map(work, chunks) if workers == 1 else in_order(work, chunks, workers, workers):
        # Of several inputs in a chunk each is whole, so none has lines before it.
        (before,) = {indexes[input_id].counted(fate.lines) for input_id, fate in result.fates.items()}
        yield result, before


def all_results(files: Iterable[InputFile], classifier: Classifier) -> Iterator[ChunkResult]:
    """All records of many inputs, in their order; rows have ``input_id``."""
    for group in neighbours(files):
        sources = [(file, ChunkIndex()) for file in group]
        for result, before in _results(sources, lambda chunk: read_chunk(chunk, classifier), cores()):
            yield moved(result, before)


def _folded(frames: Sequence[pl.DataFrame], heads: pl.DataFrame) -> pl.DataFrame:
    """Warnings of all chunks, with the columns of their heads, folded."""
    plain = [f for f in frames if "_hid" in f.columns]
    rows = [f for f in frames if "_hid" not in f.columns]
    if plain:
        rows.append(
            attach_heads(pl.concat(plain, how="diagonal_relaxed"), heads).with_columns(repeats=pl.lit(1, pl.UInt64))
        )
    merged = pl.concat(rows, how="diagonal_relaxed").sort("input_id", "_line", "_sub", maintain_order=True)
    return fold(merged)


class Merger:
    """Collects what the chunks gave."""

    def __init__(self, input_ids: Iterable[int]) -> None:
        self._chunks: list[dict[str, pl.DataFrame]] = []
        self._errors: dict[str, list[pl.DataFrame]] = {}
        self._loud: list[pl.DataFrame] = []
        self._unknown: list[pl.DataFrame] = []
        self._heads: list[pl.DataFrame] = []
        self._head_count = 0
        self._processes: list[pl.DataFrame] = []
        self._foreign: list[pl.DataFrame] = []
        self._fates = dict.fromkeys(input_ids, Fate())
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
        if kept.processes.width:
            self._processes.append(shifted(kept.processes, "_line", before))
        if kept.foreign.height:
            self._foreign.append(shifted(kept.foreign, "_line", before))
        for input_id, fate in kept.fates.items():
            self._fates[input_id] += fate
        for input_id, lines in kept.torn_lines.items():
            self._torn.setdefault(input_id, []).extend(line + before for line in lines)
        for input_id, (count, line) in kept.repeats.items():
            known = self._repeats.get(input_id, (0, line + before))
            self._repeats[input_id] = (known[0] + count, known[1])

    def join(self, part: LogPart, before: int) -> None:
        """Takes what others gave for the next inputs, or the next part of an input that has so many lines before it."""
        *chunks, errors = part.chunks
        self._chunks += [{name: self._at(rows, before) for name, rows in chunk.items()} for chunk in chunks]
        self.add(
            Kept(
                messages={}, errors=errors, loud=[part.loud] if part.loud.height else [], heads=part.heads,
                unknown=part.unknown if part.unknown.height else None, processes=part.processes,
                foreign=part.foreign, fates=part.fates, torn_lines=part.torn_lines, repeats=part.repeats,
            ),
            before,
        )  # fmt: skip
        self._chunks.pop()

    def done(self, templates: int | None = None) -> LogPart:
        """What all gave. ``templates``: how many of those of unknown texts are kept apart, if not the usual number."""
        heads = pl.concat(self._heads) if self._heads else pl.DataFrame(schema={**HEAD, "input_id": pl.UInt16})
        return LogPart(
            chunks=[*self._chunks, {name: _folded(rows, heads) for name, rows in self._errors.items()}],
            loud=_folded(self._loud, heads) if self._loud else pl.DataFrame(),
            unknown=merge_templates(self._unknown, most=templates),
            heads=heads,
            processes=processes_of(pl.concat(self._processes)) if self._processes else pl.DataFrame(),
            foreign=pl.concat(self._foreign) if self._foreign else pl.DataFrame(),
            fates=self._fates,
            torn_lines=self._torn,
            repeats=self._repeats,
        )


def chunk_reader(classifier: Classifier) -> Callable[[Chunk], Kept]:
    """Takes a chunk apart and keeps what is needed."""
    keeper = Keeper(classifier.catalog.grammar, classifier.details)
    return lambda chunk: keeper.keep(read_chunk(chunk, classifier))


def log_reader(details: bool) -> Callable[[Chunk], Kept]:
    """The same by the packaged grammar. ``details``: see :class:`Classifier`."""
    return chunk_reader(Classifier(default_catalog(), details))


def read_logs(
    sources: Sources,
    reader: Callable[[Chunk], Kept],
    workers: int | None = None,
    span: Span | None = None,
    templates: int | None = None,
) -> LogPart:
    """Reads one log, or several small ones together, with what :func:`chunk_reader` or :func:`log_reader` gave.

    Never raises for bad content; ``index.damage`` tells a broken stream. ``span``: the part of a log to read.
    ``templates``: as in :meth:`Merger.done`.
    """
    merger = Merger([file.input_id for file, _ in sources])
    for kept, before in _results(sources, reader, workers or cores(), span):
        merger.add(kept, before)
    return merger.done(templates)

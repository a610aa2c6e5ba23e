"""Inputs -> a run: finds files, sees what they are, reads them, joins what they gave."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from nccl_insight.base.errors import UsageError
from nccl_insight.base.threads import Threads, in_order
from nccl_insight.inputs.chunks import FileLines
from nccl_insight.inputs.find import InputFile, find_inputs
from nccl_insight.inputs.limits import DEFAULT, Limits
from nccl_insight.loading.assemble.milestones import Milestones
from nccl_insight.loading.assemble.placing import PLACING
from nccl_insight.loading.assemble.tables import FloodTable
from nccl_insight.loading.joining import folded, join_parts
from nccl_insight.loading.reading import LOG, Part, chosen_format, read_log_groups, read_with
from nccl_insight.readers import discover
from nccl_insight.readers.nccl_log.log import LogPart, cores, log_reader
from nccl_insight.tables import schema
from nccl_insight.tables.once import beside
from nccl_insight.tables.run import Run, build_run

if TYPE_CHECKING:
    from nccl_insight.loading.spread import Watch

# Inputs of more bytes take longer to read than another thread takes to be worth its while.
_LONG_BYTES: Final = 32 << 20
_AHEAD: Final = 64


def read_inputs(
    files: Sequence[InputFile],
    kind: str | None = None,
    details: bool = True,
    engine: str = "local",
    watch: Watch | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> tuple[list[Part], list[LogPart]]:
    """Reads every input: parts in the order of the inputs, and what the logs gave."""
    if engine == "ray":
        from nccl_insight.loading.spread import read_on_ray

        with beside(meanwhile):
            return read_on_ray(files, kind, details, watch)
    if engine != "local":
        raise UsageError(f"unknown engine {engine!r}; known: local, ray")
    formats = discover()
    chosen = {file.input_id: chosen_format(file, formats, kind) for file in files}
    plain = [file for file in files if chosen[file.input_id] is None]
    parts: list[Part] = []
    logs: list[LogPart] = []
    with Threads(1) as aside:
        # The grammar takes longer than a small trace, and as long as the first chunk of a large log, which waits for
        # it.
        made = aside.begin(partial(log_reader, details)) if plain else None
        if meanwhile is not None:
            aside.begin(meanwhile)
        if made is not None:
            parts, logs = read_log_groups(plain, lambda chunk, made=made: aside.get(made)(chunk))  # type: ignore[misc]
        traces = [(file, found) for file in files if (found := chosen[file.input_id]) is not None]
        small = [pair for pair in traces if pair[0].small]
        parts += folded(in_order(lambda pair: read_with(*pair), small, cores(), _AHEAD))
        parts += [read_with(*pair) for pair in traces if not pair[0].small]
    return sorted(parts, key=lambda part: part.file.input_id), logs


def _extents(run: Run) -> Iterator[pl.DataFrame] | None:
    """Where the calls of each rank stand, without putting them together; None where they are, or cannot be told so."""
    calls = run.deferred("calls")
    return calls.extents() if isinstance(calls, FloodTable) else None


def load(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    input_format: str | None = None,
    details: bool = True,
    engine: str = "local",
    lazy: bool = False,
    limits: Limits = DEFAULT,
    communication: Sequence[str] = (),
    watch: Watch | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> Run:
    """Reads logs, traces and side files of one job into a run.

    Args:
        paths: a file, directory (one run of many files), glob, URL (extra ``remote``) or ``-`` for standard input, or
            several.
        input_format: a value of ``inputs.kind`` to use for every input instead of looking.
        details: keep the large tables of inner workings (memory, proxy, registration) that no diagnosis needs.
        engine: ``local``, or ``ray`` to read the inputs as tasks of a Ray cluster (extra ``ray``).
        limits: how much of an input is read.
        communication: regular expressions of GPU kernels that count as communication, beside those that are known.
        watch: is called with a function that tells how many tasks of other processes are done, and of how many, when
            they begin; and with None when they have ended.
        meanwhile: what another thread may do while inputs are read that take longer than it does.
        lazy: put tables together only when they are asked for; for those who need few, or one after the other.

    Raises:
        UsageError: a path does not exist or the format is unknown.
        NotJudgedError: the paths name no file.
    """
    files = find_inputs(paths, limits, in_place=engine == "ray")
    if communication:
        files = [replace(file, communication=tuple(communication)) for file in files]
    if sum(file.size_bytes for file in files) <= _LONG_BYTES:
        meanwhile = None
    parts, logs = read_inputs(files, input_format, details, engine, watch, meanwhile)
    reader = FileLines({p.file.input_id: (p.file, p.index) for p in parts if p.kind == LOG})
    tables, later = join_parts(parts, logs, lazy)
    milestones = Milestones(tables.get("ranks", schema.empty("ranks")))
    run = build_run(tables, reader, {**later, "milestones": milestones}, files, PLACING)
    milestones.read_from(run.pieces, lambda: _extents(run))
    return run

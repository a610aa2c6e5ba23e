"""Inputs -> a run: finds files, sees what they are, reads them, joins what they gave."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from nccl_insight.errors import UsageError
from nccl_insight.inputs.chunks import ChunkIndex, FileLines, file_sha256
from nccl_insight.inputs.find import InputFile, discard, fetched, find_inputs
from nccl_insight.inputs.limits import DEFAULT, Limits
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers import Format, discover, side
from nccl_insight.readers.embedded import endings, ras_text, tracebacks, value_checks
from nccl_insight.readers.embedded.nccl_tests import scan_lines, scan_runs
from nccl_insight.readers.embedded.smi_text import scan_nvlinks, scan_topology
from nccl_insight.readers.nccl_log import shares
from nccl_insight.readers.nccl_log.classify import DETAIL_TABLES, Classifier
from nccl_insight.readers.nccl_log.log import LogPart, cores, neighbours, read_logs
from nccl_insight.readers.nccl_log.records import Fate
from nccl_insight.readers.nccl_log.shares import Share, Taken
from nccl_insight.readers.workers import RayWorkers, Workers
from nccl_insight.tables import match, schema
from nccl_insight.tables.assemble.base import stack
from nccl_insight.tables.assemble.hosts import mend_hosts
from nccl_insight.tables.assemble.milestones import Milestones
from nccl_insight.tables.assemble.tables import FloodTable, assemble
from nccl_insight.tables.run import Deferred, Partial, Run, build_run
from nccl_insight.tables.schema import conform

LOG: Final = "nccl_log"
# Bytes that one task of another process reads, and how many results one joins.
_SHARE_LEAST: Final = 32 * 1024 * 1024
_SHARE_MOST: Final = 256 * 1024 * 1024
_GROUP_MOST: Final = 1024
_JOINED_AT_ONCE: Final = 4
_LOG_HEAD: Final = re.compile(
    rb"NCCL (?:INFO|WARN|TRACE|CALL|ABORT|DIAG|ATTN|ERROR|version)|RCCL version|\] (?:INFO|WARN) "
)


@dataclass(frozen=True)
class _Part:
    """What one input gave: tables of a format, or a log."""

    file: InputFile
    kind: str
    index: ChunkIndex
    partial: Partial | None = None


def kind_of(file: InputFile, formats: Sequence[Format]) -> Format | None:
    """The format that is surest of an input, None for a log (which anything textual may be)."""
    head = file.head()
    scored = [(f.sniff(head, file.display), f) for f in formats]
    score, best = max(scored, key=lambda pair: pair[0], default=(0.0, None))
    if best is None or score < 0.5:
        return None
    return None if score < 0.9 and _LOG_HEAD.search(head) else best


def _chosen(file: InputFile, formats: Sequence[Format], kind: str | None) -> Format | None:
    if kind is None or kind == "auto":
        return kind_of(file, formats)
    if kind == LOG:
        return None
    for format_ in formats:
        if format_.kind == kind:
            return format_
    names = ", ".join(sorted({LOG, *(f.kind for f in formats)}))
    raise UsageError(f"unknown input format {kind!r}; known: {names}")


def _read(file: InputFile, format_: Format) -> _Part:
    index = ChunkIndex()
    index.sha256 = file_sha256(file)
    return _Part(file, format_.kind, index, partial=format_.read(file))


def _read_logs(files: Sequence[InputFile], details: bool) -> tuple[list[_Part], list[LogPart]]:
    classifier = Classifier(default_catalog(), details)
    parts = {file.input_id: _Part(file, LOG, ChunkIndex()) for file in files}
    logs = [
        read_logs([(file, parts[file.input_id].index) for file in group], classifier, None, details)
        for group in neighbours(files)
    ]
    return list(parts.values()), logs


def read_inputs(
    files: Sequence[InputFile], kind: str | None = None, details: bool = True, engine: str = "local"
) -> tuple[list[_Part], list[LogPart]]:
    """Reads every input: parts in the order of the inputs, and what the logs gave."""
    if engine == "ray":
        return _read_on_ray(files, kind, details)
    if engine != "local":
        raise UsageError(f"unknown engine {engine!r}; known: local, ray")
    formats = discover()
    chosen = {file.input_id: _chosen(file, formats, kind) for file in files}
    parts, logs = _read_logs([file for file in files if chosen[file.input_id] is None], details)
    traces = [(file, found) for file in files if (found := chosen[file.input_id]) is not None]
    small = [pair for pair in traces if pair[0].small]
    with ThreadPoolExecutor(cores()) as pool:
        parts += pool.map(lambda pair: _read(*pair), small)
    parts += [_read(*pair) for pair in traces if not pair[0].small]
    return sorted(parts, key=lambda part: part.file.input_id), logs


def _spread(
    workers: Workers,
    files: Sequence[InputFile],
    kind: str | None,
    details: bool,
    share_bytes: int | None = None,
) -> tuple[list[_Part], list[LogPart], int]:
    """Reads inputs with tasks of other processes; what they give is joined there too, as a tree.

    ``share_bytes``: about how much a task reads. Gives, besides parts and logs, how many bytes came back.
    """
    formats = discover()
    size = share_bytes or _share_bytes(files, workers.slots)
    received = 0

    def fetch(token: Any) -> Any:
        nonlocal received
        data = workers.result(token)
        received += len(data)
        return shares.unpacked(data)

    far = [file for file in files if not file.temporary]
    asked = [(group, workers.start(_kinds, group, kind)) for group in _groups(far, size)]
    chosen: dict[int, Format | None] = {f.input_id: _chosen(f, formats, kind) for f in files if f.temporary}
    for group, token in asked:
        numbers = fetch(token)
        chosen.update(
            (f.input_id, None if n < 0 else formats[n]) for f, n in zip(group, numbers, strict=True)
        )
    logs = [file for file in files if chosen[file.input_id] is None]
    begun = [(group, _begin(workers, group, details, size)) for group in neighbours(logs)]
    digests = {
        file.input_id: workers.start(_digest, file) for file in logs if not file.small and not file.temporary
    }
    traces = [file for file in files if chosen[file.input_id] is not None]
    others = [(file, None if file.temporary else workers.start(_trace, file, kind)) for file in traces]
    parts: list[_Part] = []
    for file, token in others:
        format_ = chosen[file.input_id]
        assert format_ is not None
        parts.append(_read(file, format_) if token is None else fetch(token))
    read: list[LogPart] = []
    for group, tokens in begun:
        taken = shares.join([t if isinstance(t, Taken) else fetch(t) for t in tokens], final=True)
        read.append(taken.log)
        for file in group:
            index = taken.indexes[file.input_id]
            if file.input_id in digests:
                index.sha256 = index.sha256 or fetch(digests[file.input_id])
            parts.append(_Part(file, LOG, index))
    return sorted(parts, key=lambda part: part.file.input_id), read, received


def _share_bytes(files: Sequence[InputFile], slots: int) -> int:
    """Several shares for each worker, so that all end about together; none so small that starting it counts."""
    total = sum(file.size_bytes for file in files)
    return max(_SHARE_LEAST, min(_SHARE_MOST, total // (4 * slots)))


def _groups(files: Sequence[InputFile], size: int) -> Iterator[list[InputFile]]:
    """Files in their order, by at most so many and about so many bytes."""
    group: list[InputFile] = []
    held = 0
    for file in files:
        group.append(file)
        held += file.size_bytes
        if held >= size or len(group) >= _GROUP_MOST:
            yield group
            group, held = [], 0
    if group:
        yield group


def _begin(workers: Workers, files: Sequence[InputFile], details: bool, size: int) -> list[Any]:
    """Tasks that read logs, and tasks that join what those give, until one is left: all in the order of the files.

    What only this process can read is read by it at once.
    """
    tokens: list[Any] = []
    if any(file.temporary for file in files):
        return [shares.take(share, details) for share in shares.shares(files, size)]
    tokens = [workers.start(_take, share, details) for share in shares.shares(files, size)]
    while len(tokens) > 1:
        tokens = [
            workers.start(_join_taken, *tokens[n : n + _JOINED_AT_ONCE])
            for n in range(0, len(tokens), _JOINED_AT_ONCE)
        ]
    return tokens


def _kinds(files: Sequence[InputFile], kind: str | None) -> bytes:
    formats = discover()
    found = [_chosen(file, formats, kind) for file in files]
    return shares.packed([-1 if format_ is None else formats.index(format_) for format_ in found])


def _digest(file: InputFile) -> bytes:
    return shares.packed(file_sha256(file))


def _trace(file: InputFile, kind: str | None) -> bytes:
    format_ = _chosen(file, discover(), kind)
    assert format_ is not None
    own = fetched(file)
    part = _read(own, format_)
    discard([own] if own is not file else [])
    return shares.packed(replace(part, file=file))


def _take(share: Share, details: bool) -> bytes:
    return shares.packed(shares.take(share, details, workers=1))


def _join_taken(*parts: bytes) -> bytes:
    return shares.packed(shares.join([_taken(part) for part in parts]))


def _taken(part: bytes) -> Taken:
    taken = shares.unpacked(part)
    assert isinstance(taken, Taken)
    return taken


def _read_on_ray(
    files: Sequence[InputFile], kind: str | None, details: bool
) -> tuple[list[_Part], list[LogPart]]:
    """Inputs read on a Ray cluster, see :class:`RayWorkers`.

    Raises:
        UsageError: Ray is not installed.
    """
    workers = RayWorkers()
    try:
        parts, logs, _ = _spread(workers, files, kind, details)
    finally:
        workers.close()
    return parts, logs


def _embedded(file: InputFile, foreign: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Tables of what other programs print between a log's lines: nccl-tests, RAS, nvidia-smi, launchers, Python."""
    lines = foreign.drop("input_id").rename({"_line": "line", "_text": "text"})
    nodes, links = scan_topology(lines)
    found = {
        "benchmarks": scan_lines(lines, file.display),
        "ras": ras_text.scan_lines(lines),
        "topology_nodes": nodes,
        "topology_links": links,
        "nvlinks": scan_nvlinks(lines),
        "endings": endings.scan_lines(lines),
        "tracebacks": tracebacks.scan_lines(lines),
        "value_checks": value_checks.scan_lines(lines),
        "benchmark_runs": scan_runs(lines),
    }
    source = pl.lit(file.input_id, pl.UInt16)
    return {name: rows.with_columns(input_id=source) for name, rows in found.items() if rows.height}


def _notes(part: _Part, log: LogPart | None) -> pl.DataFrame | None:
    rows: list[tuple[int, str, str]] = []
    if part.index.damage:
        rows.append((part.index.lines, "log-truncated", f"reading ended early: {part.index.damage}"))
    if part.index.long_line:
        most = part.file.limits.line_kib
        rows.append(
            (
                part.index.lines,
                "log-truncated",
                f"lines were read to their first {most:,} KiB (limit line-kib)",
            )
        )
    if log is not None:
        torn = log.torn_lines.get(part.file.input_id, ())
        rows += [(line, "log-torn", "several writers tore this line") for line in torn[:20]]
        count, line = log.repeats.get(part.file.input_id, (0, 0))
        if count:
            rows.append((line, "log-truncated", f"Ray left out {count} repeated lines (RAY_DEDUP_LOGS)"))
    if not rows:
        return None
    return pl.DataFrame(
        {
            "input_id": [part.file.input_id] * len(rows),
            "line": [r[0] for r in rows],
            "kind": [r[1] for r in rows],
            "detail": [r[2] for r in rows],
        },
        schema=dict(schema.SCHEMA["notes"]),
    )


def _input_row(part: _Part, fate: Fate | None, benchmarks: bool) -> dict[str, object]:
    kind = part.kind
    if fate is not None and fate.parsed + fate.unknown + fate.torn == 0:
        kind = "nccl_tests" if benchmarks else "unknown"
    return {
        "input_id": part.file.input_id,
        "path": part.file.display,
        "kind": kind,
        "size_bytes": part.file.size_bytes,
        "sha256": part.index.sha256,
        "lines": fate.lines if fate else None,
        "nccl_lines": fate.parsed + fate.unknown if fate else None,
        "parsed_lines": fate.parsed if fate else None,
        "unknown_lines": fate.unknown if fate else None,
        "foreign_lines": fate.foreign if fate else None,
        "torn_lines": fate.torn if fate else None,
        "bad_bytes": part.index.bad_bytes if fate else None,
    }


def _finish_traces(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Facts that need the traces of all ranks (skew, matching); see :mod:`nccl_insight.tables.match`."""
    return match.finish(tables)


def _join(
    parts: Sequence[_Part], logs: Sequence[LogPart], lazy: bool
) -> tuple[dict[str, pl.DataFrame], dict[str, Deferred]]:
    frames: dict[str, list[pl.DataFrame]] = {}

    def add(name: str, frame: pl.DataFrame | None) -> None:
        if frame is not None and frame.height:
            frames.setdefault(name, []).append(conform(name, frame))

    grammar = default_catalog().grammar
    read, logs = logs, [mend_hosts(log) for log in logs]
    later: dict[str, Deferred] = {}
    if logs:
        made, deferred = assemble(logs, grammar)
        for log in (*read, *logs):
            # The tables that are still to be made hold what they need, and let go of it.
            log.chunks.clear()
        later.update(deferred)
        for name, frame in made.items():
            add(name, frame)
        for log in logs:
            add("unknown", log.unknown)
    owner = {input_id: log for log in logs for input_id in log.fates}
    foreign = {
        key[0]: rows
        for log in logs
        if log.foreign.height
        for key, rows in log.foreign.partition_by("input_id", as_dict=True).items()
    }
    inputs: list[dict[str, object]] = []
    for part in parts:
        number = part.file.input_id
        own = owner.get(number)
        embedded = _embedded(part.file, foreign[number]) if number in foreign else {}
        for name, frame in embedded.items():
            add(name, frame)
        add("notes", _notes(part, own))
        for name, frame in (part.partial.tables if part.partial else {}).items():
            add(name, frame)
        if part.partial and part.file.damage and not part.partial.tables.get("notes", pl.DataFrame()).height:
            add("notes", side.notes(number, ("trace-truncated", part.file.damage)))
        inputs.append(_input_row(part, own.fates[number] if own else None, "benchmarks" in embedded))
    # What traces are joined with has to be whole; calls and choices of a log alone stay as rows of their rules.
    joined = {"tuning_choice"} if "collectives" in frames else set()
    now = [
        n for n in later if n in frames or n in joined or not (lazy or n in DETAIL_TABLES or later[n].streams)
    ]
    with ThreadPoolExecutor(min(4, cores())) as pool:
        for name, made_frames in zip(now, pool.map(lambda n: list(later[n].last()), now), strict=True):
            frames[name] = [conform(name, f) for f in made_frames if f.height] + frames.get(name, [])
            del later[name]
    tables = {name: stack(group) for name, group in frames.items() if group}
    tables["inputs"] = pl.DataFrame(inputs, schema=dict(schema.SCHEMA["inputs"]))
    return _finish_traces(tables), later


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
        lazy: put tables together only when they are asked for; for those who need few, or one after the other.

    Raises:
        UsageError: a path does not exist or the format is unknown.
        NotJudgedError: the paths name no file.
    """
    files = find_inputs(paths, limits, in_place=engine == "ray")
    if communication:
        files = [replace(file, communication=tuple(communication)) for file in files]
    parts, logs = read_inputs(files, input_format, details, engine)
    reader = FileLines({p.file.input_id: (p.file, p.index) for p in parts if p.kind == LOG})
    tables, later = _join(parts, logs, lazy)
    milestones = Milestones(tables.get("ranks", schema.empty("ranks")))
    run = build_run(tables, reader, {**later, "milestones": milestones}, files)
    milestones.read_from(run.pieces, lambda: _extents(run))
    return run

"""Rows of all inputs to the tables of a run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from nccl_insight.base.data import replace
from nccl_insight.base.grouping import grouped
from nccl_insight.base.threads import in_order
from nccl_insight.inputs.find import InputFile
from nccl_insight.language.catalog import default_catalog
from nccl_insight.loading.assemble.base import stack
from nccl_insight.loading.assemble.hosts import mend_hosts
from nccl_insight.loading.assemble.tables import assemble
from nccl_insight.loading.reading import Part
from nccl_insight.readers import host_tools, ras
from nccl_insight.readers.embedded import endings, progress, tracebacks, value_checks
from nccl_insight.readers.embedded.nccl_tests import scan_lines, scan_runs
from nccl_insight.readers.forms import form_of
from nccl_insight.readers.nccl_log.classify import DETAIL_TABLES
from nccl_insight.readers.nccl_log.log import LogPart, cores
from nccl_insight.readers.nccl_log.records import Fate
from nccl_insight.tables import match, schema
from nccl_insight.tables.notes import CUT, LOG_CUT, TORN, note_rows
from nccl_insight.tables.run import Deferred, Partial
from nccl_insight.tables.schema import conform

_FOLDED: Final = 64
"""So many neighbors have their rows in one frame: one for each of thousands of files takes many times its rows."""


def folded(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts in their order, the rows of neighbors moved to the first of them."""
    group: list[Part] = []
    for part in parts:
        if group and (len(group) == _FOLDED or part.file.input_id != group[-1].file.input_id + 1):
            yield from _as_one(group)
            group = []
        if part.file.damage:  # of which is asked whether its reader noted anything
            yield from (*_as_one(group), part)
            group = []
        else:
            group.append(part)
    yield from _as_one(group)


def _as_one(group: Sequence[Part]) -> Iterator[Part]:
    found = [(n, conform(n, f)) for p in group if p.partial for n, f in p.partial.tables.items() if f.height]
    tables = {name: stack(frames).rechunk() for name, frames in grouped(found).items()}
    for part in group:
        yield replace(part, partial=Partial(tables))
        tables = {}


def _embedded(file: InputFile, foreign: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Tables of what other programs print between a log's lines: nccl-tests, RAS, host tools, launchers, Python."""
    rows = foreign.drop("input_id").rename({"_line": "line", "_text": "text"})
    outputs, lines = rows.filter("_output"), rows.filter(~pl.col("_output"))
    tools = host_tools.scan(outputs, file.display) if outputs.height else {}
    if "host_tools" in tools:
        lines = lines.join(host_tools.silent_lines(tools["host_tools"]), on="line", how="anti")
    reports = tools.get("ras", pl.DataFrame())
    found = {
        **tools,
        "benchmarks": scan_lines(lines, file.display),
        "notes": pl.concat(
            [note_rows(0, *ras.garbage(reports)), *([tools["notes"]] if "notes" in tools else [])],
            how="diagonal_relaxed",
        ),
        "endings": endings.scan_lines(lines),
        "progress": progress.scan_lines(lines),
        "tracebacks": tracebacks.scan_lines(lines),
        "value_checks": value_checks.scan_lines(lines),
        "benchmark_runs": scan_runs(lines),
    }
    source = pl.lit(file.input_id, pl.UInt16)
    return {name: rows.with_columns(input_id=source) for name, rows in found.items() if rows.height}


def _notes(part: Part, log: LogPart | None) -> pl.DataFrame:
    rows: list[tuple[str, str] | tuple[str, str, int]] = []
    if part.index.damage:
        rows.append((LOG_CUT, f"reading ended early: {part.index.damage}", part.index.lines))
    if part.index.long_line:
        most = part.file.limits.line_kib
        rows.append((LOG_CUT, f"lines were read to their first {most:,} KiB (limit line-kib)", part.index.lines))
    if log is not None:
        torn = log.torn_lines.get(part.file.input_id, ())
        rows += [(TORN, "several writers tore this line", line) for line in torn[:20]]
        count, line = log.repeats.get(part.file.input_id, (0, 0))
        if count:
            rows.append((LOG_CUT, f"Ray left out {count} repeated lines (RAY_DEDUP_LOGS)", line))
    if part.file.checked is False and not part.file.damage and not part.index.damage:
        rows.append(("no-checksum", "the compressed stream holds no checksum of its text"))
    if part.partial and part.file.damage and not part.partial.tables.get("notes", pl.DataFrame()).height:
        rows.append((CUT, part.file.damage))
    return note_rows(part.file.input_id, *rows)


def _input_row(part: Part, log: LogPart | None, embedded: Mapping[str, pl.DataFrame]) -> dict[str, object]:
    kind = part.kind
    row: dict[str, object] = {
        "input_id": part.file.input_id,
        "path": part.file.display,
        "size_bytes": part.file.size_bytes,
        "sha256": part.index.sha256,
    }
    if log is not None:
        fate = log.fates[part.file.input_id]
        bare = fate.parsed + fate.unknown + fate.torn == 0
        if "host_tools" in embedded and (bare or _all_of_tools(part.file, fate, log, embedded["host_tools"])):
            kind = host_tools.kind_of(embedded)
        elif bare:
            kind = "nccl_tests" if "benchmarks" in embedded else "ras" if "ras" in embedded else "unknown"
        row |= {
            "lines": fate.lines,
            "nccl_lines": fate.parsed + fate.unknown,
            "parsed_lines": fate.parsed,
            "unknown_lines": fate.unknown,
            "foreign_lines": fate.foreign,
            "last_foreign_line": fate.last_foreign or None,
            "torn_lines": fate.torn,
            "bad_bytes": part.index.bad_bytes,
        }
    return {**row, "kind": kind, "form": form_of(part.file.head()) or None if kind == "unknown" else None}


def _all_of_tools(file: InputFile, fate: Fate, log: LogPart, outputs: pl.DataFrame) -> bool:
    """Whether nothing in an input has NCCL's head, and most of its lines are of host tools."""
    headed = log.heads.filter((pl.col("input_id") == file.input_id) & pl.col("_pid").is_not_null())
    covered = int((outputs["last_line"] - outputs["line"] + 1).sum())
    return headed.is_empty() and 2 * covered >= fate.lines


def join_parts(
    parts: Sequence[Part], logs: Sequence[LogPart], lazy: bool
) -> tuple[dict[str, pl.DataFrame], dict[str, Deferred]]:
    """Tables of all inputs, and those that are put together when they are asked for."""
    frames: dict[str, list[pl.DataFrame]] = {}

    def add(tables: Mapping[str, pl.DataFrame]) -> None:
        for name, frame in tables.items():
            if frame.height:
                frames.setdefault(name, []).append(conform(name, frame))

    read, logs = logs, [mend_hosts(log) for log in logs]
    later: dict[str, Deferred] = {}
    if logs:
        made, deferred = assemble(logs, default_catalog().grammar)
        for log in (*read, *logs):
            # The tables that are still to be made hold what they need, and let go of it.
            log.chunks.clear()
        later.update(deferred)
        add(made)
        for log in logs:
            add({"unknown": log.unknown})
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
        add(embedded)
        add({"notes": _notes(part, own)})
        add(part.partial.tables if part.partial else {})
        inputs.append(_input_row(part, own, embedded))
    _complete(frames, later, lazy)
    tables = {name: stack(group) for name, group in frames.items() if group}
    tables["inputs"] = pl.DataFrame(inputs, schema=dict(schema.SCHEMA["inputs"]))
    return match.finish(tables), later


def _complete(frames: dict[str, list[pl.DataFrame]], later: dict[str, Deferred], lazy: bool) -> None:
    """Puts together what does not wait until it is asked for, or belongs to rows that other inputs gave."""
    # What traces are joined with has to be whole; calls and choices of a log alone stay as rows of their rules.
    whole = frames.keys() | ({"tuning_choice"} if "collectives" in frames else set())
    now = [n for n in later if n in whole or not (lazy or n in DETAIL_TABLES or later[n].streams)]
    for name, made in zip(now, in_order(lambda n: list(later[n].last()), now, min(4, cores())), strict=True):
        frames[name] = [conform(name, f) for f in made if f.height] + frames.get(name, [])
        del later[name]

"""Redaction of whole runs and analyses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeVar

import polars as pl

from nccl_insight.model import Analysis, Evidence, Finding, InputInfo, Job, JobPart, Milestones
from nccl_insight.redact.collect import HOST_COLUMNS
from nccl_insight.redact.redactor import Redactor
from nccl_insight.tables.run import LineReader, Run, Tables

T = TypeVar("T")
_KEPT = frozenset(
    {"code", "name", "fingerprint", "sources", "anchor", "caused_by", "sha256", "kind", "status"}
)
_KEPT_COLUMNS = frozenset(
    {"sha256", "op", "dtype", "red_op", "function", "source", "family", "message", "level"}
)


@dataclasses.dataclass(frozen=True)
class RedactedLines:
    """A reader that redacts what it gives back."""

    reader: LineReader
    redactor: Redactor

    def lines(self, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """Text of ``(input_id, line)`` pairs, redacted."""
        return {key: self.redactor.text(text) for key, text in self.reader.lines(wanted).items()}


def redact_run(run: Run, redactor: Redactor) -> Run:
    """The run with every text of its tables and lines replaced."""
    tables = {name: _frame(frame, redactor) for name, frame in run.tables.items()}
    return Run(Tables(tables, {}), RedactedLines(run.reader, redactor), run.inputs)


def _frame(frame: pl.DataFrame, redactor: Redactor) -> pl.DataFrame:
    columns = []
    for series in frame.get_columns():
        if series.name in _KEPT_COLUMNS or not frame.height:
            columns.append(series)
        elif series.dtype == pl.String:
            columns.append(_series(series, redactor))
        elif series.dtype == pl.List(pl.String):
            replaced = [
                None if row is None else [_value(series.name, v, redactor) for v in row]
                for row in series.to_list()
            ]
            columns.append(pl.Series(series.name, replaced, dtype=series.dtype))
        else:
            columns.append(series)
    return pl.DataFrame(columns)


def _series(series: pl.Series, redactor: Redactor) -> pl.Series:
    values = series.drop_nulls().unique(maintain_order=True).to_list()
    changed = {v: new for v in values if (new := _value(series.name, v, redactor)) != v}
    return series.replace(changed) if changed else series


def _value(column: str, value: str | None, redactor: Redactor) -> str | None:
    if value is None:
        return None
    if column in HOST_COLUMNS:
        return redactor.names.host(value)
    return redactor.names.input_name(value) if column == "path" else redactor.text(value)


def redact_analysis(analysis: Analysis, redactor: Redactor) -> Analysis:
    """The analysis with the same findings and every name replaced."""
    return dataclasses.replace(_walk(analysis, redactor), redacted=True)


def _walk(item: T, redactor: Redactor) -> T:
    holder: Any = item
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(holder):
        value = getattr(item, field.name)
        if field.name in _KEPT:
            continue
        if isinstance(item, Milestones) and field.name == "host":
            changes[field.name] = None if value is None else redactor.names.host(value)
        elif isinstance(item, JobPart) and field.name == "inputs":
            changes[field.name] = tuple(redactor.names.input_name(v) for v in value)
        elif isinstance(item, InputInfo) and field.name == "command":
            changes[field.name] = redactor.text(
                value.replace(item.path, redactor.names.input_name(item.path))
            )
        elif isinstance(item, Finding | Job) and field.name == "hosts":
            changes[field.name] = tuple(redactor.names.host(h) for h in value)
        elif (isinstance(item, Evidence) and field.name == "input") or (
            isinstance(item, InputInfo) and field.name == "path"
        ):
            changes[field.name] = redactor.names.input_name(value)
        else:
            changes[field.name] = _inner(value, redactor)
    replaced: T = dataclasses.replace(holder, **changes)
    return replaced


def _inner(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, tuple):
        return tuple(_inner(v, redactor) for v in value)
    return _walk(value, redactor) if dataclasses.is_dataclass(value) else value

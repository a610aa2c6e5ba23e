"""Redaction of whole runs and analyses."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, TypeVar

import polars as pl

from nccl_insight.base import late, model
from nccl_insight.share.redact.collect import HOST_COLUMNS
from nccl_insight.share.redact.names import Names
from nccl_insight.share.redact.redactor import Redactor
from nccl_insight.tables.run import LineReader, Run, Tables

T = TypeVar("T")
_KEPT = frozenset({"code", "name", "fingerprint", "sources", "anchor", "caused_by", "kind", "status"})
_KEPT_COLUMNS = frozenset({"op", "dtype", "red_op", "function", "source", "family", "message", "level"})
# The digest of what was not redacted would tell whoever guesses the names whether the guess is right.
_DIGEST = "sha256"


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
        elif series.name == _DIGEST:
            columns.append(pl.Series(series.name, [""] * len(series), dtype=series.dtype))
        elif series.dtype == pl.String:
            columns.append(_series(series, redactor))
        elif series.dtype == pl.List(pl.String):
            replaced = [
                None if row is None else [_value(series.name, v, redactor) for v in row] for row in series.to_list()
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
    return redactor.names.input_name(value) if column == "path" else redactor.own(value)


_WORD: Final = late.compiled(r"[^\s\"'()\[\]{},:;=|]+")


@dataclasses.dataclass(frozen=True)
class _Prose:
    """Redacts sentences of an analysis; inputs that they name get the names that inputs have elsewhere."""

    redactor: Redactor
    files: dict[str, str]

    @property
    def names(self) -> Names:
        return self.redactor.names

    def text(self, text: str) -> str:
        return self.redactor.own(_WORD.sub(lambda found: self.files.get(found[0], found[0]), text))


def redact_analysis(analysis: model.Analysis, redactor: Redactor) -> model.Analysis:
    """The analysis with the same findings and every name replaced."""
    # New names by path and by plain file name; a file name of several inputs stands for none of them.
    files: dict[str, str] = {}
    for path in (i.path for i in analysis.inputs):
        name, new = PurePath(path).name, redactor.names.input_name(path)
        if "/" in path:
            files[path] = new
        if "." in name:
            files[name] = new if files.get(name, new) == new else "input" + PurePath(new).suffix
    prose = _Prose(redactor, files)
    return dataclasses.replace(_walk(analysis, prose), redacted=True)


# Fields that hold names, templates or lines and no sentences: of which classes, and how they are redacted.
_FIELDS: Final[Mapping[str, tuple[tuple[type, ...], Callable[[Any, _Prose], Any]]]] = {
    "host": ((model.Milestones, model.ToolOutput), lambda host, by: None if host is None else by.names.host(host)),
    "hosts": ((model.Finding, model.Job, model.Moment), lambda hosts, by: tuple(map(by.names.host, hosts))),
    "input": ((model.Evidence, model.ToolOutput), lambda path, by: by.names.input_name(path)),
    "inputs": ((model.JobPart,), lambda paths, by: tuple(map(by.names.input_name, paths))),
    "path": ((model.InputInfo,), lambda path, by: by.names.input_name(path)),
    "text": ((model.Evidence,), lambda text, by: by.redactor.text(text)),
    "unknown_templates": ((model.Coverage,), lambda rows, by: tuple((by.redactor.text(t), n) for t, n in rows)),
}


def _walk(item: T, redactor: _Prose) -> T:
    holder: Any = item
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(holder):
        value = getattr(item, field.name)
        if field.name in _KEPT:
            continue
        kinds, made = _FIELDS.get(field.name, ((), _inner))
        if field.name == _DIGEST:
            changes[field.name] = ""
        elif isinstance(item, model.InputInfo) and field.name == "command":
            changes[field.name] = redactor.text(value.replace(item.path, redactor.names.input_name(item.path)))
        else:
            changes[field.name] = (made if isinstance(item, kinds) else _inner)(value, redactor)
    replaced: T = dataclasses.replace(holder, **changes)
    return replaced


def _inner(value: Any, redactor: _Prose) -> Any:
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return redactor.text(value)
    if isinstance(value, tuple):
        return tuple(_inner(v, redactor) for v in value)
    return _walk(value, redactor) if dataclasses.is_dataclass(value) else value

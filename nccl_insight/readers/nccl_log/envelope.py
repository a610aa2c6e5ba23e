r"""Lines that a log collector, an export or a web page has put in an envelope, taken out of it.

=============  ==========================================================================
envelope       of
=============  ==========================================================================
JSON           Docker's json-file driver, journald, CloudWatch, ECS, Google Cloud, Elastic, notebooks
CSV            exports of Grafana, Datadog, CloudWatch Insights
``msg="..."``  logfmt: loggers of Go programs that run the job
``&gt;``       text copied from a page's source
``| ... |``    rows of a table of Markdown, and of a frame
``...<br>``    lines of a page or of XML, each with a tag behind it
``'...\n',``   a list of lines as Python prints it
```...```      single lines quoted in an issue
``#033[34m``   escape sequences that syslog and CloudWatch write out
=============  ==========================================================================

One line of the file stays one line. The time that a collector wrote beside the text is put in front of it, as
``kubectl logs --timestamps`` does. What holds no text of a job is left as it is.
"""

import ast
import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final, TypeAlias

import orjson
import polars as pl

from nccl_insight.base import late, texts
from nccl_insight.base.words import words

# A member of an object, or of one within it.
_Path: TypeAlias = tuple[str, ...]

_TEXTS: Final = words("""message msg log line textPayload MESSAGE @message _raw text body content short_message output
    event data""")
_WITHIN: Final = ("jsonPayload", "_source", "fields", "attributes", "result", "record", "data", "log", "message")
_TIMES: Final = ("time", "timestamp", "@timestamp", "ts", "_time", "date", "__REALTIME_TIMESTAMP")
_PATTERNS: Final = texts.patterns(__file__)
_RE: Final = texts.compiled(__file__)
# From so many lines on a pattern costs less than decoding each object.
_MANY: Final = 1000
# How objects are written is seen in the middle of those left, and before it where that was another or torn.
_PARTS: Final = (2, 3, 5, 7)
# Longer patterns take long, or more than an engine allows.
_LONG: Final = 4000
_MEMBER: Final = late.compiled(rf'^\s*"(?:{"|".join(map(re.escape, _TEXTS))})": ("(?:[^"\\]|\\.)*"),?\s*$')
_ENTITIES: Final = {
    "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#34;": '"', "&#39;": "'", "&#x27;": "'", "&nbsp;": " ", "&amp;": "&",
}  # fmt: skip
_SIGNS: Final = ("&gt;", "&lt;", "&quot;", "&#x27;", "&#39;")
# Seconds, milliseconds, microseconds and nanoseconds since 1970, told apart by their size.
_SECONDS: Final = ((10**9, 10**11, 1.0), (10**12, 10**14, 1e3), (10**15, 10**17, 1e6), (10**18, 10**20, 1e9))
_DEPTH: Final = 3


def opened(lines: pl.Series, holds: Callable[[str], bool]) -> pl.Series:
    """The lines out of their envelopes. ``holds`` tells whether the text of the lines holds some characters."""
    # One character is found ten times as fast as several.
    if holds("#") and holds("#033["):
        lines = lines.str.replace_all(_PATTERNS["spelled"], "")
    if holds("&") and any(holds(sign) for sign in _SIGNS):
        lines = lines.str.replace_all(_PATTERNS["markup"], "")
        lines = lines.str.replace_many(list(_ENTITIES), list(_ENTITIES.values()))
    if holds("`"):
        lines = lines.str.strip_chars("`")
    # Such a sign stands behind all lines, so the first and the last tell.
    ends = lines if lines.len() < _MANY else lines.head(_MANY // 2).append(lines.tail(_MANY // 2))
    for form in [f for f in _BEHIND if ends.str.contains(_PATTERNS[f]).any()]:
        lines = _said(lines, _PATTERNS[form], _PATTERNS["of_a_job"], _BEHIND[form])
    if not holds('"'):
        return lines
    # What follows looks at lines with a quotation mark only, of which most logs have few.
    quoted = lines.str.contains('"', literal=True)
    before = lines if quoted.all() else lines.filter(quoted)
    after = _unquoted(before)
    if after is not before:
        lines = after if before is lines else lines.scatter(quoted.arg_true(), after)
    table = _table(after)
    return lines if table is None else _from_csv(lines, *table)


def _unquoted(lines: pl.Series) -> pl.Series:
    """The lines, which all have quotation marks, out of the envelopes that need such."""
    lines = _from_objects(lines)
    if lines.str.contains('": "', literal=True).any():
        lines = _said(lines, '^\\s*"[@_a-zA-Z]+": "', "NCCL|Traceback ", _member)
    if lines.str.contains('\\n"', literal=True).any():
        lines = _said(lines, r'^\s+".*",?\s*$', "NCCL|Traceback ", _item)
    if lines.str.contains('(?:sg|message)="').any():
        lines = _said(lines, r'(?:^|\s)(?:msg|message)="', "NCCL", _logged)
    return lines


def _replaced(lines: pl.Series, found: Mapping[int, str]) -> pl.Series:
    if not found:
        return lines
    new: pl.Series = lines.clone().scatter(list(found), list(found.values()))
    return new


def _rows(lines: pl.Series, mask: pl.Series) -> Iterator[tuple[int, str]]:
    at = mask.fill_null(False).arg_true()
    return zip(at.to_list(), lines.gather(at).to_list(), strict=True)


def _one_line(text: str, time: str = "") -> str:
    body = " ".join(text.strip("\r\n").splitlines()) if "\n" in text else text
    return f"{time} {body}" if time else body


def _when(value: object) -> str:
    """A collector's time as ISO 8601, empty when it is none."""
    if isinstance(value, str) and _RE["iso"].match(value):
        return value
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return ""
    for least, most, scale in _SECONDS:
        if least <= number < most:
            return datetime.fromtimestamp(number / scale, timezone.utc).isoformat().replace("+00:00", "Z")
    return ""


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _paths(value: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[_Path, str]]:
    """Members that may be a line of a job, the likeliest first."""
    for key in _TEXTS:
        if isinstance(value.get(key), str):
            yield (key,), value[key]
    if depth < _DEPTH:
        for key in _WITHIN:
            if isinstance(value.get(key), dict):
                yield from (((key, *path), text) for path, text in _paths(value[key], depth + 1))


def _at(value: Mapping[str, Any], path: _Path) -> str | None:
    found: Any = value
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None


def _object_text(value: Mapping[str, Any], path: _Path) -> str | None:
    text = _at(value, path)
    if text is None:
        return None
    inner = _decoded(text) if text.startswith("{") else None
    if inner is not None:
        text = next((t for _, t in _paths(inner)), text)
    time = next((w for key in _TIMES if (w := _when(value.get(key)))), "")
    return _one_line(text, time)


def _from_objects(lines: pl.Series) -> pl.Series:
    bare = lines.str.strip_chars(" \t[],")
    mask = bare.str.starts_with("{") & bare.str.ends_with("}")
    values = (_decoded(text) for text in bare.filter(mask & bare.str.contains("NCCL|Traceback ")))
    tried = (path for value in values if value for path, text in _paths(value) if _RE["job"].search(text))
    path = next(tried, None)
    if path is None:
        return lines
    for part in _PARTS:
        rest = bare.filter(mask)
        sample = (_decoded(rest[rest.len() // part]) if rest.len() >= _MANY else None) or {}
        timed = next(((key,) for key in _TIMES if key in sample), ())
        layout = _layout(sample, path, timed) if _at(sample, path) is not None else None
        if layout is not None and len(layout) < _LONG:
            cut = bare.str.extract_groups(f"^{layout}$").struct.unnest()
            said = cut["time"] + " " + cut["text"] if timed else cut["text"]
            lines, mask = said.zip_with(said.is_not_null(), lines), mask & said.is_null()
    objects = ((at, value) for at, text in _rows(bare, mask) if (value := _decoded(text)) is not None)
    return _replaced(lines, {at: text for at, value in objects if (text := _object_text(value, path)) is not None})


def _layout(value: object, path: _Path, timed: _Path, at: _Path = ()) -> str | None:
    """A pattern of what is written as a sample is, with the ``text`` at one path and the ``time`` at another where both
    stand there as they are; None where no pattern tells. What it does not match may be alike all the same."""
    if at == path:
        return _PATTERNS["text"]
    if at == timed and at:
        return f'"(?P<time>{_PATTERNS["time"]})"' if isinstance(value, str) and _RE["iso"].match(value) else None
    if isinstance(value, dict) and len(at) <= _DEPTH:
        inside = [(re.escape(key), _layout(member, path, timed, (*at, key))) for key, member in value.items()]
        members = ", ?".join(f'"{key}": ?{member}' for key, member in inside)
        return None if any(member is None for _, member in inside) else rf"\{{{members}\}}"
    return (
        _PATTERNS["string"]
        if isinstance(value, str)
        else None
        if isinstance(value, list | dict)
        else _PATTERNS["scalar"]
    )


def _said(lines: pl.Series, form: str, telling: str, say: Callable[[str], str | None]) -> pl.Series:
    """The lines of a form with what each says in their place, where one of them tells that it is a job's."""
    mask = lines.str.contains(form)
    if not (mask & lines.str.contains(telling)).any():
        return lines
    return _replaced(lines, {at: said for at, text in _rows(lines, mask) if (said := say(text)) is not None})


def _member(text: str) -> str | None:
    """Of an object that is written over several lines, the member with the text."""
    hit = _MEMBER.match(text)
    said = _string(hit[1]) if hit else None
    return None if said is None else _one_line(said)


def _item(text: str) -> str | None:
    """Of a list of strings with a line of text each, as notebooks keep what a cell printed, the text."""
    said = _string(text.strip().removesuffix(","))
    return None if said is None or "\n" in said.rstrip("\r\n") else said.rstrip("\r\n")


def _row(text: str) -> str:
    """Of a row, what stands between the first and the last of its bars; Markdown writes those within as ``\\|``."""
    return text.strip()[1:-1].removeprefix(" ").rstrip().replace("\\|", "|")


def _tagged(text: str) -> str:
    """What stands before the closing tags at the end of a line, without the tags that they close."""
    hit = _RE["tags"].search(text)
    return _RE["opening"].sub("", text[: hit.start()] if hit else text)


def _printed(text: str) -> str | None:
    """Of an item of a list as Python prints it, the text."""
    try:
        said = ast.literal_eval(text.strip().strip("[,]"))
    except (SyntaxError, ValueError):
        return None
    printed = said if isinstance(said, bytes) else str(said).encode("utf-8", "replace")
    return printed.decode("utf-8", "replace").rstrip("\r\n")


_BEHIND: Final = {"row_ends": _row, "tags": _tagged, "printed": _printed}


def _logged(text: str) -> str | None:
    hit, time = _RE["logfmt"].search(text), _RE["logfmt_time"].search(text)
    said = _string(hit[1]) if hit else None
    return None if said is None else _one_line(said, _when(time[1]) if time else "")


def _string(text: str) -> str | None:
    """The text of a JSON string; half a surrogate pair in it becomes a question mark."""
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return None
    return str(value).encode("utf-8", "replace").decode()


def _fields(text: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error:
        return []


def _table(lines: pl.Series) -> tuple[int, int, int | None] | None:
    """How many fields the rows of a table of comma-separated values have, which holds the text, and which a time; None
    for no table. A row of two fields may be a quotation with a comma: in a table the other one is a time.
    """
    for _, text in _rows(lines, lines.str.contains("NCCL", literal=True) & lines.str.contains(_PATTERNS["row"])):
        fields = _fields(text) if _RE["quoted_field"].search(text) else []
        column = next((i for i, field in enumerate(fields) if "NCCL" in field), -1)
        timed = next((i for i, field in enumerate(fields) if i != column and _when(field)), None)
        if column >= 0 and len(fields) > (1 if timed is not None else 2):
            return len(fields), column, timed
    return None


def _from_csv(lines: pl.Series, count: int, column: int, timed: int | None) -> pl.Series:
    """The texts of a table's rows. Programs quote all fields, or those with a comma or a quotation mark in them; a
    line without quotation marks is a row where its time tells so."""
    found: dict[int, str] = {}
    mark = '"' if timed is None else ","
    for at, text in _rows(lines, lines.str.contains(mark, literal=True)):
        fields = _fields(text)
        time = _when(fields[timed]) if timed is not None and len(fields) == count else ""
        if len(fields) == count and (time or '"' in text):
            found[at] = _one_line(fields[column], time)
    return _replaced(lines, found)

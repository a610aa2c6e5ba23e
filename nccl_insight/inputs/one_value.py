"""A whole log that somebody put into one value: a JSON string, an array of lines or of records, a Python list.

Issue forms, notebooks, log APIs and ``json.dumps`` write it on one line, so that no line of it begins as NCCL wrote it.
Here it becomes lines again; records stay a line of JSON each, as collectors write them. What is no such value, or holds
no line of NCCL, is left as it is.
"""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from nccl_insight.base import late
from nccl_insight.inputs import temporary
from nccl_insight.inputs.stream import Stream, compression_of

_PEEK_BYTES: Final = 4096
_HEAD_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 64 << 20
_PYTHON_MOST_BYTES: Final = 4 << 20
_DEPTH_MOST: Final = 8
_BOM: Final = b"\xef\xbb\xbf"
_BEGINS: Final = late.compiled(rb"""\s*(?:"|b?'|[\[(]\s*(?:["'{\[(]|b')|\{\s*["'])""")
_NCCL: Final = late.compiled(rb"NCCL (?:INFO|WARN|TRACE|CALL|ABORT|DIAG|ATTN|ERROR|version)|RCCL version")
_TEXTS: Final = ("message", "msg", "log", "line", "textPayload", "MESSAGE", "@message", "text", "body", "content")
_TRACE: Final = b'"traceEvents"'
_NUMBER: Final = late.compiled(r"[0-9]{9,20}(?:\.[0-9]+)?$")
_ESCAPE: Final = late.compiled(r'\\(?:[ntr"\'\\/]|u[0-9a-fA-F]{4}|x1[bB])')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": ""}


def lines_within(path: Path) -> Path | None:
    """A temporary file with the lines of the log that the file wraps; None for a file that wraps none."""
    with path.open("rb") as raw:
        packed = compression_of(raw.read(8))
        if not packed and os.fstat(raw.fileno()).st_size > _MOST_BYTES:
            return None
    with Stream(path, packed) as stream:
        head = stream.read(_PEEK_BYTES).removeprefix(_BOM)
        if b"\n" in head.strip() and not _BEGINS.match(head):
            return None
        head += stream.read(_HEAD_BYTES)
        if _TRACE in head or not _may_wrap(head):
            return None
        data = head + stream.read(_MOST_BYTES - len(head))
        if stream.read(1) or not _NCCL.search(data):
            return None
    text = data.decode("utf-8", "replace").strip()
    lines = list(_lines_of(text))
    if not lines or not any("NCCL" in line for line in lines):
        return None
    target = temporary.place(path.name[-100:])
    target.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
    return target


def _may_wrap(head: bytes) -> bool:
    """Whether the file may be a single value: a log whose first line is a record of its own is none."""
    if not head.strip():
        return False
    first, newline, rest = head.partition(b"\n")
    if not _BEGINS.match(head):
        # One line of a log with its line ends written out.
        return not rest.strip() and first.count(b"\\n") > 1 and b"NCCL" in first
    return not (newline and rest.strip() and _value(first) is not None)


def _value(text: bytes | str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _lines_of(text: str) -> Iterator[str]:
    value = _value(text)
    if value is None and len(text) <= _PYTHON_MOST_BYTES and text[0] in "[('b":
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = None
    if value is not None:
        yield from _walked(value, 0)
    elif "\n" not in text and text.count("\\n") > 1:
        yield from _ESCAPE.sub(_plain, text.strip("\"'")).splitlines()


def _plain(found: re.Match[str]) -> str:
    letter = found[0][1]
    if letter in "ux":
        return chr(int(found[0][2:], 16)) if letter == "x" or found[0][2] not in "dD" else "?"
    return _ESCAPES.get(letter, letter)


def _walked(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        yield from value.splitlines()
    elif depth > _DEPTH_MOST:
        return
    elif isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[1], str) and _NUMBER.match(str(value[0])):
            yield _record({"time": value[0], "message": value[1]})
            return
        for part in value:
            yield from _walked(part, depth + 1)
    elif isinstance(value, dict):
        said = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), None)
        if said is not None and "\n" not in said.rstrip("\n"):
            yield _record(value)
        elif said is not None:
            yield from said.splitlines()
        else:
            for part in value.values():
                if not isinstance(part, str) or "\n" in part:
                    yield from _walked(part, depth + 1)


def _record(value: dict[Any, Any]) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS, default=str).decode()
    except (TypeError, ValueError):
        return str(next(value[key] for key in _TEXTS if isinstance(value.get(key), str)))

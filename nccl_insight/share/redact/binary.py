"""Redacted copies of inputs that are no text: databases of profilers and pickles of the flight recorder.

A database's copy has only the tables that are read from it, and of its list of texts only those that these tables
name: what a profiler also records (environment, command lines, captured output) is not carried over. A pickle is read
by the interpreter for plain data and written anew.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from nccl_insight.base import late
from nccl_insight.inputs import temporary
from nccl_insight.inputs.blocks import DamagedStream
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers.flight_recorder.pickle import load_plain
from nccl_insight.readers.nsys import MAGIC
from nccl_insight.readers.nsys.database import Database, open_database
from nccl_insight.readers.side import read_content
from nccl_insight.share.redact.files import packed
from nccl_insight.share.redact.redactor import Redactor

SQLITE: Final = "sqlite"
PICKLE: Final = "pickle"
_KEPT: Final = late.compiled(
    r"CUPTI_ACTIVITY_KIND_(?:KERNEL|MEMCPY|MEMSET|RUNTIME)|"
    r"StringIds|NVTX_[A-Z_]+|TARGET_INFO_(?:GPU|SESSION_START_TIME)"
    r"|rocpd_(?:kernel_dispatch|info_kernel_symbol|memory_copy|string)(?:_[0-9a-f_]+)?"
)
_TEXTS: Final = "StringIds"
# Columns of the kept tables that name a row of the texts.
_NAMES: Final = late.compiled(r"(?:[A-Za-z]*Name|textId|nameId)")
_TYPE: Final = late.compiled(r"[A-Za-z0-9 ()]{0,40}")
# A run of characters in a payload that could be a text rather than numbers.
_TEXT_IN_BYTES: Final = late.compiled(rb"[\x20-\x7e]{6,}")
_HOST: Final = "select value from TARGET_INFO_SYSTEM_ENV where name in ('Hostname', 'OriginalHostname')"
_REMEMBERED: Final = 100_000


class Unreadable(Exception):
    """No copy can be made; the message says why."""


def kind_of(file: InputFile) -> str:
    """``sqlite`` or ``pickle`` for what can be copied, nothing for other binary files."""
    head = file.head()
    if head.startswith(MAGIC):
        return SQLITE
    return PICKLE if head[:1] == b"\x80" and len(head) > 1 and 2 <= head[1] <= 5 else ""


def texts_of(file: InputFile) -> Iterator[str]:
    """The texts that a copy will hold, and the names of hosts in what it will not, for learning names."""
    if kind_of(file) == PICKLE:
        yield from _texts_in(_loaded(file)[0])
        return
    with contextlib.suppress(sqlite3.Error, DamagedStream, UnicodeDecodeError), open_database(file) as database:
        if database.has("TARGET_INFO_SYSTEM_ENV", "name", "value"):
            for (host,) in database.connection.execute(_HOST):
                yield f"HOSTNAME={host}"
        for _, rows in _tables(database):
            for row in rows:
                yield from (value for value in row if isinstance(value, str))


def write_redacted(file: InputFile, redactor: Redactor, out: Path) -> str:
    """Writes the copy, compressed if its name says so; what was wrong with the input.

    Raises Unreadable: nothing could be read.
    """
    place, text = temporary.place("copy"), functools.lru_cache(_REMEMBERED)(redactor.text)
    try:
        if kind_of(file) == PICKLE:
            loaded, problem = _loaded(file)
            if loaded is None:
                raise Unreadable(problem)
            place.write_bytes(_dumped(loaded, text))
        else:
            problem = _copy_database(file, text, place)
        with out.open("xb") as target, packed(target, out.name) as plain, place.open("rb") as copy:
            shutil.copyfileobj(copy, plain, 1 << 20)
    finally:
        temporary.discard(place)
    return problem


def _loaded(file: InputFile) -> tuple[Any, str]:
    content = read_content(file)
    loaded, problem = load_plain(content.data, file.limits.pickle_steps)
    return loaded, content.problem or problem


def _texts_in(loaded: Any) -> Iterator[str]:
    """All texts of nested plain data, each object once: it may hold itself."""
    waiting, seen = [loaded], set[int]()
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, (dict, list, tuple)) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend([*item.keys(), *item.values()] if isinstance(item, dict) else item)


def _dumped(loaded: Any, text: Callable[[str], str]) -> bytes:
    """The data with its texts replaced; what is shared stays shared."""
    made: dict[int, Any] = {}

    def replaced(item: Any) -> Any:
        if isinstance(item, str):
            return text(item)
        if isinstance(item, (bytes, bytearray)):
            return b"" if _TEXT_IN_BYTES.search(item) else bytes(item)
        if not isinstance(item, (dict, list, tuple)):
            return item
        if id(item) in made:
            return made[id(item)]
        copy: Any
        if isinstance(item, dict):
            copy = made[id(item)] = {}
            copy.update((replaced(key), replaced(value)) for key, value in item.items())
        elif isinstance(item, list):
            copy = made[id(item)] = []
            copy.extend(replaced(value) for value in item)
        else:
            copy = made[id(item)] = tuple(replaced(value) for value in item)
        return copy

    try:
        return pickle.dumps(replaced(loaded), protocol=4)
    except RecursionError as error:
        raise Unreadable("it is nested too deeply") from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _tables(database: Database) -> Iterator[tuple[str, Iterator[tuple[Any, ...]]]]:
    """The kept tables with their rows, the texts last."""
    kept = sorted(n for n in database.columns if _KEPT.fullmatch(n) and database.columns[n])
    named: set[int] = set()

    def rows(name: str) -> Iterator[tuple[Any, ...]]:
        columns = database.columns[name]
        at = [i for i, column in enumerate(columns) if _NAMES.fullmatch(column)]
        wanted = ", ".join(_quoted(c) for c in columns)
        for row in database.connection.execute(f"select {wanted} from {_quoted(name)}"):
            named.update(row[i] for i in at if isinstance(row[i], int))
            yield row

    for name in kept:
        if name != _TEXTS:
            yield name, rows(name)
    if _TEXTS in kept and database.has(_TEXTS, "id", "value"):
        whole = (row for row in database.connection.execute("select id, value from StringIds"))
        yield _TEXTS, (row for row in whole if row[0] in named)


def _copy_database(file: InputFile, text: Callable[[str], str], out: Path) -> str:
    def replaced(value: Any) -> Any:
        if isinstance(value, str):
            return text(value)
        return None if isinstance(value, bytes) and _TEXT_IN_BYTES.search(value) else value

    problem = ""
    with contextlib.closing(sqlite3.connect(out)) as copy:
        copy.execute("pragma journal_mode=off")
        try:
            with open_database(file) as database:
                for name, rows in _tables(database):
                    columns = ("id", "value") if name == _TEXTS else database.columns[name]
                    copy.execute(f"create table {_quoted(name)} ({_declared(database, name, columns)})")
                    marks = ",".join("?" * len(columns))
                    copy.executemany(
                        f"insert into {_quoted(name)} values ({marks})",
                        (tuple(replaced(value) for value in row) for row in rows),
                    )
        except (sqlite3.Error, DamagedStream, UnicodeError, OverflowError) as error:
            problem = f"the database is damaged or cut ({error})"
        copy.commit()
        if not copy.execute("select count(*) from sqlite_master").fetchone()[0]:
            raise Unreadable(problem or "it has no table that is read")
    return problem


def _declared(database: Database, name: str, columns: tuple[str, ...]) -> str:
    """Columns with their types, as far as those are plain words."""
    types = dict(database.connection.execute("select name, type from pragma_table_info(?)", (name,)))
    shown = (f"{_quoted(c)} {t if _TYPE.fullmatch(t := str(types.get(c) or '')) else ''}" for c in columns)
    return ", ".join(shown)

"""Python exceptions between the lines of a log: what was raised, where, and which process said so.

A traceback is a line that announces it, frames, and the exception. Ranks write at the same time, so lines are told
apart by the tag in front of them (``[rank5]:``, ``(Worker_TP3 pid=77)``, ``3: ``); without tags by their order.
Exceptions whose line is a message of its own (torch's quote of NCCL's error) are not here: they belong to that message.
"""

import re
from typing import Final

import polars as pl

from nccl_insight.base import late, texts
from nccl_insight.base.data import dataclass, field
from nccl_insight.readers.embedded.tags import read_tag
from nccl_insight.tables.schema import of_input, of_rows

SCHEMA: Final = of_input("tracebacks")
SIGNS: Final = (
    "Traceback (most recent call last)", "Error", "Exception", "above exception", '  File "', "-- Process ",
    "StopIteration", "TimeoutExpired", "Unsupported",
)  # fmt: skip
_MARK: Final = "Traceback (most recent call last)"
_PATTERNS: Final = texts.patterns(__file__)
_RE: Final = texts.compiled(__file__)
_CLASS: Final = _PATTERNS["class"]
# Names that are words as well: only a traceback makes exceptions of them.
_WORDS: Final = frozenset({"Exception", "StopIteration", "TimeoutExpired", "Unsupported"})
NEAR: Final = _PATTERNS["near"]
_EXCEPTION: Final = late.compiled(rf"^(?P<cls>{_CLASS})(?:\((?P<inner>[A-Za-z_]\w*)\))?(?:: (?P<text>.*))?$")
_START: Final = late.compiled(rf"(?:^|(?<=[\])>:|] )|(?<=\]:)){_CLASS}(?:\([A-Za-z_]\w*\))?(?:: |$)")
# What Python says of exceptions in destructors and on the way out, in front of the traceback: it goes on.
_IGNORED: Final = "Exception ignored in"
_CHAIN: Final = ("During handling of the above exception", "above exception was the direct cause")
_REACH: Final = 400
_NEXT: Final = 3
_TAG_MOST: Final = 300


@dataclass
class _Open:
    """A traceback that was announced and whose exception has not come yet."""

    line: int
    tag: str
    chained: bool
    place: str | None = None
    library: str | None = None
    package: str | None = None
    cut: bool = False
    rank: int | None = None
    ignored: bool = False
    tagged: bool = False


@dataclass
class _Reader:
    rows: list[dict[str, object]] = field(default_factory=list)
    open: dict[str, _Open] = field(default_factory=dict)
    chained: set[str] = field(default_factory=set)
    spawned: int | None = None
    ignored: int = -1

    def take(self, line: int, text: str) -> None:
        child = _RE["spawned"].search(text)
        if child is not None:
            self.spawned = int(child[1])
            return
        if any(sign in text for sign in _CHAIN):
            self.chained.add(_key(text[: min(p for s in _CHAIN if (p := text.find(s)) >= 0)]))
            return
        if _IGNORED in text:
            self.ignored = line
            return
        at = text.find(_MARK)
        if at >= 0:
            key = _key(text[:at])
            self.open.pop(key, None)
            self.open[key] = _Open(
                line, text[:at], key in self.chained, rank=self.spawned, ignored=line == self.ignored + 1
            )
            self.spawned = None
            self.chained.discard(key)
            return
        frame = _RE["frame"].search(text)
        if frame is not None:
            self._frame(line, text[: frame.start()], frame)
        else:
            self._raised(line, text)

    def _frame(self, line: int, tag: str, frame: re.Match[str]) -> None:
        opened = self._of(_key(tag), line)
        if opened is None or opened.cut:  # the beginning of the traceback is not in the log
            opened = self.open[_key(tag)] = _Open(line, tag, False, cut=True)
        opened.tagged = bool(_key(tag))
        place, package = f"{frame[1]}:{frame[2]}", _RE["package"].search(frame[1])
        opened.package = package[1] if package else None
        if _RE["library"].search(frame[1]):
            opened.library = place
        else:
            opened.place = place

    def _raised(self, line: int, text: str) -> None:
        """A line that may be an exception: of an open traceback, or by itself."""
        at = self._behind_tag(line, text)
        if at < 0:
            start = _START.search(text)
            at = start.start() if start else len(text)
        tag, found = text[:at], _EXCEPTION.match(text[at:].rstrip())
        opened = self._of(_key(tag), line) if found else None
        if found is None or (opened is None and (found["text"] is None or found["cls"] in _WORDS)):
            return
        if opened is None:
            self._add(line, found, tag, None)
            return
        self.open = {k: v for k, v in self.open.items() if v is not opened}
        if not opened.ignored:
            self._add(line, found, tag if tag.strip() else opened.tag, opened)

    def _behind_tag(self, line: int, text: str) -> int:
        """Where an exception begins behind the tag of an open traceback, whatever that tag looks like; else -1."""
        for key, opened in reversed(self.open.items()):
            if line - opened.line > _REACH:
                break
            if not 0 < len(opened.tag) <= _TAG_MOST:
                continue
            # The number of a line may have got longer.
            for size in range(len(opened.tag), len(opened.tag) + 3):
                if _key(text[:size]) == key and _EXCEPTION.match(text[size:].rstrip()):
                    return size
        return -1

    def _of(self, key: str, line: int) -> _Open | None:
        """The open traceback of a tag; without one, the only or latest open one whose lines have no tags."""
        found = self.open.get(key)
        if found is None and not key and self.open:
            found = max((o for o in self.open.values() if not o.tagged), key=lambda o: o.line, default=None)
        return found if found is not None and line - found.line <= (_NEXT if found.cut else _REACH) else None

    def _add(self, line: int, found: re.Match[str], tag: str, opened: _Open | None) -> None:
        name, inner, before, time = str(found["cls"]), found["inner"], read_tag(tag), _RE["time"].search(tag)
        who = {"host": next(iter(before.hosts), None), "pid": before.pid, "rank": before.rank, "tag": tag.strip()}
        what = {"exception": f"{name}({inner})" if inner else name, "text": (found["text"] or "").strip()[:1000]}
        where = {"line": line, "timestamp": time[0] if time else None}
        if opened is not None:
            where |= {"place": opened.place or opened.library, "package": opened.package, "chained": opened.chained}
            who["rank"] = opened.rank if before.rank is None else before.rank
        self.rows.append({"chained": False, "traceback": opened is not None, **where, **who, **what})


_FAILS: Final = ("Error", "Exception", "Failure", "Abort", "Fault", "Timeout", "Exit")
_WARNS: Final = ("Warning", "Info", "Notice")
_SINGLE: Final = frozenset({"StopIteration", "Unsupported", "KeyboardInterrupt", "SystemExit"})

# What Lustre's modules put in front of their lines.
_OF_KERNEL: Final = frozenset({"LustreError", "LNetError"})


def exception_in(text: str) -> str | None:
    """The class of an exception that a line raises by its form (``pkg.mod.SomeClass: text``), without a traceback.

    By its package, by a name that only classes have, or one of Python's own.
    """
    if _RE["bare"].match(text.strip()):
        return text.strip()
    found = _RE["alone"].search(text[:1000])
    if found is None or _RE["without"].search(found["text"]):
        return None
    name = str(found["cls"])
    package, _, last = name.rpartition(".")
    classy = last[:1].isupper() and not last.isupper() and not last.endswith(_WARNS) and last not in _OF_KERNEL
    if classy and (last in _SINGLE or last.endswith(_FAILS)):
        return name
    return name if classy and package and package[:1].islower() and ".." not in name else None


def ends_traceback(text: str) -> str | None:
    """The class in the first line behind the frames of a traceback, whatever its name; None where it is no class."""
    return text.partition(":")[0].strip() if _RE["ends_trace"].match(text.strip()) else None


def _key(tag: str) -> str:
    return " ".join(_RE["changing"].sub("", _RE["numbered"].sub("", tag)).split())


def scan_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Exceptions in ``lines`` (``line``, ``text``), one row each, in reading order."""
    text = pl.col("text")
    # A class alone or with a heading, and what it says on indented lines behind it; so do exceptions of torch.compile.
    said = "(?:Error|Exception): ?(?:[0-9]+ validation errors? for [\\w.]+|[^:]{1,120}:)?$"
    said_behind = text.str.contains(said) & text.shift(-1).str.contains(_PATTERNS["margin"] + r'[^\s"F]')
    alone = said_behind | text.shift(-1).str.starts_with("  Explanation: ")
    behind = (text.shift(-n).str.replace(_PATTERNS["margin"], "").fill_null("") for n in (1, 2))
    lines = lines.with_columns(text=pl.when(alone).then(pl.concat_str(text, *behind, separator=" ")).otherwise(text))
    near = lines.filter(text.str.contains_any(list(SIGNS)) & text.str.contains(NEAR))
    reader = _Reader()
    for line, raw in near.select("line", "text").iter_rows():
        reader.take(line, raw[:4000])
    return of_rows(reader.rows, SCHEMA)

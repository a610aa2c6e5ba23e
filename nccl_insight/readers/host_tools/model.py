"""What the readers of host tools share: a tool, one output of it, and the rows that it gives."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from nccl_insight.base import late, texts
from nccl_insight.base.data import dataclass, field

Lines: TypeAlias = Sequence[tuple[int, str]]

#: More rows than this of one input are not kept.
MOST_ROWS: Final = 50_000
_LONGEST: Final = 400
# What tools print where they could not read a value; such a value is unknown, never 0.
_UNREAD: Final = late.compiled(
    r"\[?(?:N/?A|(?:\[?Not (?:Supported|Available|Found)\]?)|Unknown Error|Insufficient Permissions|"
    r"Requested functionality has been deprecated|-+|\(null\)|None|unknown|ERR!?|GPU is lost|GPU requires reset)\]?",
    re.I,
)
_FAILED: Final = late.compiled(
    r"permission denied|operation not permitted|no such file|not permitted|cannot open", re.I
)


@dataclass(frozen=True)
class Tool:
    """A tool whose output is read.

    ``name`` is the command as it is typed, ``what`` says in words what the output is. An output begins with a line that
    ``starts`` matches from its first character, and of which each holds one of ``signs``; ``belongs`` matches its
    other lines. ``reader``: module here and its function, without ``_``; what its facts are called, and the pattern of
    what is worth a word or has their value, stand in ``prefix`` and ``telling``, the key whose value is the device in
    ``device``, for readers of several tools. ``command``: begins only behind an echo of a command that matches.
    ``weak``: its first line may as well be one of another output that goes on. ``also``: ``topology`` or ``ras``, where
    its lines are rows of those tables, too.
    """

    name: str
    what: str
    signs: tuple[str, ...]
    starts: str
    belongs: str
    reader: str
    command: str = ""
    weak: bool = False
    also: str = ""
    prefix: str = ""
    telling: str = ""
    device: str = ""

    def read(self, output: Output, found: Found) -> str:
        """Takes one output apart; in a phrase what it holds."""
        module, _, name = self.reader.partition(".")
        return cast("str", getattr(import_module(f"{__package__}.{module}"), f"_{name}")(output, found))


def described() -> tuple[Tool, ...]:
    """The tools of ``tools.txt``, in its order."""
    said: Mapping[str, Mapping[str, Any]] = texts.of_file(Path(__file__).with_name("tools.txt"))
    return tuple(
        Tool(**{"name": key, **own, "signs": tuple(json.loads(own["signs"])), "weak": "weak" in own})
        for key, own in said.items()
    )


@dataclass(frozen=True)
class Output:
    """One output of a tool: its lines without what others put in front, the host and the command where known."""

    tool: Tool
    lines: Lines
    host: str | None = None
    command: str = ""
    path: str = ""

    @property
    def line(self) -> int:
        """Number of its first line."""
        return self.lines[0][0]

    def texts(self) -> list[str]:
        """The lines without their numbers."""
        return [text for _, text in self.lines]

    def argument(self, pattern: str) -> str | None:
        """What the command, else the name of the file, holds for a pattern with one group."""
        found = re.search(pattern, self.command) or re.search(pattern, self.path.rsplit("/", 1)[-1])
        return found[1] if found else None


@dataclass
class Found:
    """Rows of one input. ``lost`` counts those that were too many, ``unread`` the values that a tool could not read."""

    facts: list[tuple[int, str | None, str | None, str, str, str | None, str]] = field(default_factory=list)
    stacks: list[dict[str, object]] = field(default_factory=list)
    copies: list[tuple[object, ...]] = field(default_factory=list)
    env: list[tuple[int, str | None, str, str]] = field(default_factory=list)
    outputs: list[dict[str, object]] = field(default_factory=list)
    also: dict[str, list[tuple[int, str, str | None]]] = field(default_factory=dict)
    lost: int = 0
    unread: int = 0
    host: str | None = None
    tool: str = ""

    def fact(self, line: int, device: str | None, name: str, value: object, unit: str | None = None) -> bool:
        """One fact; whether the tool could read its value."""
        text = " ".join(str(value).split())[:_LONGEST]
        if not text or _UNREAD.fullmatch(text) or _FAILED.search(text):
            self.unread += bool(text)
            return False
        if len(self.facts) >= MOST_ROWS:
            self.lost += 1
        else:
            self.facts.append((line, self.host, device, name, text, unit, self.tool))
        return True

    def frame(self, **columns: object) -> None:
        """One frame of a stack (columns of ``stacks``)."""
        if len(self.stacks) >= MOST_ROWS:
            self.lost += 1
        else:
            self.stacks.append({"host": self.host, **columns})


def number(text: str | None) -> float | None:
    """The number that a value begins with: ``81,559MiB`` is 81559, ``16x`` 16, ``32GT/s`` 32; None for none."""
    match = re.match(r"\s*([+-]?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)", text or "")
    return float(match[1].replace(",", "")) if match else None


def slug(text: str) -> str:
    """A key as the name of a fact: ``SM lid`` is ``sm_lid``, ``Volatile/DRAM`` ``volatile.dram``."""
    return re.sub(r"[^a-z0-9.]+", "_", text.strip().lower().replace("/", ".")).strip("_")


def bus_id(text: str) -> str | None:
    """A PCI address as the tables write it, ``0000:1b:00.0``: domain of four digits, lower case, with its function."""
    match = re.search(r"(?:\b([0-9a-fA-F]{4,8}):)?\b([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?", text)
    if match is None:
        return None
    domain = (match[1] or "0")[-4:].rjust(4, "0")
    return f"{domain}:{match[2]}:{match[3]}.{match[4] or 0}".lower()


def listed(items: Sequence[str], most: int = 4) -> str:
    """``a, b, c and 3 more``."""
    head = ", ".join(items[:most])
    return f"{head} and {len(items) - most} more" if len(items) > most else head


def count(n: int, what: str) -> str:
    """``1 port``, ``4 ports``."""
    return f"{n} {what}{'' if n == 1 else 's'}"

"""Which lines of a text are outputs of host tools: where each begins and ends, of which host, by which command.

Several outputs may stand in one text, of several hosts, with the words of a launcher in front of each line, between
lines of a log. An output begins with a line that no other program prints and goes on while lines have its form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from nccl_insight.base import late, texts
from nccl_insight.base.data import dataclass
from nccl_insight.readers.host_tools.model import Lines, Output, Tool

_RE: Final = texts.compiled(__file__)
ANSI: Final = r"\x1b\[[0-9;?]*[A-Za-z]"
_ANSI: Final = late.compiled(ANSI)
# So many lines of others in an output do not end it; blank ones never do.
_STRAY: Final = 2
_LONGEST_LINE: Final = 4000
# Lines of NCCL may stand between those of an output.
_RECORD: Final = " NCCL "
# So many lines before an output may say whose it is.
_CONTEXT: Final = 4
# An output of more lines has ended without a sign of it, or is none.
_MOST_LINES: Final = 50_000


@dataclass(frozen=True)
class _Front:
    """What stands in front of each line of an output."""

    stamp: bool
    label: str
    host: str | None

    def bare(self, text: str) -> str | None:
        """The line without it; None for a line of another."""
        if self.stamp:
            match = _RE["stamp"].match(text)
            if match is None:
                return None
            text = text[match.end() :]
        if text.startswith(self.label):
            return text[len(self.label) :]
        return "" if text.strip() == self.label.strip() else None


_PLAIN: Final = _Front(False, "", None)


class Cutter:
    """Cuts texts into outputs of the given tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = [(tool, late.compiled(tool.starts), late.compiled(tool.belongs)) for tool in tools]
        self._signs = {sign for tool in tools for sign in tool.signs}
        front = f"^(?:{_RE['stamp'].pattern})?(?:{_RE['label'].pattern})?(?:"
        #: Any line with which an output begins, for polars.
        self.start = re.sub(r"\(\?P<[a-z]+>", "(?:", front + "|".join(tool.starts for tool in tools) + ")")

    def begin(self, text: str, command: str | None) -> tuple[int, _Front] | None:
        """The tool whose output begins with a line, and what stands in front; None: whatever the command was."""
        if not any(sign in text for sign in self._signs):
            return None
        fronts = [_PLAIN]
        stamp = _RE["stamp"].match(text)
        at = stamp.end() if stamp else 0
        if stamp:
            fronts.append(_Front(True, "", None))
        label = _RE["label"].match(text, at)
        if label:
            host = label["host"] or label["tag"]
            named = host if host and _RE["name"].match(host) else None
            fronts.append(_Front(bool(stamp), label[0], named))
        for front in fronts:
            body = front.bare(text)
            for index, (tool, starts, _) in enumerate(self.tools):
                likely = body and any(sign in body for sign in tool.signs) and starts.match(body)
                if likely and (not tool.command or command is None or re.search(tool.command, command)):
                    return index, front
        return None

    def outputs(self, lines: Lines, path: str = "") -> Iterator[Output]:
        """Outputs in the order in which they begin."""
        cut = _Cut(self)
        for number, text in lines:
            cut.feed(number, text)
        for output in cut.outputs():
            yield Output(output.tool, tuple(output.lines), output.host, output.command, path)

    def numbers(self, hits: Sequence[int], first: int, last: int, text: Callable[[int], str]) -> Iterator[int]:
        """Numbers of the lines from ``first`` to ``last`` that :meth:`outputs` needs; outputs begin at ``hits``."""
        at = first
        for hit in hits:
            if hit < at:
                continue
            cut = _Cut(self)
            at = max(at, hit - _CONTEXT)
            while at <= last and (at <= hit or cut.open):
                cut.feed(at, text(at))
                yield at
                at += 1


class _Cut:
    """Takes lines one after the other and knows which outputs are open."""

    def __init__(self, cutter: Cutter) -> None:
        self._cutter = cutter
        self.open: dict[str, _Open] = {}
        self._done: list[_Open] = []
        self._host: str | None = None
        self._command = ""
        self._before = ["", ""]

    def outputs(self) -> list[_Open]:
        """All outputs so far by their first lines."""
        return sorted([*self._done, *self.open.values()], key=lambda o: o.lines[0][0])

    def feed(self, number: int, raw: str) -> None:
        """Takes the next line."""
        text = _plain(raw)
        if _RECORD in text:
            return
        if not text.strip():
            for output in self.open.values():
                output.blank(number)
            return
        tools = self._cutter.tools
        started = self._cutter.begin(text, self._command)
        if (started is None or tools[started[0]][0].weak) and self._continues(number, text):
            return
        prompt, heading = _RE["prompt"].match(text), _heading(text, self._before)
        self._before = [self._before[1], text]
        if started is not None:
            index, front = started
            tool, _, belongs = tools[index]
            known = self.open.get(front.label)
            if known is None or known.tool is not tool:
                self._done += [known] if known is not None else []
                self.open[front.label] = _Open(tool, belongs, front, front.host or self._host, self._command)
            self.open[front.label].take(number, front.bare(text) or "")
        elif heading:
            self._ends_all(heading, "")
        elif prompt:
            self._ends_all(prompt["host"] or self._host, prompt["command"])
        else:
            ended = [n for n, o in self.open.items() if o.front.bare(text) is not None and o.stray()]
            self._done += [self.open.pop(label) for label in ended]

    def _ends_all(self, host: str | None, command: str) -> None:
        """What was open is done where a command begins, or a host."""
        self._done += self.open.values()
        self.open.clear()
        self._host, self._command = host, command

    def _continues(self, number: int, text: str) -> bool:
        """Takes a line into the output that it goes on with, if any."""
        for output in self.open.values():
            body = output.front.bare(text)
            if body is not None and output.belongs.match(body):
                output.take(number, body)
                return True
        return False


def _plain(raw: str) -> str:
    text = raw[:_LONGEST_LINE].rstrip("\r\n")
    return _ANSI.sub("", text) if "\x1b" in text else text


class _Open:
    """An output that may go on."""

    def __init__(self, tool: Tool, belongs: re.Pattern[str], front: _Front, host: str | None, command: str) -> None:
        self.tool, self.belongs, self.front, self.host, self.command = tool, belongs, front, host, command
        self.lines: list[tuple[int, str]] = []
        self._blanks: list[tuple[int, str]] = []
        self._strays = 0

    def take(self, number: int, text: str) -> None:
        """Takes a line; those of an output that never ends are left out."""
        if len(self.lines) >= _MOST_LINES:
            return
        self.lines += self._blanks
        self.lines.append((number, text))
        self._blanks.clear()
        self._strays = 0

    def blank(self, number: int) -> None:
        """Notes a blank line, which an output may hold but not end with."""
        if self._blanks[-1:] == []:
            self._blanks.append((number, ""))

    def stray(self) -> bool:
        """Notes a line of another; whether the output has ended."""
        self._strays += 1
        return self._strays > _STRAY


def _heading(text: str, before: list[str]) -> str | None:
    """The host that a heading names: ``=== gpu07 ===``, ``gpu07 | CHANGED | rc=0 >>``, or as dshbak writes it."""
    match = _RE["heading"].match(text)
    if match:
        return match["a"] or match["b"] or match["c"]
    if _RE["rule"].match(text) and _RE["rule"].match(before[0]) and _RE["name"].match(before[1]):
        return before[1]
    return None

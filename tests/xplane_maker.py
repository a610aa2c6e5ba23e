"""Makes profiles of XLA: the message XSpace of tsl/profiler/protobuf/xplane.proto, encoded by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

START_NS = 1_767_189_312_000_000_000
Stat = tuple[str, "int | str"]


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(place: int, value: int) -> bytes:
    return varint(place << 3) + varint(value)


def part(place: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(place << 3 | 2) + varint(len(data)) + data


@dataclass
class Plane:
    """One plane; texts of statistics are references to names where ``refer`` says so, as XLA writes repeated ones."""

    name: str
    refer: bool = True
    lines: list[bytes] = field(default_factory=list)
    own: list[Stat] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)

    def stat(self, name: str, value: int | str) -> bytes:
        kind = self.stats.setdefault(name, len(self.stats) + 1)
        if isinstance(value, int):
            return number(1, kind) + number(4, value)
        if self.refer:
            return number(1, kind) + number(7, self.stats.setdefault(value, len(self.stats) + 1))
        return number(1, kind) + part(5, value)

    def line(self, name: str, start_ns: int, events: Sequence[tuple[str, float, float, Sequence[Stat]]]) -> None:
        """Events: name, start and duration in microseconds of the line, statistics."""
        made = number(1, len(self.lines) + 1) + part(2, name) + number(3, start_ns)
        for title, start, duration, stats in events:
            kind = self.names.setdefault(title, len(self.names) + 1)
            event = number(1, kind) + number(2, round(start * 1e6)) + number(3, round(duration * 1e6))
            made += part(4, event + b"".join(part(4, self.stat(*stat)) for stat in stats))
        self.lines.append(made)

    def encode(self) -> bytes:
        own = b"".join(part(6, self.stat(*stat)) for stat in self.own)
        made = part(2, self.name) + b"".join(part(3, line) for line in self.lines)
        for place, names in ((4, self.names), (5, self.stats)):
            for name, kind in names.items():
                made += part(place, number(1, kind) + part(2, number(1, kind) + part(2, name)))
        return made + own


def space(planes: Sequence[Plane], host: str = "node-a") -> bytes:
    task = Plane("Task Environment", own=[("profile_start_time", START_NS)])
    return b"".join(part(1, plane.encode()) for plane in (*planes, task)) + part(4, host)

"""Streaming scanner of chrome-trace JSON: finds event boundaries in bytes, decodes only events that matter.

The file may be one line of gigabytes. Events are cut where one object ends and the next begins; an event is decoded
only if it holds one of the marker strings. What cannot be decoded is counted, never dropped silently.

There are two ways, which give the same. Blocks of sound text are cut and looked through by polars, and who knows how
takes most of the events that matter without decoding them (:class:`Taker`). What is left of them, and blocks that are
not as they should be, go through Python boundary by boundary. Blocks are small, so that what is cut out of them
stays in the processor's cache.
"""

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

import orjson
import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.inputs.blocks import DamagedStream
from nccl_insight.readers.side import whole_characters

CHUNK_BYTES: Final = 1 << 20
_HEADER_LIMIT: Final = 64 << 20
_EVENT_LIMIT: Final = 64 << 20
_TAIL_BYTES: Final = 1 << 20
_HEAD_BYTES: Final = 1 << 16
_BOUNDARY: Final = re.compile(rb"\}[\s,]*\{\s*\"")
_BOUNDARIES: Final = r"\}[ \t\n\r\x0b\x0c,]*\{[ \t\n\r\x0b\x0c]*\""  # the same for polars
_OPENING: Final = re.compile(rb"[\s,]*\{\s*\"")
_PLAIN_CUT: Final = '},{"'
_LOOKED_AT: Final = 256
_TAKEN_LEAST_BYTES: Final = 1 << 17
_ARRAY: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_CLOSED: Final = re.compile(rb"[\]\}]\s*\}?\s*\Z")
_STRICT: Final = json.JSONDecoder(strict=False)

Event = dict[str, Any]


@dataclass
class Damage:
    """What went wrong while reading; empty for a sound file."""

    truncated: str = ""
    unreadable_events: int = 0
    first_unreadable: int | None = None
    no_events: bool = False


class Taker(Protocol):
    """Who takes events of a known layout, many at a time."""

    @property
    def candidates(self) -> str:
        """A pattern for polars that is found in every event in which a marker is; in others it may be, too."""

    def take(self, events: pl.Series) -> list[str] | None:
        """Takes what it can of the texts of events, each without its first ``{"`` and its last ``}``.

        Gives those that have to be decoded; None when nothing was taken and the block is to be read the other way.
        """


@dataclass
class ChromeScan:
    """Iterates over lists of decoded events; ``head``, ``tail``, ``damage`` are complete after the iteration.

    ``markers`` are matched against the raw bytes: an event is decoded when a match begins inside it, unless
    ``taker`` takes it.
    """

    blocks: Iterator[bytes]
    markers: Sequence[re.Pattern[bytes]]
    taker: Taker | None = None
    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    events: int = 0
    damage: Damage = field(default_factory=Damage)
    _cut: bytes = b""

    def _chunks(self) -> Iterator[bytes]:
        """Blocks of the file; a damaged stream ends the iteration and is noted."""
        try:
            for block in self.blocks:
                self.size += len(block)
                yield block
        except DamagedStream as error:
            self.damage.truncated = str(error)

    def __iter__(self) -> Iterator[list[Event]]:
        """Decoded events, chunk by chunk, in file order."""
        chunks = self._chunks()
        opened = self._open_array(chunks)
        if opened is None:
            return
        waiting, held, enough = [opened], len(opened), 0
        for block in chunks:
            waiting.append(block)
            held += len(block)
            if held < enough:
                continue
            buffer = b"".join(waiting)
            end = yield from self._taken(buffer)
            if not end:
                cuts = [m.start() + 1 for m in _BOUNDARY.finditer(buffer)]
                if not cuts:
                    if held > _EVENT_LIMIT:
                        self.damage.truncated = f"an event at byte {self.size - held:,} has no end"
                        return
                    # An event of many blocks: look again when there is twice as much.
                    waiting, enough = [buffer], 2 * held
                    continue
                end = cuts[-1]
                self.events += len(cuts)
                yield self._decode(buffer[:end], cuts, self.size - held)
            rest = buffer[end:]
            waiting, held, enough = [rest], len(rest), 0
        buffer = b"".join(waiting)
        self.tail = (buffer if len(buffer) < _TAIL_BYTES else buffer[-_TAIL_BYTES:]).rstrip()
        if not _CLOSED.search(self.tail[-64:]) and not self.damage.truncated:
            self.damage.truncated = "the file ends inside the list of events"
        end = yield from self._taken(buffer)
        buffer = buffer[end:]
        cuts = [m.start() + 1 for m in _BOUNDARY.finditer(buffer)]
        if buffer.strip(b" \t\r\n,]}"):
            cuts.append(len(buffer))
        self.events += len(cuts)
        yield self._decode(buffer, cuts, self.size - len(buffer), last=bool(self.damage.truncated))

    def _taken(self, buffer: bytes) -> Generator[list[Event], None, int]:
        """Cuts the whole events of a buffer by polars; gives what the taker leaves of them.

        The value is how many bytes they are: 0 where this way would not give what the boundaries do.
        """
        opening = _OPENING.match(buffer)
        if self.taker is None or opening is None or len(buffer) < _TAKEN_LEAST_BYTES:
            return 0
        if not self._cut:
            seen = Counter(found[0] for found in islice(_BOUNDARY.finditer(buffer), _LOOKED_AT))
            self._cut = seen.most_common(1)[0][0] if seen else b""
        end = buffer.rfind(self._cut) if self._cut else -1
        if end < opening.end():
            return 0
        try:
            text = pl.DataFrame({"text": [buffer[opening.end() : end].decode()]})
        except UnicodeDecodeError:
            return 0
        whole = pl.col("text").str
        cut = text.select(whole.split(self._cut.decode()), count=whole.count_matches(_BOUNDARIES) + 1)
        events, count = cut.item(0, 0), cut.item(0, 1)
        if events.len() != count:  # not all are cut alike
            events = text.select(whole.replace_all(_BOUNDARIES, _PLAIN_CUT).str.split(_PLAIN_CUT)).item()
        left = self.taker.take(events.filter(events.str.contains(self.taker.candidates)))
        if left is None:
            return 0
        self.events += count
        pieces = [b'{"%b}' % text.encode() for text in left]
        pieces = [piece for piece in pieces if any(marker.search(piece) for marker in self.markers)]
        loaded = self._loaded(pieces)
        if loaded is None:
            loaded, place = [], 0
            for piece in pieces:
                place = buffer.find(piece[2:-1], place)
                loaded += self._rescue(buffer, buffer.rfind(b"}", 0, place) + 1, piece, self.size - len(buffer))
        yield loaded
        return end + 1

    def _open_array(self, chunks: Iterator[bytes]) -> bytes | None:
        """Reads up to the list of events; the rest of what was read, or None when there is no such list."""
        buffer = bytearray()
        enough = 0
        for block in chunks:
            buffer += block
            if len(buffer) < enough:
                continue
            if buffer[:_HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                return bytes(buffer[buffer.index(b"[") + 1 :])
            if len(buffer) > _HEADER_LIMIT or _ARRAY.search(buffer):
                break
            enough = 2 * len(buffer)
        found = _ARRAY.search(buffer)
        if found:
            self.head = bytes(buffer[: found.start()])
            return bytes(buffer[found.end() :])
        self.head = bytes(buffer)
        self.damage.no_events = True
        return None

    def _decode(self, data: bytes, cuts: list[int], at: int, last: bool = False) -> list[Event]:
        """The events of ``data`` that hold a marker. ``cuts`` are the ends of its events, ``at`` is its place.

        With ``last`` the final event may be cut in the middle, which is not counted as unreadable.
        """
        places = [found.start() for marker in self.markers for found in marker.finditer(data)]
        wanted = sorted({bisect_right(cuts, place) for place in places})
        spans = [(cuts[i - 1] if i else 0, cuts[i] if i < len(cuts) else len(data)) for i in wanted]
        pieces = [data[a:b].strip(b" \t\r\n,") for a, b in spans]
        loaded = self._loaded(pieces)
        if loaded is not None:
            return loaded
        bad = self.damage.unreadable_events
        events = [e for (a, _), piece in zip(spans, pieces, strict=True) for e in self._rescue(data, a, piece, at)]
        if last and wanted[-1] >= len(cuts) - 1 and self.damage.unreadable_events > bad:
            self.damage.unreadable_events -= 1
        return events

    @staticmethod
    def _loaded(pieces: list[bytes]) -> list[Event] | None:
        """The objects of some texts, None unless each is one value."""
        try:
            found = orjson.loads(b"[" + b",".join(pieces) + b"]")
        except orjson.JSONDecodeError:
            return None
        return [e for e in found if isinstance(e, dict)] if len(found) == len(pieces) else None

    def _rescue(self, data: bytes, start: int, piece: bytes, at: int) -> list[Event]:
        """One event by itself: NaN, control characters and nested lists of objects are allowed here."""
        try:
            event = orjson.loads(piece)
        except orjson.JSONDecodeError:
            text = data[start : start + max(len(piece) + 2, 1 << 16)].decode("utf-8", "replace").lstrip(" \t\r\n,")
            try:
                event, _ = _STRICT.raw_decode(whole_characters(text))
            except (ValueError, RecursionError):
                self.damage.unreadable_events += 1
                if self.damage.first_unreadable is None:
                    self.damage.first_unreadable = at + start
                return []
        return [event] if isinstance(event, dict) else []


def header_values(head: bytes, tail: bytes, keys: tuple[str, ...]) -> dict[str, Any]:
    """Top-level values of the file, from what stands before and after the list of events.

    Tolerates damage: each key is looked up by itself; a value that cannot be decoded is left out.
    """
    values: dict[str, Any] = {}
    end = max(tail.rfind(b"]"), 0)
    closing = max(tail.rfind(b"}\n]", 0, end), tail.rfind(b"}]", 0, end), 0)
    for part in (head, tail[closing:], tail):
        for key in keys:
            if key in values:
                continue
            match = re.search(rb'"' + key.encode() + rb'"\s*:\s*', part)
            if match is None:
                continue
            try:
                text = part[match.end() :].decode("utf-8", "replace")
                values[key], _ = _STRICT.raw_decode(whole_characters(text))
            except (ValueError, RecursionError):
                continue
    return values

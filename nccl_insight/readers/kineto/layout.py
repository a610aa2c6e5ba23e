"""Kernels and launches as Kineto lays them out, which are most of the events that matter: read by one pattern, many at
a time, without decoding them.

Of what looks otherwise, and of kernels of NCCL, whose metadata count, nothing is taken: :meth:`Events.add` gets them
decoded and makes the same rows of them.
"""

import re
from typing import Final

import polars as pl

from nccl_insight.base.data import dataclass, field
from nccl_insight.readers.kernels import COMM, classify
from nccl_insight.readers.kineto.events import CALLS, CANDIDATES, Events

_END: Final = "\0"  # stands between the texts of events, and in no JSON
_TIME: Final = r"([0-9]{1,15}\.?[0-9]{0,6})"
_THREAD: Final = r'"pid": [0-9]{1,9},\s*"tid": [0-9]{1,18},\s*'
_ARGS: Final = r'(?:\s*"[^"]*": [^,{}]*,){0,20}?\s*'
_EVENT: Final = re.compile(
    _END + r'(?:ph": "X",\s*"cat": "(?:'
    r'kernel",\s*"name": "([^"]*)",\s*' + _THREAD + r'"ts": ' + _TIME + r',\s*"dur": ' + _TIME +
    r',\s*"args": \{' + _ARGS + r'"device": ([0-9]{1,9}),' + _ARGS + r'"stream": ([0-9]{1,18}),'
    r'\s*"correlation": ([0-9]{1,18})\s*[,}]'
    r'|(?:cuda|hip)_(?:runtime|driver)",\s*"name": "' + CALLS + r'\w*",\s*' + _THREAD + r'"ts": ' + _TIME +
    r',\s*"dur": [0-9.]+,\s*"args": \{' + _ARGS + r'"correlation": ([0-9]{1,18})\s*[,}])|)',
    re.ASCII,
)  # fmt: skip
"""Name, time, duration, device, stream and correlation of a kernel, time and correlation of a launch; none for another
event. Fast because nothing is searched for character by character; bounded, so that no event takes long."""
_FIELDS: Final = 6
_PARTS: Final = _EVENT.groups + 1
_ROWS: Final = 20_000


@dataclass
class KinetoLayout:
    """Takes kernels and launches for ``events``. At the end :meth:`finish` is to be called."""

    events: Events
    candidates: str = CANDIDATES
    _kernels: list[list[str]] = field(default_factory=lambda: [[] for _ in range(_FIELDS)])
    _launches: list[list[str]] = field(default_factory=lambda: [[], []])
    _told: dict[str, tuple[int, int]] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)

    def take(self, events: pl.Series) -> list[str] | None:
        """See :class:`nccl_insight.readers.chrome.Taker`."""
        if events.is_empty():
            return []
        # One flat list of texts, no tuple of each event: Python's collector has nothing to look at.
        parts: list[str | None] = _EVENT.split(_END + events.str.join(_END).item())
        if len(parts) != _PARTS * events.len() + 1:
            return None
        names, launched = parts[1::_PARTS], parts[_FIELDS + 1 :: _PARTS]
        for name in set(names).difference(self._told):
            if name is not None:
                kind = classify(name, self.events.communication).kind
                self._told[name] = kind, self.events.name_id(name)
                if kind == COMM or "\\" in name:
                    self._left.add(name)
        self._kernels[0] += [name for name in names if name is not None]
        for number, column in enumerate((*self._kernels[1:], *self._launches), 2):
            column += filter(None, parts[number::_PARTS])
        if len(self._kernels[0]) >= _ROWS or len(self._launches[0]) >= _ROWS:
            self.finish()
        others = [
            number
            for number, (name, start) in enumerate(zip(names, launched, strict=True))
            if (start is None if name is None else name in self._left)
        ]
        return events.gather(others).to_list()

    def finish(self) -> None:
        """Gives ``events`` what was taken and not given yet."""
        names, starts, durations, devices, streams, correlations = self._kernels
        told = [self._told[name] for name in names]
        start = _nanoseconds(starts)
        rows = pl.DataFrame(
            {
                "kind": pl.Series([kind for kind, _ in told], dtype=pl.Int8),
                "start_ns": start,
                "end_ns": start + _nanoseconds(durations),
                "device": pl.Series(devices, dtype=pl.String).cast(pl.Int32),
                "stream": pl.Series(streams, dtype=pl.String).cast(pl.Int64),
                "name_id": pl.Series([number for _, number in told], dtype=pl.Int32),
                "correlation": pl.Series(correlations, dtype=pl.String).cast(pl.Int64),
            }
        )
        left = [self._told[name][1] for name in self._left]
        self.events.add_activity(rows.filter(~pl.col("name_id").is_in(left)) if left else rows)
        starts, correlations = self._launches
        numbers = pl.Series(correlations, dtype=pl.String).cast(pl.Int64)
        self.events.add_launches(pl.DataFrame({"correlation": numbers, "start_ns": _nanoseconds(starts)}))
        for column in (*self._kernels, *self._launches):
            column.clear()


def _nanoseconds(texts: list[str]) -> pl.Series:
    """Microseconds with or without decimals in nanoseconds."""
    text = pl.Series(texts, dtype=pl.String)
    whole = text.cast(pl.Int64, strict=False) * 1000
    exact = (text.cast(pl.Float64) * 1000).round().cast(pl.Int64)
    return pl.Series(whole.zip_with(whole.is_not_null(), exact))

"""The collectives of all ranks on one clock, as Chrome JSON, which Perfetto (ui.perfetto.dev) and browsers open.

One process a rank, one thread per stream, one slice a collective, within it the time that the rank waited for the last
one and the transfer; an arrow leads from the arrival of the last rank to the transfer of each rank that waited for it.
Format: "Trace Event Format" of the Chromium project.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from nccl_insight.report.sanitize import one_line
from nccl_insight.views.events import Arrow, Collective, Events, Lane

_TEXT_MOST = 200
_STEPS = 0
"""Thread number of the steps; streams are numbered from 1."""


def chrome_json(view: Events | None) -> bytes:
    """The timeline of a run; a list of events that may be empty."""
    events: list[dict[str, Any]] = []
    if view is not None:
        events += _names(view.lanes)
        events += _slices(view.collectives, view.origin_ns)
        events += _arrows(view.arrows, view.origin_ns)
        for rank, n, start, took in view.steps:
            events.append(_above("step", f"step {n}", rank, start - view.origin_ns, took or 0))
        events += _path(view)
    return orjson.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def _names(lanes: Sequence[Lane]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for rank in sorted({lane.rank for lane in lanes}):
        events.append({"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}})
        events.append({"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}})
        events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": _STEPS, "args": {"name": "steps"}})
    for rank, stream, lane in lanes:
        name = f"stream {stream}" if stream is not None else "collectives"
        events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": lane, "args": {"name": name}})
    return events


def _slices(rows: Sequence[Collective], origin: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for rank, lane, start, took, op, *rest in rows:
        known = dict(zip(Collective._fields[5:], rest, strict=True))
        args = {k: one_line(v, _TEXT_MOST) if isinstance(v, str) else v for k, v in known.items() if v is not None}
        place = {"pid": rank, "tid": lane, "ts": (start - origin) / 1000, "dur": took / 1000, "args": args}
        events.append({"ph": "X", "cat": "collective", "name": op or "communication", **place})
    return events


def _arrows(rows: Sequence[Arrow], origin: int) -> list[dict[str, Any]]:
    """From the start of the last to arrive to every rank that waited for it, whose waiting is a slice of its own.

    Perfetto lets an arrow begin at the slice that started first, whatever its events say; so it leads to the transfer,
    which begins when the last rank has come.
    """
    events: list[dict[str, Any]] = []
    for number, (source, lane, at, rank, to, start, ends) in enumerate(rows, 1):
        place = {"pid": rank, "tid": to, "args": {}}
        from_us, at_us = (start - origin) / 1000, (at - origin) / 1000
        common = {"cat": "waited for", "name": "waited for", "id": number, "ts": at_us}
        waits, moves = (at - start) / 1000, (ends - at) / 1000
        events += (
            {"ph": "X", "cat": "waiting", "name": f"waiting for rank {source}", "ts": from_us, "dur": waits, **place},
            {"ph": "X", "cat": "transfer", "name": "transfer", "ts": at_us, "dur": moves, **place},
            {**common, "ph": "s", "pid": source, "tid": lane},
            {**common, "ph": "f", "bp": "e", "pid": rank, "tid": to},
        )
    return events


def _above(cat: str, name: str, pid: int, start_ns: int, took_ns: int) -> dict[str, Any]:
    """A slice in the lane of steps."""
    at = {"pid": pid, "tid": _STEPS, "ts": start_ns / 1000, "dur": took_ns / 1000, "args": {}}
    return {"ph": "X", "cat": cat, "name": name, **at}


def _path(view: Events) -> list[dict[str, Any]]:
    """The critical path as a process of its own, above the ranks."""
    if not view.path:
        return []
    pid = max(lane.rank for lane in view.lanes) + 1
    names = {"process_name": {"name": "critical path"}, "process_sort_index": {"sort_index": -1}}
    return [
        *({"ph": "M", "name": name, "pid": pid, "tid": _STEPS, "args": args} for name, args in names.items()),
        *(
            _above("critical path", f"rank {rank}: {op or 'own work'}", pid, start - view.origin_ns, end - start)
            for rank, op, start, end in view.path
        ),
    ]

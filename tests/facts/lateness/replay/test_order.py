"""What each node of a timeline waited for."""

from __future__ import annotations

import numpy as np

from nccl_insight.facts.lateness.replay.order import order
from nccl_insight.facts.lateness.replay.timeline import Timeline

US = 1_000


def test_launches_tell_what_a_stream_waits_for_though_it_came_too_late() -> None:
    """Sends behind a slow one start when that ends, and each waits for the kernel that was launched before it."""
    kernels, sends = [(100.0 * i, 100.0 * i + 100) for i in range(8)], [(100.0, 400.0), (400.0, 900.0), (900.0, 1400.0)]
    sends = [(s, e) for s, e in sends] + [(1400.0 + 10 * i, 1410.0 + 10 * i) for i in range(2)]
    launched = [20.0 * i for i in range(8)] + [20.0 * i + 10 for i in range(5)]
    both = [(*times, launch, stream) for times, launch, stream in zip(
        kernels + sends, launched, [0] * 8 + [1] * 5, strict=True
    )]  # fmt: skip
    again = [(s + 2000, e + 2000, launch + 2000, stream) for s, e, launch, stream in both]
    start, end, launch, stream = (np.array(c) * US for c in zip(*sorted(both + again), strict=True))
    stream = (stream / US).astype(np.int64)
    n = start.size
    none = np.full(n, -1, np.int64)
    line = Timeline(
        ranks=(0,), hosts=(None,), rank=np.zeros(n, np.int64), stream=stream,
        step=(start >= 2000 * US).astype(np.int64),
        name=stream, start=start, end=end, launch=launch, meeting=none,
        what=np.where(stream == 1, 0, -1), received=none,
        sends=stream == 1, comm=stream == 1, groups=(), unmatched=0,
    )  # fmt: skip
    found = order(line)
    waits = {(int(start[of]) // US, int(end[to]) // US) for of, to in zip(found.of, found.to, strict=True)}
    assert {(100, 100), (400, 200), (900, 300), (1400, 400), (1410, 500)} <= waits

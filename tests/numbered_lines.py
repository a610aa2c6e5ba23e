"""The lines of a text with their numbers."""

from __future__ import annotations

import random


def _lines(count: int, width: int = 60) -> list[str]:
    """Lines of NCCL and of another program, of many lengths, some empty."""
    rng = random.Random(3)
    kinds = ("node0:1:2 [0] NCCL INFO Channel {n:02d}/0 : 0 1 {x}", "step {n} loss {x}", "", "    at {n} {x}")
    picked = ((n, rng.choices(kinds, (6, 3, 1, 2))[0]) for n in range(count))
    return [kind.format(n=n, x="x" * rng.randrange(width)) for n, kind in picked]

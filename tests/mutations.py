"""Inputs whose bytes were changed."""

from __future__ import annotations

import random
import re

from tests import message_samples
from tests.runs import RUNS

# The last of each type of a column and the next, as they are printed for -1, and what no type holds.
_NUMBERS = (-1, 2**16 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**30)
_DIGITS = re.compile(rb"[0-9]{1,20}")


def seeds() -> list[bytes]:
    logs = [p.read_bytes()[:20_000] for p in sorted(RUNS.glob("*/*.log"))]
    head = "gpu-7:1234:5678 [3] NCCL INFO "
    messages = "\n".join(head + text for text in message_samples.texts())
    return [*logs, messages.encode()[:200_000]]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A few cuts, copies, overwritten spans and inserted oddities."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 40)):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(8)
        if kind == 0:
            del out[at : at + rng.randrange(1, 200)]
        elif kind == 1:
            start = rng.randrange(len(out) + 1)
            out[at:at] = out[start : start + rng.randrange(1, 200)]
        elif kind == 2:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 3:
            out[at:at] = rng.choice(
                [b"\n", b"\r", b"\r\n", b"\x00", b"\x1b[31m", b" NCCL INFO ", b" NCCL WARN ", b"> "]
            )
        elif kind == 4:
            out[at:at] = rng.choice(["\u2028", "\u202e", "é", "\U0001f600"]).encode()
        elif kind == 5:
            out[at:at] = str(rng.choice(_NUMBERS)).encode()
        elif kind == 6 and (number := _DIGITS.search(out, at)):
            out[slice(*number.span())] = str(rng.choice(_NUMBERS)).encode()
        else:
            out[at:at] = rng.choice([b"[", b"]", b"(", b"{", b"<", b"/"]) * rng.randrange(1, 50)
    return bytes(out)

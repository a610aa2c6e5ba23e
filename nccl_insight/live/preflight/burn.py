"""Multiplies matrices and tests the memory of one GPU for a while; run as a script, in a process of its own.

Prints one JSON document. The same product must come out bit by bit each time, since nothing else uses the device. Only
the standard library and torch are imported here.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

_SHARE = 0.8
_BLOCK_BYTES = 256 << 20
_PATTERNS = (0x55555555, -0x55555556)
_TURNS = 10


def burn(torch: Any, device: Any, seconds: float, clock: Callable[[], float] = time.monotonic) -> dict[str, float]:
    """Wrong words of memory, wrong products, products and their rate (``tflops``)."""
    cuda = device.type == "cuda"
    until = clock() + seconds
    free_bytes = int(torch.cuda.mem_get_info(device)[0] * _SHARE) if cuda else 4 << 20
    words = _memory(torch, device, free_bytes)
    side = 8192 if cuda else 128
    torch.manual_seed(7)
    left, right = (torch.randn(side, side, device=device).to(torch.bfloat16) for _ in range(2))
    first = left @ right
    product, wrong, count, busy_s = first, 0, 0, 0.0
    while not count or clock() < until:
        started = clock()
        for _ in range(_TURNS):
            product = left @ right
        if cuda:
            torch.cuda.synchronize()
        busy_s += clock() - started
        wrong += not torch.equal(product, first)
        count += _TURNS
    rate = 2 * side**3 * count / busy_s / 1e12 if busy_s else 0.0
    return {"words": words, "wrong": wrong, "products": count, "tflops": rate}


def _memory(torch: Any, device: Any, size_bytes: int) -> int:
    """Words that do not hold what was written, in all blocks that fit at once."""
    each = min(size_bytes, _BLOCK_BYTES)
    blocks = [torch.empty(each // 4, dtype=torch.int32, device=device) for _ in range(size_bytes // each)]
    wrong = 0
    for pattern in _PATTERNS:
        for block in blocks:
            block.fill_(pattern)
        wrong += sum(int((block != pattern).sum().item()) for block in blocks)
    return wrong


def main(arguments: list[str]) -> int:
    """Arguments: a device such as ``cuda:0`` or ``cpu``, and seconds."""
    import torch

    try:
        found: dict[str, Any] = dict(burn(torch, torch.device(arguments[0]), float(arguments[1])))
    except RuntimeError as error:
        found = {"failed": str(error).partition("\n")[0][:200]}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != __file__.rpartition("/")[0]]
    raise SystemExit(main(sys.argv[1:]))

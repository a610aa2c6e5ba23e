"""What a capture measures: the plan that the parent writes and every child reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from nccl_insight.base.data import asdict, dataclass, fields
from nccl_insight.base.errors import UsageError
from nccl_insight.base.words import pairs

NAMES = pairs("""all_reduce=AllReduce all_gather=AllGather reduce_scatter=ReduceScatter broadcast=Broadcast
    all_to_all=AllToAll sendrecv=SendRecv""")
OPS = tuple(NAMES)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Plan:
    """Settings of one capture. Sizes are bytes as nccl-tests counts them (the whole buffer of an operation).

    ``roll_s``: how long rank 0 waits for the others before it names those that did not come and, where nodes are
    measured in pairs, goes on without them. ``pair_bytes``: message size of the rounds in which nodes measure two by
    two (0: none), ``pair_s``: the longest that a pair may take. ``verdict``: what this process's node has to tell the
    others. ``nvlink_domain``: cluster and clique of this node's GPUs.
    """

    backend: str = "nccl"
    ops: tuple[str, ...] = ("all_reduce",)
    sizes: tuple[int, ...] = (8, 1 << 20, 128 << 20)
    iterations: int = 20
    warmup: int = 5
    profile_steps: int = 30
    profile_bytes: int = 4 << 20
    host_copies: bool = True
    dtype: str = "float32"
    pair_bytes: int = 0
    pair_s: float = 30.0
    verdict: tuple[str, ...] = ()
    slow_rank: int | None = None
    slow_ms: float = 20.0
    timeout_s: int = 60
    roll_s: float = 30.0
    rendezvous: str = ""
    nvlink_domain: str = ""

    def write(self, path: Path) -> None:
        """Saves the plan as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Plan:
        """The plan of a file written by :meth:`write`."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        known = {f.name for f in fields(Plan)}
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items() if k in known}
        return Plan(**values)


def parse_size(text: str) -> int:
    """Bytes of ``8``, ``64K``, ``128M`` or ``1G`` (binary units). Raises UsageError: it is none of these."""
    match = re.fullmatch(r"([0-9]{1,12})([KMG]?)i?B?", text.strip().upper().replace("IB", "B"))
    if match is None or int(match[1]) * _UNITS[match[2]] == 0:
        raise UsageError(f"size {text!r} is not a number of bytes such as 8, 64K, 128M or 1G")
    return int(match[1]) * _UNITS[match[2]]


def sweep(smallest: int, largest: int, factor: int) -> tuple[int, ...]:
    """Sizes from ``smallest`` up, each ``factor`` times the one before, and ``largest``.

    Raises UsageError: the range is empty or the factor below 2.
    """
    if smallest > largest or factor < 2:
        raise UsageError("the size sweep needs --min-bytes <= --max-bytes and --factor >= 2")
    sizes: list[int] = []
    size = smallest
    while size <= largest and len(sizes) < 64:
        sizes.append(size)
        size *= factor
    return tuple(sizes) if sizes[-1] == largest else (*sizes, largest)


def parse_ops(text: str) -> tuple[str, ...]:
    """Operations of a comma-separated list (``all`` for every one). Raises UsageError: an operation is not known."""
    if text == "all":
        return OPS
    names = tuple(dict.fromkeys(n.strip().replace("-", "_") for n in text.split(",") if n.strip()))
    for name in names:
        if name not in OPS:
            raise UsageError(f"operation {name!r} is not known; choose from {', '.join(OPS)} or all")
    if not names:
        raise UsageError("no operation given")
    return names


def parse_injection(text: str) -> int:
    """Rank of ``slow-rank=K``. Raises UsageError: it is something else."""
    match = re.fullmatch(r"slow-rank=([0-9]{1,6})", text)
    if match is None:
        raise UsageError(f"--inject {text!r} is not known; use slow-rank=K")
    return int(match[1])

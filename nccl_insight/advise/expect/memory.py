"""What NCCL's buffers take, from its own formulas, and what settings would save.

Sources: NVIDIA/nccl ``src/include/device.h`` (sizes of the protocol buffers), ``src/transport/p2p.cc`` (a receive
buffer holds all protocols), ``src/proxy.cc`` (the network's shared buffer), ``src/include/alloc.h`` (cuMem allocates in
granules of 2 MiB).
"""

from collections.abc import Mapping
from typing import Final

from nccl_insight.base.data import dataclass

_GRANULE: Final = 2 << 20
_SIMPLE: Final = 4 << 20
_LL: Final = 8 * 512 * 8 * 16
_LL128: Final = 120 * 640 * 8 * 8
_MOST: Final = 1 << 40


@dataclass(frozen=True)
class Saving:
    """A setting, what it would save in bytes per rank, and what it costs."""

    setting: str
    saved_bytes: int
    cost: str


def _value(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < _MOST else default


def connection_bytes(settings: Mapping[str, str] | None = None) -> tuple[int, int]:
    """Device memory of one connection over P2P: at the receiving and at the sending GPU, in whole granules.

    >>> connection_bytes()
    (10485760, 2097152)
    """
    given = settings or {}
    buffers = (
        _value(given, "NCCL_BUFFSIZE", _SIMPLE)
        + _value(given, "NCCL_LL_BUFFSIZE", _LL)
        + _value(given, "NCCL_LL128_BUFFSIZE", _LL128)
    )
    return -(-buffers // _GRANULE) * _GRANULE, _GRANULE


def savings(
    receives: int, sends: int, p2p_receives: int, p2p_sends: int, settings: Mapping[str, str] | None = None
) -> list[Saving]:
    """What settings would save on a rank, most first.

    ``receives`` and ``sends`` are all its P2P connections, ``p2p_...`` those for send and receive among them.
    """
    receive, send = connection_bytes(settings)
    found: list[Saving] = []
    if p2p_receives + p2p_sends:
        half = (p2p_receives * receive + p2p_sends * send) // 2
        cost = "send, receive and all-to-all reach less bandwidth"
        found.append(Saving("NCCL_MAX_P2P_NCHANNELS at half its value", half, cost))
    smaller = connection_bytes({**(settings or {}), "NCCL_BUFFSIZE": str(1 << 20)})[0]
    if receives and smaller < receive:
        saved = receives * (receive - smaller)
        found.append(Saving("NCCL_BUFFSIZE=1048576", saved, "large messages may take longer; measure"))
    if receives + sends:
        half = ((receives - p2p_receives) * receive + (sends - p2p_sends) * send) // 2
        setting = "NCCL_MAX_CTAS (or NCCL_MAX_NCHANNELS) at half the channels"
        if half > 0:
            found.append(Saving(setting, half, "collectives reach less bandwidth"))
    return sorted(found, key=lambda saving: -saving.saved_bytes)

"""How many channels one send uses inside a node, and what that lets through."""

from typing import Final

from nccl_insight.advise.expect.machine import Machine
from nccl_insight.base.data import dataclass

# NCCL's largest number of channels for sends, and the part of a message above which it doubles the channels of one
# send: 32 steps of a 4 MiB buffer in 8 steps (src/enqueue.cc, calcP2pChannelCount of 2.12 and addP2pToPlan later).
_CHANNELS: Final = 32
_PART_BYTES: Final = 32 * (4 << 20) // 8
# What twice as many channels move: a little less than twice, so a longer message never takes less time.
_TWICE: Final = 1.95


@dataclass(frozen=True)
class Lanes:
    """Channels of one send: ``least`` for small messages, ``most`` for large; each moves ``channel_gbps`` (GB/s)."""

    least: int
    most: int
    channel_gbps: float

    def rate_gbps(self, size_bytes: int) -> float:
        """What all channels of a message of this size move, in GB/s.

        Eight B200 with 4 to 32 channels: 85, 168, 332 and 625 GB/s at 64, 128, 256 and 512 MiB (nccl-tests, 2026);
        eight A100: 111 and 189 GB/s at 128 and 256 MiB; a pair of A100 with 4 links: 55 GB/s at 64 MiB.
        """
        count, rate = self.least, self.least * self.channel_gbps
        while size_bytes > count * _PART_BYTES and count * 2 <= self.most:
            count, rate = count * 2, rate * _TWICE
        return rate


def lanes_of(machine: Machine, op: str) -> Lanes | None:
    """The channels of a send between two GPUs of one NVLink domain; None for other operations and paths.

    Every GPU has channels for all peers at once, so a send gets its share of them until its parts are too large
    (ncclTopoComputeP2pChannels, src/graph/paths.cc).
    """
    each = machine.gpu.get("channel_gbps")
    if op != "SendRecv" or machine.domains > 1 or not each or machine.fabric not in {"nvswitch", "mesh"}:
        return None
    links = machine.gpu.links or 1
    if machine.fabric == "mesh":
        links = machine.gpu.mesh_links[min(2, len(machine.gpu.mesh_links) - 1)] if machine.gpu.mesh_links else 1
    most = min(_CHANNELS, 1 << (2 * links - 1).bit_length())
    least = most
    while least * machine.ranks > most and least > 1:
        least //= 2
    return Lanes(least, most, each)

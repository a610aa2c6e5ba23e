"""Expected time and bandwidth of a collective, from links and latencies.

    time(S) = start + S / algbw + ramp x sqrt(S / (S + S0))

``start`` is what 8 bytes take (kernel launch, steps of the algorithm, hops between nodes), ``algbw`` the rate of the
slowest link of the best algorithm, ``ramp`` the time lost until pipelines are full and the protocol for large
messages is chosen; ``S0 = ramp x algbw / 3``. Each part has a range of healthy machines, and the ends of the ranges
give the ends of the band. Rates are in GB/s (1e9 bytes/s), times in microseconds.
"""

import math
from collections.abc import Iterator
from typing import Final

from nccl_insight.advise.expect.machine import Machine
from nccl_insight.advise.expect.rates import Rate, can_reduce_in_switch, rate_of
from nccl_insight.base.bandwidth import busbw_factor
from nccl_insight.base.data import dataclass

OPS: Final = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AllToAll", "SendRecv")
SIZES: Final = tuple(8 << i for i in range(31))
# Healthy machines of one kind differ by these factors (published runs of the same machine, small messages most).
_START_RANGE: Final = (1.6, 1.5)
_RAMP_RANGE: Final = (0.5, 1.6)
_LAUNCH_US: Final = 5.0
# Steps per peer of an all-to-all in a node, with older and newer NCCL.
_SENDS: Final = (4.8, 0.7)
# How fast the lost time comes with the size: in a node the protocol for small messages lasts longer.
_RAMP_POWER: Final = (0.75, 0.5)
# What each rank of the pipeline adds to the time until full rate.
_RANK_US: Final = 4.0
# A domain whose switch adds counts as so many ranks of a chain.
_SWITCH_DEPTH: Final = 4
# The band's ends are at most this far apart, by size: a wider one would say nothing.
_UNNAMED: Final = 1.25  # so much wider where the network has no name
_WIDEST: Final = ((64 << 20, 1.6), (1 << 20, 2.1), (0, 2.4))

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


@dataclass(frozen=True)
class Expected:
    """What one collective of one size should take. Times in microseconds, rates in GB/s."""

    op: str
    size_bytes: int
    time_us: float
    time_low_us: float
    time_high_us: float
    busbw_gbps: float
    busbw_low_gbps: float
    busbw_high_gbps: float
    algbw_gbps: float
    latency_us: float
    bandwidth_us: float
    bound_by: str
    algorithm: str
    source: str


@dataclass(frozen=True)
class Parts:
    """The terms of the model for one operation on one machine."""

    op: str
    ranks: int
    start_us: float
    ramp_us: float
    rate: Rate
    start_source: str
    ramp_power: float
    lanes: Lanes | None = None
    doubt: float = 1.0

    @property
    def turning_bytes(self) -> int:
        """The size whose latency part equals its bandwidth part."""
        factor = busbw_factor(self.op, self.ranks) or 1.0
        algbw = self.rate.typical / factor * 1e3
        low, high = 1.0, 1e12
        for _ in range(60):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if middle / algbw < self._lost(middle, algbw, self.ramp_us) else (low, middle)
        return int(low)

    def _lost(self, size: float, algbw: float, ramp: float) -> float:
        return self.start_us + self._ramp(size, algbw, ramp)

    def _ramp(self, size: float, algbw: float, ramp: float) -> float:
        return ramp * (size / (size + ramp * algbw / 3)) ** self.ramp_power if ramp else 0.0

    def at(self, size: int) -> Expected:
        """The expectation for one size in bytes (nccl-tests' size: the whole buffer)."""
        factor = busbw_factor(self.op, self.ranks) or 1.0

        def time(rate: float, start: float, ramp: float) -> float:
            algbw = rate / factor * 1e3
            return start + size / algbw + self._ramp(size, algbw, ramp)

        through = math.inf if self.lanes is None else self.lanes.rate_gbps(size)
        rate = min(self.rate.typical, through)
        typical = time(rate, self.start_us, self.ramp_us)
        fast = time(min(self.rate.high, through * 1.1), self.start_us / _START_RANGE[0], self.ramp_us * _RAMP_RANGE[0])
        slow = time(min(self.rate.low, through * 0.8), self.start_us * _START_RANGE[1], self.ramp_us * _RAMP_RANGE[1])
        widest = min(next(width for least, width in _WIDEST if size >= least) * self.doubt, _WIDEST[-1][1])
        if slow / fast > widest:
            middle = math.sqrt(slow * fast)
            fast, slow = middle / math.sqrt(widest), middle * math.sqrt(widest)
            typical = min(max(typical, fast), slow)
        bandwidth = size / (rate / factor * 1e3)
        bound = self.rate.bound_by if rate == self.rate.typical else "channels of one send"
        return Expected(
            op=self.op,
            size_bytes=size,
            time_us=typical,
            time_low_us=fast,
            time_high_us=slow,
            busbw_gbps=size / typical / 1e3 * factor,
            busbw_low_gbps=size / slow / 1e3 * factor,
            busbw_high_gbps=size / fast / 1e3 * factor,
            algbw_gbps=size / typical / 1e3,
            latency_us=typical - bandwidth,
            bandwidth_us=bandwidth,
            bound_by=bound if bandwidth > typical / 2 else "latency",
            algorithm=self.rate.algorithm,
            source=self.rate.source if bandwidth > typical / 2 else self.start_source,
        )


def expectations(machine: Machine, ops: tuple[str, ...] = OPS, sizes: tuple[int, ...] = SIZES) -> Iterator[Expected]:
    """One expectation for each operation and size; nothing for one rank or an unknown network between nodes."""
    for op in ops:
        parts = parts_of(machine, op)
        if parts is not None:
            yield from (parts.at(size) for size in sizes)


def parts_of(machine: Machine, op: str) -> Parts | None:
    """The terms of the model; None with one rank, or several domains and no NIC rate."""
    if machine.ranks < 2 or (machine.domains > 1 and not machine.nics):
        return None
    rate = rate_of(machine, op)
    return Parts(
        op,
        machine.ranks,
        _start_us(machine, op),
        _ramp_us(machine, op),
        rate,
        machine.gpu.source("hop_us"),
        _RAMP_POWER[machine.domains > 1],
        lanes_of(machine, op),
        _UNNAMED if machine.domains > 1 and machine.network.name == "unknown" else 1.0,
    )


def _start_us(machine: Machine, op: str) -> float:
    """Time of the smallest message."""
    gpu, net = machine.gpu, machine.network
    hop = gpu.get("hop_us")
    local = machine.domain_ranks - 1
    steps = {"AllReduce": 2.0, "AllGather": 1.2, "ReduceScatter": 1.2, "SendRecv": 1.0}
    if op == "AllToAll":
        # One launch per peer before sends of a group shared a kernel's work batches: 75 to 88 us on 8 H100 and A100,
        # 11 us on 8 B200 (published nccl-tests).
        each = _SENDS[machine.gpu.capability >= 100 or (machine.nccl_version or (0, 0)) >= (2, 27)]
    else:
        each = steps.get(op, 1.6)
    within = each * (1 if op == "SendRecv" and local else local)
    if machine.domains == 1:
        # Large NVLink domains use NVLS or PAT for small messages, whose depth grows with the logarithm.
        within = min(within, 12 + 3 * math.log2(local + 1)) if local > 7 else within
        return _LAUNCH_US + within * hop
    inter = net.get("hop_us")
    if local and machine.nics * machine.nic_gbit <= net.get("first_gbit"):
        inter = net.get("first_hop_us")
    depth = math.ceil(math.log2(machine.domains))
    around = 0.8 * (machine.ranks - machine.domains) * hop + machine.domains * inter
    if op == "AllReduce" and machine.algorithm == "Ring":
        return _LAUNCH_US + 2 * around
    if op in {"AllGather", "ReduceScatter"} and local:
        # A ring through all ranks; the logarithmic PAT needs one GPU per node.
        return _LAUNCH_US + around
    hops = {"AllReduce": 2.0 * depth, "SendRecv": 1.0}.get(op, 1.0 * depth)
    if op == "AllToAll":
        hops = 1.0 + 0.15 * (machine.ranks - machine.domain_ranks)
    # Trees are chains inside a domain (src/graph/trees.cc), however large it is.
    return _LAUNCH_US + 0.8 * within * hop + hops * inter


def _ramp_us(machine: Machine, op: str) -> float:
    ranks = machine.ranks
    if op == "AllReduce" and machine.algorithm != "Ring":
        # The double tree's pipeline is as deep as the logarithm of the domains, and a large ring is not taken before
        # its own pipeline is full: 356 GB/s at 512 MiB on 12 nodes, about 350 on 248 (NVIDIA/nccl-tests 283).
        chain = machine.domain_ranks
        if machine.domain_nodes == 1 < machine.domains and can_reduce_in_switch(machine):
            chain = min(chain, _SWITCH_DEPTH)
        ranks = min(ranks, math.ceil(chain * (1 + math.log2(machine.domains))))
    ramp = machine.gpu.get("ramp_us") + _RANK_US * ranks
    if op in {"AllGather", "ReduceScatter"}:
        ramp *= 0.7
    if op in {"SendRecv", "Broadcast", "Reduce"}:
        ramp = machine.gpu.get("ramp_us")
    if op == "AllToAll" and machine.domains == 1:
        ramp *= 0.5
    if machine.domains > 1:
        ramp *= machine.network.get("ramp")
    return ramp

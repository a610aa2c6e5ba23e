"""Lines of one input at which another attempt or job begins."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from nccl_insight.facts.who.parts.processes import Process


def cuts_of(own: Sequence[Process], failures: Iterable[int], restarts: Iterable[int], bare: Iterable[int]) -> list[int]:
    """Lines at which another attempt or job begins in an input. One pass: there may be 100,000 processes."""
    failures, restarts, bare = sorted(failures), sorted(restarts), sorted(bare)
    after = _After(own)
    cuts: list[int] = []
    left = _Left(after)
    begin = own[0].first
    reach = own[0].last
    for n in range(1, len(own)):
        left.add(own[n - 1])
        start = own[n].first
        if start > reach:
            said = restarts[bisect_left(restarts, begin) : bisect_left(restarts, start)]
            failed = bisect_left(failures, begin) < bisect_left(failures, start)
            if said or left.anew(n, failed):
                versions = bare[bisect_right(bare, reach) : bisect_left(bare, start)]
                cuts.append(said[-1] + 1 if said else min([*versions, start]))
                left, begin = _Left(after), start
        reach = max(reach, own[n].last)
    return cuts


class _After:
    """What the processes from a place on have, for every place."""

    def __init__(self, own: Sequence[Process]) -> None:
        # The last process that has a communicator, rank, GPU or number of a process, or names a version on a host.
        self.comms: dict[Any, int] = {}
        self.ranks: dict[Any, int] = {}
        self.gpus: dict[Any, int] = {}
        self.keys: dict[Any, int] = {}
        self.version_hosts: dict[Any, int] = {}
        for n, process in enumerate(own):
            self.comms.update(dict.fromkeys(process.comms, n))
            self.ranks.update(dict.fromkeys(process.ranks, n))
            self.gpus.update(dict.fromkeys(process.gpus, n))
            self.keys[process.key[:2]] = n
            if process.version:
                self.version_hosts[process.key[0]] = n
        # The largest number of ranks, 0 where no rank follows.
        self.largest = [0] * (len(own) + 1)
        self.any_ranks = [False] * (len(own) + 1)
        for n in range(len(own) - 1, -1, -1):
            self.largest[n] = self.largest[n + 1]
            self.any_ranks[n] = self.any_ranks[n + 1] or bool(own[n].ranks)
            for _, size in own[n].ranks:
                self.largest[n] = max(self.largest[n], size or 0)


class _Left:
    """The processes before a place, and how far behind it their communicators, ranks and GPUs come again."""

    def __init__(self, after: _After) -> None:
        self._after = after
        self._comms = self._gpus = self._keys = self._versions = -1
        self._ranks: dict[int, int] = {}
        self._open = self._version = False
        self._closed = True

    def add(self, process: Process) -> None:
        after = self._after
        for comm in process.comms:
            self._comms = max(self._comms, after.comms[comm])
        for gpu in process.gpus:
            self._gpus = max(self._gpus, after.gpus[gpu])
        self._keys = max(self._keys, after.keys[process.key[:2]])
        self._versions = max(self._versions, after.version_hosts.get(process.key[0], -1))
        for rank in process.ranks:
            size = rank[1] or 0
            self._ranks[size] = max(self._ranks.get(size, -1), after.ranks[rank])
        self._open = self._open or process.open
        self._version = self._version or process.version
        self._closed = self._closed and (process.closed or not process.ranks)

    def anew(self, n: int, failed: bool) -> bool:
        """Whether the processes from ``n`` on are these ranks once more, not more ranks of the same job."""
        if self._comms >= n:
            return False
        failed = failed or self._open
        if not self._ranks:
            return failed and self._version and self._versions >= n
        largest, follow = self._after.largest[n], self._after.any_ranks[n]
        if max(self._ranks) == 1 or (largest if follow else 1) == 1:
            return False  # processes that should have found each other: separate-jobs, or replicas
        if self._closed and follow:
            return True
        if self._keys < n and self._gpus >= n:
            return True
        return failed and any(self._ranks.get(size, -1) >= n for size in (max(self._ranks), largest))

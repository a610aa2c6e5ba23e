"""Nodes measure two by two, before all meet: each pair is a world of its own with a short limit.

So one NIC, cable or node that swallows traffic costs its pairs and not the whole gate: who reaches nobody is told, and
the others go on without.
"""

import datetime
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from nccl_insight.base.bandwidth import busbw_factor
from nccl_insight.base.data import dataclass, field
from nccl_insight.live.capture import schedule
from nccl_insight.live.capture.plan import Plan

#: Later rounds make no first connections: so many times what the round before took, and so many seconds at least.
_TIMES: Final = 10.0
_LEAST_S: Final = 15.0
#: What says that no pair of a node worked: so many of them, with different partners.
_FAILED: Final = 2
_POLL_S: Final = 0.02
_BLOCKING: Final = "TORCH_NCCL_BLOCKING_WAIT"

Member = tuple[int, int, int | None, list[int]]


@dataclass
class Pairs:
    """The rounds of one rank. ``nodes``: the ranks of each node; ``record`` takes the rows (of rank 0).

    Torch and its distributed package are passed in, and so is the store that all ranks have. ``reached``: whether this
    rank was in a pair that worked; None: in none yet.
    """

    torch: Any
    dist: Any
    plan: Plan
    device: Any
    store: Any
    rank: int
    nodes: Sequence[list[int]]
    record: Callable[..., None]
    measured: list[schedule.Measurement] = field(default_factory=list)
    singles: list[schedule.Measurement] = field(default_factory=list)
    reached: bool | None = None

    def __post_init__(self) -> None:
        self._data = self.torch.zeros(max(1, self.plan.pair_bytes // 4), device=self.device)
        self._limit_s = self.plan.pair_s

    def run(self) -> set[int]:
        """All rounds; the nodes that reached no other one.

        Meanwhile NCCL's waits raise errors; else its watchdog would end the process where a pair does not get on.
        """
        before = os.environ.get(_BLOCKING)
        os.environ[_BLOCKING] = "1"
        try:
            return self._rounds()
        finally:
            os.environ.pop(_BLOCKING, None)
            if before is not None:
                os.environ[_BLOCKING] = before

    def _rounds(self) -> set[int]:
        rounds = schedule.rounds(len(self.nodes))
        rails = schedule.rails([len(ranks) for ranks in self.nodes], len(rounds))
        for number, matching in enumerate(rounds):
            out = self._dead(_FAILED)
            pairs = [pair for pair in matching if not out & set(pair)]
            self._measure(number, self._whole(pairs))
            out = self._dead(1)
            self._measure(number, self._single([pair for pair in pairs if not out & set(pair)], rails))
        self._confirm(len(rounds))
        dead = self._dead(1)
        good = [m for m in self.measured if not dead & {m.first, m.second}]
        for number, matching in enumerate(schedule.again(good), len(rounds) + 1):
            self._measure(number, self._whole(matching))
        alone = [m for m in self.singles if not dead & {m.first // schedule.RAIL, m.second // schedule.RAIL}]
        for number, matching in enumerate(schedule.singles_again(alone), len(rounds) + 1):
            self._measure(number, self._single(matching, rails))
        return dead

    def _confirm(self, number: int) -> None:
        """Once more, with all the time there is, each node that reached nobody and one that reached somebody."""
        dead = sorted(self._dead(1))
        good = sorted(set(range(len(self.nodes))) - set(dead))
        self._limit_s = self.plan.pair_s
        self._measure(number, self._whole(sorted((min(p), max(p)) for p in zip(dead, good, strict=False))))

    def _whole(self, pairs: Sequence[schedule.Pair]) -> list[Member]:
        return [(a, b, None, sorted(self.nodes[a] + self.nodes[b])) for a, b in pairs]

    def _single(self, pairs: Sequence[schedule.Pair], rails: int) -> list[Member]:
        return [(a, b, k, [self.nodes[a][k], self.nodes[b][k]]) for a, b in pairs for k in range(rails)]

    def _dead(self, least: int) -> set[int]:
        """Nodes whose pairs, ``least`` of them at the least, all failed."""
        rates: dict[int, list[float]] = {}
        for m in self.measured:
            for node in (m.first, m.second):
                rates.setdefault(node, []).append(m.busbw_gbps)
        return {node for node, own in rates.items() if len(own) >= least and not any(own)}

    def _measure(self, number: int, members: list[Member]) -> None:
        """One round: all its pairs at the same time. All ranks learn all rates, so each works out the same rounds."""
        if not members:
            return
        place = f"pairs/{number}/{'nodes' if members[0][2] is None else 'ranks'}"
        own = next((index for index, (*_, ranks) in enumerate(members) if self.rank in ranks), None)
        begun = time.monotonic()
        if own is not None:
            seconds = self._seconds(f"{place}/of/{own}", members[own][3])
            self.reached = bool(self.reached or seconds)
            told = json.dumps({"median": seconds, "whole": time.monotonic() - begun})
            self.store.set(f"{place}/{self.rank}", told)
        if self.rank == 0:
            self._publish(place, number, members, begun + 2 * self._limit_s)
        found = json.loads(self.store.get(place))
        self._limit_s = min(self.plan.pair_s, max(_LEAST_S, _TIMES * found["seconds"]))
        for (first, second, local, _), rate in zip(members, found["rates"], strict=True):
            if local is None:
                self.measured.append(schedule.Measurement(number, first, second, rate))
            else:
                a, b = (node * schedule.RAIL + local for node in (first, second))
                self.singles.append(schedule.Measurement(number, a, b, rate))

    def _publish(self, place: str, number: int, members: list[Member], until: float) -> None:
        """Rank 0 gathers the times of a round until a moment, records the rates and tells them to all."""
        size, rates, longest = self._data.numel() * 4, [], 0.0
        for first, second, local, ranks in members:
            told = [self._told(f"{place}/{rank}", until) for rank in ranks]
            times = [one["median"] for one in told if one and one["median"]]
            whole = len(times) == len(ranks)
            rate = size * len(ranks) / sum(times) / 1e9 * (busbw_factor("AllReduce", len(ranks)) or 1.0) if whole else 0
            longest = max(longest, *(one["whole"] for one in told if one and whole), 0.0)
            rates.append(rate)
            about = {"first": first, "second": second, "local_rank": local, "size_bytes": size}
            self.record("pair", round=number, **about, nranks=len(ranks), busbw_gbps=rate)
        self.store.set(place, json.dumps({"rates": rates, "seconds": longest}))

    def _told(self, key: str, until: float) -> dict[str, Any] | None:
        while not self.store.check([key]):
            if time.monotonic() > until:
                return None
            time.sleep(_POLL_S)
        found: dict[str, Any] = json.loads(self.store.get(key))
        return found

    def _seconds(self, name: str, ranks: list[int]) -> float | None:
        """The median time of the all-reduce of some ranks by themselves; None: it did not end in time.

        In a thread, which is left behind where it waits in a system call or in the library.
        """
        box: dict[str, Any] = {}
        thread = threading.Thread(target=self._attempt, args=(name, ranks, box), daemon=True)
        thread.start()
        thread.join(self._limit_s)
        if "seconds" not in box and "group" in box and hasattr(box["group"], "abort"):
            threading.Thread(target=box["group"].abort, daemon=True).start()
        seconds: float | None = box.get("seconds")
        return seconds

    def _attempt(self, name: str, ranks: list[int], box: dict[str, Any]) -> None:
        try:
            group = box["group"] = self._group(self.dist.PrefixStore(name, self.store), ranks)
            box["seconds"] = statistics.median(self._times(group))
        except RuntimeError as error:
            self.record("failed", what=name, why=str(error).partition("\n")[0][:200])

    def _group(self, store: Any, ranks: list[int]) -> Any:
        """A process group beside torch's own bookkeeping, so that it can be left as it is."""
        place, limit = ranks.index(self.rank), datetime.timedelta(seconds=self._limit_s)
        if self.plan.backend != "nccl":
            return self.dist.ProcessGroupGloo(store, place, len(ranks), timeout=limit)
        self.torch.cuda.set_device(self.device)
        options = self.dist.ProcessGroupNCCL.Options()
        options._timeout = limit
        return self.dist.ProcessGroupNCCL(store, place, len(ranks), options)

    def _times(self, group: Any) -> list[float]:
        stream = self.torch.cuda.current_stream() if self.device.type == "cuda" else None
        together, times = self.torch.zeros(1, device=self.device), []

        def reduce(data: Any) -> None:
            group.allreduce([data]).wait()
            if stream:
                stream.synchronize()

        for turn in range(self.plan.warmup + self.plan.iterations):
            reduce(together)
            started = time.perf_counter()
            if self.rank == self.plan.slow_rank:
                time.sleep(self.plan.slow_ms / 1e3)
            reduce(self._data)
            if turn >= self.plan.warmup:
                times.append(time.perf_counter() - started)
        return times

"""Nodes that measure two by two, with stand-ins of torch: who is dead is named, and the others learn it alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from nccl_insight.live.capture.pairs import Pairs
from nccl_insight.live.capture.plan import Plan


@dataclass
class Store:
    """One for all threads; ``get`` waits, as torch's does."""

    values: dict[str, str] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def set(self, key: str, value: str) -> None:
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def get(self, key: str) -> str:
        with self.changed:
            if not self.changed.wait_for(lambda: key in self.values, timeout=60):
                raise RuntimeError(key)
            return self.values[key]


class Data:
    """A tensor that has a size."""

    def __init__(self, count: int) -> None:
        self.count = count

    def numel(self) -> int:
        return self.count


class World:
    """The process groups of all threads: ranks of ``dead`` nodes join and never get on."""

    def __init__(self, dead: set[int]) -> None:
        self.dead, self.meetings, self.lock = dead, dict[str, threading.Barrier](), threading.Lock()

    def seen_by(self, rank: int) -> Any:
        def group(name: str, place: int, size: int, timeout: timedelta) -> Any:
            with self.lock:
                meeting = self.meetings.setdefault(name, threading.Barrier(size))
            asleep = threading.Event()

            def wait() -> None:
                if rank in self.dead:
                    asleep.wait(30)  # in a system call that nothing ends
                meeting.wait(timeout.total_seconds())

            return SimpleNamespace(allreduce=lambda tensors: SimpleNamespace(wait=wait))

        return SimpleNamespace(PrefixStore=lambda name, store: name, ProcessGroupGloo=group)


TORCH: Any = SimpleNamespace(zeros=lambda count, device: Data(count))
CPU: Any = SimpleNamespace(type="cpu")


def measured(nodes: list[list[int]], dead: set[int]) -> tuple[dict[int, set[int]], list[dict[str, Any]]]:
    store, world = Store(), World(dead)
    plan = Plan(backend="gloo", iterations=1, warmup=1, pair_bytes=4096, pair_s=2.0)
    found: dict[int, set[int]] = {}
    rows: list[dict[str, Any]] = []

    def run(rank: int) -> None:
        def record(kind: str, **values: Any) -> None:
            if kind == "pair":
                rows.append(values)

        found[rank] = Pairs(TORCH, world.seen_by(rank), plan, CPU, store, rank, nodes, record).run()

    threads = [threading.Thread(target=run, args=(rank,)) for ranks in nodes for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, rows


def test_a_node_that_reaches_nobody_is_known_to_all() -> None:
    found, rows = measured([[0], [1], [2], [3], [4], [5]], {3})
    assert found == {rank: {3} for rank in range(6)}
    for row in rows:
        assert bool(row["busbw_gbps"]) is (3 not in (row["first"], row["second"])), row


def test_the_first_node_may_be_the_dead_one() -> None:
    found, _ = measured([[0], [1], [2], [3]], {0})
    assert found == {rank: {0} for rank in range(4)}


def test_nodes_of_several_ranks_measure_each_rank_with_its_like() -> None:
    found, rows = measured([[0, 2], [1, 3]], set())
    assert found == {rank: set() for rank in range(4)}
    kinds = [(row["local_rank"], row["nranks"]) for row in rows]
    assert kinds[:3] == [(None, 4), (0, 2), (1, 2)]


def test_the_order_of_calls_on_a_gpu() -> None:
    """The device is chosen in the thread that measures, and each time is taken when the stream is through."""
    said: list[str] = []

    def says(text: str, answer: Any = None) -> Callable[..., Any]:
        return lambda *_, **__: (said.append(text), answer)[1]

    stream = SimpleNamespace(synchronize=says("synchronize"))
    work = SimpleNamespace(wait=says("wait"))
    torch: Any = SimpleNamespace(
        zeros=lambda count, device: Data(count),
        cuda=SimpleNamespace(set_device=says("set_device"), current_stream=says("stream", stream)),
    )

    class Group:
        class Options:
            _timeout: timedelta

        def __init__(self, store: str, place: int, size: int, options: Any) -> None:
            said.append(f"group {place} of {size}, {options._timeout.total_seconds():.0f} s")

        def allreduce(self, tensors: list[Data]) -> Any:
            said.append(f"allreduce of {tensors[0].numel()}")
            return work

    dist: Any = SimpleNamespace(PrefixStore=lambda name, store: name, ProcessGroupNCCL=Group)
    store, plan = Store(), Plan(backend="nccl", iterations=1, warmup=0, pair_bytes=4096, pair_s=30.0)
    store.set("pairs/0/nodes/1", '{"median": 0.5, "whole": 1.0}')
    pairs = Pairs(torch, dist, plan, SimpleNamespace(type="cuda"), store, 0, [[0], [1]], lambda kind, **_: None)
    assert pairs.run() == set()
    reduced = ["wait", "synchronize"]
    assert said == [
        "set_device",
        "group 0 of 2, 30 s",
        "stream",
        "allreduce of 1",
        *reduced,
        "allreduce of 1024",
        *reduced,
    ]

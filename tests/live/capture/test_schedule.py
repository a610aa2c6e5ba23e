"""Rounds of nodes two by two, and who is suspect after them."""

from __future__ import annotations

import json
import math
import os
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from nccl_insight.live.capture.environment import World
from nccl_insight.live.capture.parent import Launch, capture, join_directory
from nccl_insight.live.capture.schedule import Measurement, again, rounds, suspects
from nccl_insight.live.preflight.bench import measure, plan_for
from nccl_insight.live.preflight.model import Status


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 8, 13, 64, 100])
def test_every_node_has_one_new_partner_in_each_round(nodes: int) -> None:
    found = rounds(nodes)
    assert len(found) == min(nodes - 1 + nodes % 2, max(3, math.ceil(math.log2(nodes))))
    met: set[tuple[int, int]] = set()
    for pairs in found:
        members = [n for pair in pairs for n in pair]
        assert len(members) == len(set(members)) == nodes - nodes % 2
        assert not met & set(pairs)
        met |= set(pairs)


def test_one_node_has_no_round() -> None:
    assert rounds(1) == []
    assert rounds(0) == []


def rated(nodes: int, slow: dict[int, float], broken: tuple[int, int] | None = None) -> list[Measurement]:
    """A pair is as fast as its slower node; a broken path makes one pair slow."""
    return [
        Measurement(number, a, b, min(slow.get(a, 100.0), slow.get(b, 100.0)) * (0.3 if (a, b) == broken else 1.0))
        for number, pairs in enumerate(rounds(nodes))
        for a, b in pairs
    ]


@pytest.mark.parametrize("nodes", [4, 5, 8, 16, 33, 64])
def test_a_slow_node_is_named_and_its_partners_are_not(nodes: int) -> None:
    for bad in (0, 1, nodes // 2, nodes - 1):
        found = suspects(rated(nodes, {bad: 20.0}))
        assert [node for node, _ in found.nodes] == [bad]
        assert found.pairs == ()


def test_two_slow_nodes_are_both_named() -> None:
    assert [node for node, _ in suspects(rated(32, {3: 30.0, 17: 50.0})).nodes] == [3, 17]


def test_a_slow_path_between_good_nodes_is_a_pair() -> None:
    broken = rounds(16)[1][2]
    found = suspects(rated(16, {}, broken))
    assert found.nodes == ()
    assert [(m.first, m.second) for m in found.pairs] == [broken]


def test_good_nodes_with_jitter_are_not_suspect() -> None:
    jitter = {n: 90.0 + n % 7 * 3 for n in range(24)}
    found = suspects(rated(24, jitter))
    assert (found.nodes, found.pairs) == ((), ())


def test_two_that_met_nobody_else_are_a_pair() -> None:
    found = suspects([Measurement(0, 0, 1000, 12.0), Measurement(0, 1, 1001, 48.0), Measurement(0, 2, 1002, 47.0)])
    assert found.nodes == ()
    assert [(m.first, m.second) for m in found.pairs] == [(0, 1000)]


def test_two_nodes_cannot_be_told_apart() -> None:
    assert suspects(rated(2, {0: 1.0})).nodes == ()


def test_a_node_somewhat_slow_among_many_is_named_after_a_second_look() -> None:
    noise = random.Random(7)

    def rate(number: int, a: int, b: int) -> Measurement:
        usual = 300 * (0.75 if 17 in (a, b) else 1.0) * noise.gauss(1, 0.05)
        return Measurement(number, a, b, usual * (0.5 if noise.random() < 0.01 else 1.0))

    measured = [rate(number, a, b) for number, pairs in enumerate(rounds(256)) for a, b in pairs]
    measured += [rate(100 + number, a, b) for number, pairs in enumerate(again(measured)) for a, b in pairs]
    found = suspects(measured, closely=True)
    assert [node for node, _ in found.nodes] == [17]
    assert found.pairs == ()


@pytest.mark.parametrize(("share", "named"), [(0.9, [2]), (1.0, [])])
@pytest.mark.parametrize("nodes", [4, 8, 64])
def test_a_node_a_tenth_slower_is_named_where_rates_are_steady(nodes: int, share: float, named: list[int]) -> None:
    noise = random.Random(11)

    def rate(number: int, a: int, b: int) -> Measurement:
        return Measurement(number, a, b, 300 * (share if 2 in (a, b) else 1.0) * noise.gauss(1, 0.008))

    measured = [rate(number, a, b) for number, pairs in enumerate(rounds(nodes)) for a, b in pairs]
    assert suspects(measured, closely=True).nodes == ()
    measured += [rate(100 + number, a, b) for number, pairs in enumerate(again(measured)) for a, b in pairs]
    found = suspects(measured, closely=True)
    assert ([node for node, _ in found.nodes], found.pairs) == (named, ())
    assert suspects(measured).nodes == ()


def test_a_tenth_counts_for_nothing_where_nodes_differ_by_as_much() -> None:
    speed = {n: 90.0 + n % 7 * 3 for n in range(24)}
    measured = rated(24, speed)
    measured += [Measurement(100, a, b, min(speed[a], speed[b])) for pairs in again(measured) for a, b in pairs]
    assert suspects(measured, closely=True).nodes == ()


def test_rates_of_nodes_that_other_work_disturbs_name_nobody() -> None:
    """Four healthy processes on two busy cores (GB/s over Gloo); 64 nodes of which a tenth of the turns are held up."""
    together = (
        "03.36 12.44 01.53 23.23 02.50 13.41 03.44 12.52 13.21 02.11 23.44 01.63 03.09 12.46 13.40 02.57 23.40 01.49"
    )
    few = [
        Measurement(number // 2, int(text[0]), int(text[1]), float(text[2:]))
        for number, text in enumerate(together.split())
    ]
    assert (suspects(few, closely=True).nodes, suspects(few, closely=True).pairs) == ((), ())
    noise = random.Random(3)
    many = [
        Measurement(number, a, b, 300 * noise.lognormvariate(0, 0.1) * (0.25 if noise.random() < 0.1 else 1))
        for number, pairs in enumerate(rounds(64) * 3)
        for a, b in pairs
    ]
    assert (suspects(many, closely=True).nodes, suspects(many, closely=True).pairs) == ((), ())


def test_a_node_below_all_others_is_named_however_much_those_vary() -> None:
    """Four processes on two busy cores, one of which slept before each all-reduce (GB/s over Gloo, as measured)."""
    together = (
        "03.065 12.0013 01.398 23.0013 02.0013 13.382 03.110 12.0013 03.475 12.0013 02.0013 13.089 12.0013 03.067 "
        "02.0013 13.491 12.0013 03.425 13.085 03.101"
    )
    few = [
        Measurement(number // 2, int(text[0]), int(text[1]), float("0" + text[2:]))
        for number, text in enumerate(together.split())
    ]
    assert [node for node, _ in suspects(few, closely=True).nodes] == [2]
    even = [replace(m, busbw_gbps=m.busbw_gbps * 300 if m.busbw_gbps < 0.01 else m.busbw_gbps) for m in few]
    assert suspects(even, closely=True).nodes == ()


def test_half_of_the_nodes_are_slow() -> None:
    slow = dict.fromkeys(range(0, 32, 2), 40.0)
    measured = rated(32, slow)
    measured += [
        Measurement(100, a, b, min(slow.get(a, 100.0), slow.get(b, 100.0))) for r in again(measured) for a, b in r
    ]
    assert [node for node, _ in suspects(measured).nodes] == list(slow)


def test_a_second_look_has_each_node_once_in_a_round() -> None:
    for pairs in again(rated(16, {3: 20.0, 4: 20.0}, rounds(16)[1][2])):
        members = [n for pair in pairs for n in pair]
        assert len(members) == len(set(members))


needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@needs_torch
def test_gloo_nodes_name_the_slow_one_and_gather_what_each_says(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    worlds = [World(rank, 4, 0, "127.0.0.1", port) for rank in range(4)]

    def run(world: World):  # type: ignore[no-untyped-def]
        said = ["memlock: 64 KiB"] if world.rank == 1 else []
        plan = replace(plan_for("gloo", together=True, verdict=said), slow_rank=2, slow_ms=200.0, iterations=3)
        directory = join_directory(tmp_path / "c", world)
        environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        if world.rank:
            return capture(plan, Launch(directory, 1, 120, environ, world)).code
        return measure(plan, Launch(directory, 1, 120, environ, world))

    with ThreadPoolExecutor(4) as pool:
        first, *rest = pool.map(run, worlds)
    assert rest == [0, 0, 0]
    nodes = [c for c in first.checks if c.name.startswith("node ") and c.status is not Status.PASS]
    assert any("memlock: 64 KiB" in c.observed for c in nodes)
    lines = (tmp_path / "c" / "capture.rank0.jsonl").read_text().splitlines()
    pairs = [item for item in map(json.loads, lines) if item["kind"] == "pair"]
    assert sum(item["round"] < 3 for item in pairs) == 6
    assert all(
        item["busbw_gbps"] <= item["size_bytes"] / 0.2e9 for item in pairs if 2 in (item["first"], item["second"])
    )
    # On a busy machine the others differ so much that nobody can be named; what is told is what the rates say.
    measured = [Measurement(item["round"], item["first"], item["second"], item["busbw_gbps"]) for item in pairs]
    named = [node for node, _ in suspects(measured, closely=True).nodes]
    assert set(named) <= {2}
    assert len([c for c in nodes if "node 2" in c.observed]) == len(named)
    assert 2 in named or any(item["round"] >= 3 for item in pairs)

"""Copies that a capture measured beside collectives."""

from __future__ import annotations

from nccl_insight.views.copies import host_copies, peer_copies
from tests.by_hand import run


def test_a_copy_far_below_the_others_of_its_node_is_odd() -> None:
    rates = {0: 25.0, 1: 24.0, 2: 25.0, 3: 5.0}
    rows = [{"host": "a", "rank": r, "direction": "h2d", "gbps": g, "pinned": True} for r, g in rates.items()]
    rows.append({"host": "a", "rank": 0, "direction": "d2h", "gbps": 1.0, "pinned": False})
    found = host_copies(run(host_bandwidth=rows))
    assert found is not None
    assert [(c.rank, c.gbps, c.typical, c.odd) for c in found.copies] == [
        (0, 25.0, 24.5, False), (1, 24.0, 24.5, False), (2, 25.0, 24.5, False), (3, 5.0, 24.5, True),
    ]  # fmt: skip
    assert (found.span, found.odd_ranks) == ((5.0, 25.0), 1)


def test_the_node_of_the_slowest_pair_is_shown() -> None:
    rows = [
        {"host": h, "src": s, "dst": d, "gbps": g, "peer_access": True}
        for h, s, d, g in (("a", 0, 1, 40.0), ("a", 1, 0, 41.0), ("b", 0, 1, 39.0), ("b", 1, 0, 42.0))
    ]
    found = peer_copies(run(peer_bandwidth=rows))
    assert found is not None
    assert (found.pairs, found.hosts, found.worst_host, found.gpus) == (4, 2, "b", (0, 1))
    assert found.worst == {(0, 1): 39.0, (1, 0): 42.0}
    assert [c.gbps for c in found.slowest] == [39.0, 40.0, 41.0, 42.0]


def test_without_measurements_there_is_nothing() -> None:
    assert host_copies(run()) is None
    assert peer_copies(run()) is None

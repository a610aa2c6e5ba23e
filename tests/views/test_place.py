"""Who sits where and talks over what: nodes of ranks and pairs of ranks of the largest communicator."""

from __future__ import annotations

from nccl_insight.views.place import Pair, place, rank_pairs
from tests.by_hand import run

RANK = {"comm_id": "c", "nranks": 4, "input_id": 0, "pid": 1}
RANKS = [{**RANK, "rank": r, "host": h, "pid": r, "line": r} for r, h in enumerate(("b", "b", "a", "a"))]


def test_hosts_stand_in_the_order_of_their_lowest_rank() -> None:
    found = place(run(ranks=RANKS))
    assert found is not None
    assert (found.hosts, found.ranks_of, found.nranks) == (("b", "a"), ((0, 1), (2, 3)), 4)
    assert found.crosses(1, 2)
    assert not found.crosses(0, 1)
    assert not found.crosses(0, 9)
    assert place(run()) is None


def test_a_pair_is_as_bad_as_the_worst_of_its_ways() -> None:
    link = {
        "comm_id": "c",
        "src_rank": 0,
        "dst_rank": 2,
        "input_id": 0,
        "direction": "send",
        "transport": "NET",
        "host": "b",
    }
    links = [
        {**link, "channel": 0, "network": "IB", "gdr": True},
        {**link, "channel": 1, "network": "Socket", "gdr": False},
        {**link, "channel": 0, "dst_rank": 1, "transport": "P2P", "method": "CUMEM"},
        {**link, "channel": 0, "dst_rank": 3, "network": "IB", "gdr": False},
    ]
    found = {(pair.src, pair.dst): pair for pair in rank_pairs(run(ranks=RANKS, connections=links))}
    assert found[0, 2] == Pair(0, 2, "socket", "NET Socket, NET IB", 2)
    assert {way: pair.kind for way, pair in found.items()} == {(0, 1): "p2p", (0, 2): "socket", (0, 3): "host_rdma"}
    assert rank_pairs(run(ranks=RANKS)) == ()

"""GPU by NIC: how far each NIC is from each GPU of a node, and which connections use it."""

from __future__ import annotations

from nccl_insight.views.nics import gpu_nics
from tests.by_hand import run

RANKS = [
    {"comm_id": "c", "nranks": 6, "rank": r, "host": h, "pid": r, "input_id": 0, "line": r}
    for r, h in enumerate("aabbcc")
]


def link(src: int, nic: int | None) -> dict[str, object]:
    end = {"comm_id": "c", "input_id": 0, "transport": "NET", "network": "IB", "direction": "send", "channel": 0}
    return {**end, "src_rank": src, "dst_rank": (src + 2) % 6, "host": "abc"[src // 2], "net_dev": nic}


def test_connections_are_counted_by_gpu_of_the_node_and_nic() -> None:
    links = [link(0, 0), link(1, 1), link(1, 1), link(2, 0), link(3, 1), link(4, 0), link(5, 0), link(0, None)]
    devices = [{"host": "a", "index": 1, "name": "mlx5_1", "input_id": 0}]
    found = gpu_nics(run(ranks=RANKS, connections=links, net_devices=devices))
    assert found is not None
    assert dict(found.connections) == {(0, 0): 3, (1, 1): 3, (1, 0): 1}
    assert (found.gpus, found.nics, found.names) == ((0, 1), (0, 1), {1: "mlx5_1"})
    assert (found.hosts, found.alike, found.odd_hosts) == (3, 2, ("c",))
    assert [(u.host, u.rank, u.gpu, u.nic, u.connections) for u in found.uses][1] == ("a", 1, 1, 1, 2)


def test_without_connections_and_a_topology_there_is_nothing() -> None:
    assert gpu_nics(run(ranks=RANKS)) is None
    assert gpu_nics(run()) is None

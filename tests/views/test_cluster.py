"""The nodes of the largest communicator in classes of those that are built and used alike."""

from __future__ import annotations

from nccl_insight.views.cluster import cluster
from tests.by_hand import run

RANKS = [
    {"comm_id": "c", "nranks": 6, "rank": r, "host": h, "pid": r, "input_id": 0, "line": r}
    for r, h in enumerate("aabbcc")
]
LINK = {"comm_id": "c", "input_id": 0, "transport": "NET", "network": "IB", "direction": "send", "channel": 0}


def test_nodes_that_are_used_alike_are_of_one_class() -> None:
    links = [
        {**LINK, "src_rank": src, "dst_rank": dst, "host": "abc"[src // 2], "net_dev": nic}
        for src, dst, nic in ((0, 2, 0), (2, 4, 0), (4, 0, 1))
    ]
    times = [{"rank": r, "total_s": s} for r, s in ((0, 1.0), (1, 3.0), (2, 2.0))]
    devices = [{"host": "a", "name": n, "index": i, "input_id": 0} for i, n in enumerate(("mlx5_0", "mlx5_1"))]
    found = cluster(run(ranks=RANKS, connections=links, init_timings=times))
    assert found is not None
    assert found.place.hosts == ("a", "b", "c")
    assert found.class_of == (0, 0, 1)
    assert [c.used for c in found.classes] == [{(0, 0)}, {(0, 1)}]
    assert [c.between for c in found.classes] == [{"host_rdma"}, {"host_rdma"}]
    assert found.init_s == (3.0, 2.0, None)
    named = cluster(run(ranks=RANKS, connections=links, net_devices=devices))
    assert named is not None
    assert named.nics == (2, None, None)
    assert len(named.classes) == 3


def test_one_node_is_no_cluster() -> None:
    assert cluster(run(ranks=RANKS[:2])) is None
    assert cluster(run()) is None
    assert cluster(run(ranks=RANKS[:3])) is not None

"""Inside a node: GPUs with ranks, what joins them, NICs with names and speeds, and which GPU uses which NIC."""

from __future__ import annotations

from nccl_insight.views.node import nodes
from tests.by_hand import run

RANKS = [
    {
        "comm_id": "c",
        "nranks": 6,
        "rank": r,
        "host": h,
        "pid": r,
        "cuda_dev": r % 2,
        "bus_id": f"{r}b000",
        "input_id": 0,
        "line": r,
    }
    for r, h in enumerate("aabbcc")
]
COMMS = [{"comm_id": "c", "nranks": 6, "ranks_seen": 6}]
LINK = {"comm_id": "c", "input_id": 0, "direction": "send", "channel": 0}


def test_nodes_that_are_built_otherwise_are_named() -> None:
    devices = [
        {"host": h, "index": 0, "name": "mlx5_0", "speed_gbit": g, "input_id": 0}
        for h, g in (("a", 400), ("b", 400), ("c", 200))
    ]
    found = nodes(run(ranks=RANKS, communicators=COMMS, net_devices=devices))
    assert found is not None
    assert [n.host for n in found.nodes] == ["a", "b", "c"]
    assert found.usual.host == "a"
    assert [(g.rank, g.number, g.bus_id) for g in found.usual.gpus] == [(0, 0, "0b000"), (1, 1, "1b000")]
    assert found.odd_hosts == ("c",)
    assert (found.switch, found.nvls, found.ways, found.topology) == (False, False, (), None)


def test_what_joins_the_gpus_of_a_node() -> None:
    links = [
        {**LINK, "src_rank": s, "dst_rank": d, "transport": t, "host": "a"}
        for s, d, t in ((0, 1, "P2P"), (1, 0, "P2P"), (0, 1, "SHM"), (0, 2, "NET"))
    ]
    found = nodes(run(ranks=RANKS, communicators=COMMS, connections=links, channel_counts=[{"nvls_channels": 16}]))
    assert found is not None
    assert found.ways == ("P2P", "SHM")
    assert (found.switch, found.nvls) == (True, True)
    plain = nodes(
        run(ranks=RANKS, communicators=COMMS, topology_nodes=[{"kind": "NVS"}], channel_counts=[{"nvls_channels": 0}])
    )
    assert plain is not None
    assert (plain.switch, plain.nvls) == (True, False)


def test_a_nic_that_only_its_number_tells_of_is_shown() -> None:
    links = [{**LINK, "src_rank": 0, "dst_rank": 2, "transport": "NET", "network": "IB", "host": "a", "net_dev": 3}]
    found = nodes(run(ranks=RANKS, communicators=COMMS, connections=links))
    assert found is not None
    assert [(n.index, n.name) for n in found.nodes[0].nics] == [(3, None)]
    assert dict(found.nodes[0].uses) == {(0, 3): 1}
    assert nodes(run()) is None
    listed = [{"host": "a", "index": 3, "speed_gbit": 400, "input_id": 0}]
    found = nodes(run(ranks=RANKS, communicators=COMMS, net_devices=listed))
    assert found is not None
    assert [(n.index, n.name, n.speed_gbit) for n in found.nodes[0].nics] == [(3, None, 400)]

"""Views over hand-made tables: expected values are written out, not computed by the code under test."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.facts import gdr, members, mentions, networks, outliers, paths, reach, settings, traffic, transports
from nccl_insight.tables.run import Run, build_run
from nccl_insight.tables.schema import conform
from nccl_insight.views.environment import environment


def _ranks(*rows: tuple[str, int, str, int, int, int | None]) -> pl.DataFrame:
    """Rows of (comm_id, rank, host, pid, nranks, n_nodes)."""
    return pl.DataFrame(
        {
            "comm_id": [r[0] for r in rows],
            "rank": [r[1] for r in rows],
            "host": [r[2] for r in rows],
            "pid": [r[3] for r in rows],
            "nranks": [r[4] for r in rows],
            "n_nodes": [r[5] for r in rows],
            "input_id": [0] * len(rows),
            "line": list(range(1, len(rows) + 1)),
        }
    )


def _links(*rows: tuple[int, int, str, str, str | None, bool]) -> pl.DataFrame:
    """Rows of (src, dst, direction, transport, network, gdr), printed by the rank's host of two ranks each."""
    printer = [r[0] if r[2] == "send" else r[1] for r in rows]
    return pl.DataFrame(
        {
            "comm_id": ["c"] * len(rows),
            "host": ["a" if p < 2 else "b" for p in printer],
            "pid": [100 + p for p in printer],
            "channel": list(range(len(rows))),
            "conn_index": [0] * len(rows),
            "src_rank": [r[0] for r in rows],
            "dst_rank": [r[1] for r in rows],
            "direction": [r[2] for r in rows],
            "transport": [r[3] for r in rows],
            "network": [r[4] for r in rows],
            "net_dev": [0 if r[3] == "NET" else None for r in rows],
            "gdr": [r[5] for r in rows],
            "input_id": [0] * len(rows),
            "line": list(range(50, 50 + len(rows))),
        }
    )


def _env(*rows: tuple[int, str, str]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "host": ["a" if r[0] < 102 else "b" for r in rows],
            "pid": [r[0] for r in rows],
            "name": [r[1] for r in rows],
            "value": [r[2] for r in rows],
            "origin": ["environment"] * len(rows),
            "input_id": [0] * len(rows),
            "line": list(range(20, 20 + len(rows))),
        }
    )


def _two_hosts(connections: pl.DataFrame | None = None, **more: pl.DataFrame) -> Run:
    tables = {
        "ranks": _ranks(*(("c", r, "a" if r < 2 else "b", 100 + r, 4, 2) for r in range(4))),
        "communicators": pl.DataFrame(
            {"comm_id": ["c"], "nranks": [4], "ranks_seen": [4], "hosts": [["a", "b"]], "n_nodes": [2]}
        ),
        **more,
    }
    if connections is not None:
        tables["connections"] = connections
    return build_run(tables)


def test_hosts_of_ranks_come_from_the_printing_end() -> None:
    run = build_run({"connections": _links((0, 2, "receive", "NET", "IB", True), (2, 0, "send", "NET", "IB", True))})
    assert members.rank_hosts(run).rows() == [("c", 2, "b")]


def test_pairs_fold_channels_and_know_hosts() -> None:
    run = _two_hosts(
        _links(
            (0, 1, "send", "P2P", None, False),
            (0, 1, "send", "P2P", None, False),
            (1, 2, "send", "NET", "IB", True),
            (1, 2, "receive", "NET", "IB", False),
        )
    )
    rows = transports.pairs(run).select("src_rank", "dst_rank", "same_host", "gdr", "any_gdr", "n_channels").rows()
    assert rows == [(0, 1, True, False, False, 2), (1, 2, False, False, True, 2)]


@pytest.mark.parametrize(
    ("name", "rdma"),
    [
        ("IB", True),
        ("Socket", False),
        ("FastSocket", False),
        ("AWS Libfabric", True),
        ("IBext_v8", True),
        ("gIB", True),
    ],
)
def test_network_names(name: str, rdma: bool) -> None:
    assert transports.is_rdma(name) is rdma
    frame = pl.DataFrame({"n": [name]}).select(transports.rdma_expr("n"))
    assert frame.item() is rdma


def test_one_node_without_p2p_and_shm_does_not_span_hosts() -> None:
    ranks = _ranks(("c", 0, "a", 100, 2, 2), ("c", 1, "a", 101, 2, 2))
    comms = pl.DataFrame({"comm_id": ["c"], "nranks": [2], "ranks_seen": [2], "hosts": [["a"]], "n_nodes": [2]})
    connections = _links((0, 1, "send", "NET", "Socket", False))
    env = _env((100, "NCCL_P2P_DISABLE", "1"), (100, "NCCL_SHM_DISABLE", "1."))
    plain = build_run({"ranks": ranks, "communicators": comms, "connections": connections})
    isolated = build_run({"ranks": ranks, "communicators": comms, "connections": connections, "env": env})
    assert reach.spans_hosts(plain) is True
    assert reach.spans_hosts(isolated) is False


def test_hosts_joined_by_nvlink_are_one_node_for_a_communicator() -> None:
    run = build_run(
        {
            "communicators": pl.DataFrame(
                {"comm_id": ["c"], "nranks": [4], "ranks_seen": [4], "hosts": [["a", "b"]], "n_nodes": [1]}
            )
        }
    )
    (comm,) = members.comms(run)
    assert comm.single_node
    assert comm.spans_hosts


def test_unknown_reach_is_not_one_node() -> None:
    assert reach.spans_hosts(build_run({})) is None


def test_settings_lose_quotes_and_full_stop_and_the_last_wins() -> None:
    run = build_run(
        {"env": _env((100, "NCCL_ALGO", '"Ring"'), (100, "NCCL_ALGO", "Tree"), (101, "NCCL_IB_DISABLE", "1."))}
    )
    assert settings.value_of(run, "NCCL_ALGO") == "Tree"
    assert settings.switched_on(run, "NCCL_IB_DISABLE").height == 1
    assert settings.value_of(run, "NCCL_NET") is None


def _facts(*rows: tuple[str | None, int, str, str | None]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "comm_id": [r[0] for r in rows],
            "rank": [r[1] for r in rows],
            "host": [r[2] for r in rows],
            "fact": [r[3] for r in rows],
            "input_id": [0] * len(rows),
            "line": list(range(1, len(rows) + 1)),
        },
        schema_overrides={"comm_id": pl.String, "fact": pl.String},
    )


def test_outliers_name_whole_hosts() -> None:
    frame = _facts(("c", 0, "a", "x"), ("c", 1, "a", "x"), ("c", 2, "b", "x"), ("c", 3, "b", "y"), ("c", 4, "z", "y"))
    (odd,) = outliers.outliers(frame, "fact")
    assert (odd.value, odd.majority, odd.ranks, odd.hosts, odd.whole_hosts) == ("y", "x", (3, 4), ("b", "z"), ("z",))
    assert [(r.input_id, r.line) for r in odd.lines] == [(0, 4), (0, 5)]
    assert odd.majority_ranks == 3


def test_outliers_compare_within_a_communicator_and_skip_unknown() -> None:
    frame = _facts(("c", 0, "a", "x"), ("c", 1, "a", None), ("d", 0, "b", "y"), (None, 0, "q", "z"))
    assert outliers.outliers(frame, "fact") == ()


def test_a_tie_goes_to_the_lowest_rank() -> None:
    (odd,) = outliers.outliers(_facts(("c", 1, "b", "y"), ("c", 0, "a", "x")), "fact")
    assert (odd.value, odd.ranks) == ("y", (1,))


def test_splits_with_one_id_are_not_compared() -> None:
    run = build_run({"ranks": _ranks(("c", 0, "a", 1, 4, 1), ("c", 0, "a", 1, 2, 1), ("d", 0, "a", 1, 2, 1))})
    frame = _facts(("c", 0, "a", "x"), ("d", 0, "a", "x"))
    assert members.unambiguous(run, frame).get_column("comm_id").to_list() == ["d"]


def test_networks_are_said_or_used() -> None:
    run = build_run(
        {
            "processes": pl.DataFrame({"host": ["a"], "pid": [100], "network": ["IB"], "input_id": [0], "line": [3]}),
            "connections": _links((2, 0, "send", "NET", "Socket", False)),
        }
    )
    assert networks.process_networks(run).select("host", "network").rows() == [("a", "IB"), ("b", "Socket")]
    assert networks.socket_processes(run).select("host", "pid").rows() == [("b", 102)]


def test_listed_interfaces_tell_sockets_where_the_choice_is_missing() -> None:
    devices = {"host": ["a"], "pid": [100], "network": ["Socket"], "name": ["eth0"], "input_id": [0], "line": [4]}
    run = build_run({"net_devices": pl.DataFrame(devices)})
    assert networks.socket_processes(run).select("host", "line").rows() == [("a", 4)]


@pytest.mark.parametrize(
    ("name", "yes"), [("ib0", True), ("ibs108", True), ("eth0", False), ("enp1s0", False), (None, False)]
)
def test_ip_over_infiniband(name: str | None, yes: bool) -> None:
    assert networks.ipoib(name) is yes


def test_gdr_by_host_counts_both_directions() -> None:
    run = _two_hosts(
        _links(
            (0, 2, "send", "NET", "IB", True),
            (0, 2, "receive", "NET", "IB", False),
            (2, 0, "send", "NET", "Socket", False),
        )
    )
    rows = gdr.gdr_by_host(run).select("local_host", "total", "direct", "without").rows()
    assert rows == [("a", 1, 1, 0), ("b", 1, 0, 1)]


def test_gdr_lines_of_sockets_are_left_out() -> None:
    lines = pl.DataFrame(
        {
            "host": ["a", "a"], "pid": [1, 1], "scope": ["device", "device"], "network": ["Socket", "IB"],
            "gdr_state": ["Disabled", "Disabled"], "hca_name": ["eth0", "mlx5_0"], "input_id": [0, 0], "line": [1, 2],
        }
    )  # fmt: skip
    assert gdr.gdr_lines(build_run({"gdr": lines})).select("hca", "enabled").rows() == [("mlx5_0", False)]


def _rings(order: list[int]) -> pl.DataFrame:
    n = len(order)
    return pl.DataFrame(
        {
            "comm_id": ["c"] * n, "channel": [0] * n, "position": list(range(n)), "rank": order,
            "truncated": [False] * n, "input_id": [0] * n, "line": [9] * n,
        }
    )  # fmt: skip


@pytest.mark.parametrize(("order", "crossings"), [([0, 1, 2, 3], 2), ([0, 2, 1, 3], 4), ([1, 2, 3, 0], 2)])
def test_ring_crossings_close_the_ring(order: list[int], crossings: int) -> None:
    run = _two_hosts(rings=_rings(order))
    assert traffic.ring_crossings(run).select("crossings", "hosts").rows() == [(crossings, 2)]


def test_rings_that_are_cut_are_not_counted() -> None:
    run = _two_hosts(rings=_rings([0, 1, 2]))
    assert traffic.ring_crossings(run).is_empty()


def test_nic_load_counts_groups_of_ranks_by_channel() -> None:
    frame = _links(*((r, 2, "send", "NET", "IB", True) for r in (0, 1)), (0, 2, "send", "NET", "IB", True))
    shared = traffic.nic_load(_two_hosts(frame))
    assert shared.select("host", "sharers", "channels").rows() == [("a", 2, 3)]
    same_channel = frame.with_columns(channel=pl.lit(0, dtype=pl.Int64))
    assert traffic.nic_load(_two_hosts(same_channel)).select("sharers", "channels").rows() == [(1, 1)]


def test_nvlink_bandwidth_counts_a_repeated_link_once() -> None:
    links = pl.DataFrame(
        {
            "host": ["a"] * 3, "src": ["GPU/0-1b000"] * 3, "dst": ["NVS/0", "NVS/0", "GPU/0-2b000"],
            "link": ["NVL"] * 3, "bw_gbps": [240.0, 240.0, 20.0], "input_id": [0] * 3, "line": [1, 5, 2],
        }
    )  # fmt: skip
    run = build_run({"topology_links": links})
    assert paths.nvlink_per_gpu(run).select("bw_gbps", "links").rows() == [(260.0, 2)]
    assert paths.has_nvlink(run)
    assert not paths.nvlink_mesh(run)


def test_mentions_find_text_in_any_table_in_reading_order() -> None:
    errors = pl.DataFrame(
        {"host": ["a", "a"], "text": ["Unable to open device mlx5_1", "other"], "input_id": [0, 0], "line": [7, 8]}
    )
    unknown = pl.DataFrame({"example": ["Unable to open device mlx5_0"], "input_id": [0], "line": [2]})
    run = build_run({"errors": errors, "unknown": unknown})
    assert mentions.mentions(run, "device-unopened").get_column("line").to_list() == [2, 7]
    assert mentions.mentions(run, "acs-on").is_empty()


def test_views_of_an_empty_run_are_empty() -> None:
    run = build_run({})
    for frame in (
        members.members(run), members.rank_hosts(run), transports.pairs(run), networks.process_networks(run),
        networks.nics(run), networks.socket_processes(run), settings.settings(run), gdr.gdr_lines(run),
        gdr.gdr_by_host(run), traffic.nic_load(run), traffic.ring_hops(run), paths.gpu_paths(run),
        paths.nvlink_per_gpu(run), mentions.no_device(run), mentions.library_missing(run),
    ):  # fmt: skip
        assert frame.is_empty()
    assert members.comms(run) == ()
    assert members.main_comm(run) is None


def test_a_version_that_is_not_printed_is_not_another() -> None:
    """NCCL prints its version on rank 0 only."""
    for versions, odd in (([None, None, "2.10.3"], []), (["2.21.5", "2.21.5", "2.10.3"], ["2.10.3"])):
        processes = pl.DataFrame({"host": ["a", "b", "c"], "pid": [1, 2, 3], "nccl_version": versions})
        shown = environment(build_run({"processes": conform("processes", processes)}))
        assert shown is not None
        assert [v.nccl for v in shown.versions if v.odd] == odd

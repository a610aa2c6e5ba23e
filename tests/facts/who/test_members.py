"""Who takes part."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.fabric import gdr, networks, paths, traffic
from nccl_insight.facts.said import mentions
from nccl_insight.facts.setup import settings
from nccl_insight.facts.who import members, transports
from nccl_insight.loading.assemble.places import rank_hosts
from nccl_insight.tables.run import build_run
from tests.facts.tables_by_hand import _facts, _links, _ranks


def test_hosts_of_ranks_come_from_the_printing_end() -> None:
    run = build_run({"connections": _links((0, 2, "receive", "NET", "IB", True), (2, 0, "send", "NET", "IB", True))})
    assert rank_hosts(run).rows() == [("c", 2, "b")]


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


def test_splits_with_one_id_are_not_compared() -> None:
    run = build_run({"ranks": _ranks(("c", 0, "a", 1, 4, 1), ("c", 0, "a", 1, 2, 1), ("d", 0, "a", 1, 2, 1))})
    frame = _facts(("c", 0, "a", "x"), ("d", 0, "a", "x"))
    assert members.unambiguous(run, frame).get_column("comm_id").to_list() == ["d"]


def test_views_of_an_empty_run_are_empty() -> None:
    run = build_run({})
    for frame in (
        members.members(run), rank_hosts(run), transports.pairs(run), networks.process_networks(run),
        networks.nics(run), networks.socket_processes(run), settings.settings(run), gdr.gdr_lines(run),
        gdr.gdr_by_host(run), traffic.nic_load(run), traffic.ring_hops(run), paths.gpu_paths(run),
        paths.nvlink_per_gpu(run), mentions.no_device(run), mentions.library_missing(run),
    ):  # fmt: skip
        assert frame.is_empty()
    assert members.comms(run) == ()
    assert members.main_comm(run) is None

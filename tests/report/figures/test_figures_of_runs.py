"""Figures that answer: who waits for whom, process groups, GPU by NIC, rings and trees by node, tiles, gaps."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import polars as pl

from nccl_insight.base.model import Analysis
from nccl_insight.facts.gpu_nics import topology
from nccl_insight.facts.waiting import waiting
from nccl_insight.report import explain_log, html_diff
from nccl_insight.report.figures.base import Figure
from nccl_insight.tables.run import Run, build_run
from nccl_insight.views.log import log
from nccl_insight.views.matrix import differing, matrix
from nccl_insight.views.rings import ring_orders
from nccl_insight.views.structure import structure
from tests import pages
from tests import render_samples as samples
from tests.pages import build

MS = 1_000_000


def figures(run: Run, analysis: Analysis | None = None) -> dict[str, Figure]:
    return {f.id: f for f in build(analysis or samples.healthy()[0], run)}


def drawn(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(figure.svg)


def words(figure: Figure) -> list[str]:
    return [t.text or "" for t in drawn(figure).iter("text")]


def _collectives(clock: bool = True) -> Run:
    """Three collectives of three ranks; rank 2 comes last in two of them, rank 0 in one. Each transfer takes 1 ms."""
    rows = []
    late = ((0, 4, 10), (1, 0, 6), (8, 0, 0))
    for match, delays in enumerate(late):
        last = max(delays)
        for rank, delay in enumerate(delays):
            rows.append(
                {
                    "rank": rank, "op": "AllReduce", "match_id": match, "source": "kernel", "kernel": "k",
                    "start_ns": (match * 100 + delay) * MS, "duration_ns": (last - delay + 1) * MS,
                    "wait_ns": (last - delay) * MS, "skew_ns": delay * MS if clock else None,
                }
            )  # fmt: skip
    return build_run({"collectives": pl.DataFrame(rows)})


def test_waiting_is_counted_for_the_rank_that_comes_last() -> None:
    found = waiting(_collectives())
    assert found is not None
    assert found.total_ns == (10 + 6 + 5 + 6 + 8 + 8) * MS
    assert found.for_rank == {0: 16 * MS, 2: 27 * MS}
    assert found.of_rank == {0: 15 * MS, 1: 20 * MS, 2: 8 * MS}


def test_who_waits_for_whom_over_time_and_without_a_common_clock() -> None:
    figure = figures(_collectives())["waits"]
    assert "All ranks together wait 43 ms in 3 matched collectives" in figure.summary
    assert "most of it for rank 2, which came last: 27 ms" in figure.summary
    assert figure.table.rows[0] == ("2", "8 ms", "2", "27 ms", "63%")
    svg = drawn(figure)
    assert sum(e.get("class") == "last" for e in svg.iter("path")) == 3
    assert sum(e.get("class") == "wait" for e in svg.iter("rect")) == 6
    assert sum(e.get("class") == "move" for e in svg.iter("rect")) == 9
    other = figures(_collectives(clock=False))["waits"]
    assert "no common clock" in other.summary
    assert sum("heat" in (e.get("class") or "") for e in drawn(other).iter("rect")) == 9


def test_a_rank_that_a_finding_names_is_marked() -> None:
    analysis = samples.healthy()[0]
    named = dataclasses.replace(analysis, findings=(samples.finding(ranks=(2,)),))
    figure = figures(_collectives(), named)["waits"]
    hot = [t.text for t in drawn(figure).iter("text") if "hot" in (t.get("class") or "")]
    assert hot == ["rank 2"]
    assert {e.get("data-r") for e in drawn(figure).iter("rect")} == {"0", "1", "2"}


def test_process_groups_by_rank_show_who_is_behind() -> None:
    rows = [
        {
            "rank": rank, "process_group": group, "pg_desc": "DP", "group_ranks": members, "record_id": seq,
            "collective_seq": seq, "is_p2p": False, "retired": False, "op": "AllReduce", "op_name": "all_reduce",
            "state": "completed" if seq < last else "scheduled", "input_id": rank, "time_created_ns": seq,
        }
        for group, members, lasts in (("1", [0, 1, 2], {0: 5, 1: 5, 2: 2}), ("2", [0, 3], {0: 4}))
        for rank, last in lasts.items()
        for seq in range(1, last + 1)
    ]  # fmt: skip
    figure = figures(build_run({"flight_recorder": pl.DataFrame(rows)}))["groups"]
    assert "behind: rank 2" in figure.summary
    assert "silent: rank 3" in figure.summary
    assert figure.table.rows[0][2:] == ("5", "rank 2 by 3", "none")
    late = [e for e in drawn(figure).iter("rect") if e.get("class") == "cell late" and e.get("data-r")]
    assert [e.get("data-r") for e in late] == ["2"]
    assert "-3" in words(figure)


def _topology() -> dict[str, pl.DataFrame]:
    """Two sockets; on each a PCIe switch with a GPU and a NIC, and on the first another switch with a GPU."""
    nodes = [
        ("CPU/0", "CPU", 0),
        ("CPU/1", "CPU", 1),
        ("PCI/a", "PCI", None),
        ("PCI/b", "PCI", None),
        ("PCI/c", "PCI", None),
    ]
    nodes += [("GPU/0", "GPU", 0), ("GPU/1", "GPU", 1), ("GPU/2", "GPU", 2), ("NET/0", "NET", 0), ("NET/1", "NET", 1)]
    links = [("CPU/0", "PCI/a"), ("CPU/0", "PCI/b"), ("CPU/1", "PCI/c"), ("PCI/a", "GPU/0"), ("PCI/b", "GPU/1")]
    links += [("PCI/c", "GPU/2"), ("PCI/a", "NIC/0"), ("NIC/0", "NET/0"), ("PCI/c", "NIC/1"), ("NIC/1", "NET/1")]
    return {
        "topology_nodes": pl.DataFrame(nodes, schema=["node", "kind", "index"], orient="row"),
        "topology_links": pl.DataFrame(links, schema=["src", "dst"], orient="row").with_columns(
            link=pl.when(pl.col("dst").str.starts_with("NET")).then(pl.lit("NET")).otherwise(pl.lit("PCI"))
        ),
    }


def test_the_distance_of_gpu_and_nic_is_where_their_ways_to_the_cpu_meet() -> None:
    found = topology(build_run(_topology()))
    assert found is not None
    assert dict(found.distance) == {
        (0, 0): "PIX", (0, 1): "SYS", (1, 0): "PHB", (1, 1): "SYS", (2, 0): "SYS", (2, 1): "PIX",
    }  # fmt: skip
    figure = figures(build_run(_topology()))["nics"]
    assert sum(e.get("class") == "cell d-sys" for e in drawn(figure).iter("rect")) == 3 + 1  # and the legend
    assert "no connection is in the inputs" in figure.summary


def test_the_matrix_of_nvidia_smi_gives_distances_too() -> None:
    nodes = pl.DataFrame(
        {"node": ["GPU0", "NIC0", "NIC1"], "kind": ["GPU", "NIC", "NIC"], "index": [0, 0, 1], "section": [1, 1, 1]}
    )
    links = pl.DataFrame({"src": ["GPU0", "GPU0"], "dst": ["NIC0", "NIC1"], "path": ["PIX", "SYS"], "section": [1, 1]})
    found = topology(build_run({"topology_nodes": nodes, "topology_links": links}))
    assert found is not None
    assert dict(found.distance) == {(0, 0): "PIX", (0, 1): "SYS"}


def _ring_run(known: int, ranks: int = 16) -> Run:
    """Two nodes of eight ranks; the order of channel 0 is cut after ``known`` ranks."""
    hosts = pl.DataFrame(
        {
            "comm_id": "0x1",
            "rank": range(ranks),
            "nranks": ranks,
            "host": [f"node{r // 8}" for r in range(ranks)],
            "pid": range(ranks),
            "cuda_dev": [r % 8 for r in range(ranks)],
        }
    )
    order = pl.DataFrame(
        {"comm_id": "0x1", "channel": 0, "position": range(known), "rank": range(known), "truncated": known < ranks}
    )
    comms = pl.DataFrame({"comm_id": ["0x1"], "nranks": [ranks], "ranks_seen": [ranks], "n_nodes": [2]})
    return build_run({"ranks": hosts, "rings": order, "communicators": comms})


def test_a_ring_is_drawn_by_node_with_entry_and_exit() -> None:
    figure = figures(_ring_run(16))["rings"]
    assert "each crosses between nodes twice, the minimum for 2 nodes" in figure.summary
    assert "node0: in 0, out 7" in words(figure)
    assert "node1: in 8, out 15" in words(figure)
    assert "cut in the log" not in words(figure)


def test_a_cut_order_is_never_drawn_as_a_ring() -> None:
    (ring,) = ring_orders(_ring_run(12))
    assert not ring.whole
    assert (11, 0) not in ring.hops()
    figure = figures(_ring_run(12))["rings"]
    assert "the log cuts each order after 12 ranks" in figure.summary
    assert "crosses between nodes" not in figure.summary
    assert "cut in the log" in words(figure)
    assert "back to the first node" not in words(figure)
    assert figure.table.rows[0][1] == "12 of 16"
    assert figure.table.rows[0][4].endswith("(cut in the log)")


def _neighbors(hosts: list[str | None]) -> Run:
    """A ring of four ranks that only their lines of neighbors tell."""
    ranks = pl.DataFrame({"comm_id": "0x1", "rank": range(4), "nranks": 4, "host": hosts, "pid": range(4)})
    ring = pl.DataFrame({"comm_id": "0x1", "channel": 0, "rank": [0, 2, 1, 3], "next_rank": [2, 1, 3, 0]})
    comms = pl.DataFrame({"comm_id": ["0x1"], "nranks": [4], "ranks_seen": [4], "n_nodes": [2]})
    return build_run({"ranks": ranks, "ring_neighbours": ring, "communicators": comms})


def test_a_ring_of_neighbors_is_the_same_in_words_and_in_the_figure() -> None:
    run = _neighbors(["node0", "node0", "node1", "node1"])
    told = explain_log.render(log(run))
    assert "1 ring, in one order." in told
    assert "- channel 0: 0 > 2 > 1 > 3" in told
    assert "Each ring crosses from host to host 4 times, at least 2 are needed." in told
    figure = figures(run)["rings"]
    assert figure.table.rows[0][2] == "4"
    assert "each crosses between nodes 4 times, at least 2 are needed" in figure.summary


def test_no_crossings_are_counted_where_the_host_of_a_rank_is_unknown() -> None:
    run = _neighbors(["node0", "node0", "node1", None])
    assert "crosses" not in explain_log.render(log(run))
    figure = figures(run)["rings"]
    assert figure.table.rows[0][2] == ""
    assert "crosses" not in figure.summary


def test_a_thousand_nodes_fit_the_budget() -> None:
    run = build_run(samples.cluster_tables(1024, channels=1, bad_node=700))
    analysis = samples.thousand()[0]
    figure = figures(run, analysis)["cluster"]
    assert len(re.findall(r'data-c="', figure.svg)) == 1024
    assert "2 classes of alike nodes" in figure.summary
    assert len(pages.render(analysis, run, js="none").encode()) < 1_000_000


def test_connections_that_differ_are_outlined() -> None:
    good, bad = build_run(samples.cluster_tables(2)), build_run(samples.cluster_tables(2, bad_node=1))
    changed = differing(matrix(good), matrix(bad))
    assert changed
    analysis = samples.healthy()[0]
    pairs = html_diff.side_by_side((analysis, structure(good)), (analysis, structure(bad)))
    assert [f.id for f in pairs] == ["both-node", "good-matrix", "bad-matrix"]
    outlines = [e for e in drawn(pairs[2]).iter("rect") if e.get("class") == "changed"]
    assert len(outlines) == len(changed)
    assert not [e for e in drawn(pairs[1]).iter("rect") if e.get("class") == "changed"]


def test_gaps_between_collectives_of_a_trace_without_ranks() -> None:
    rows = [{"device": 0, "op": "AllReduce", "start_ns": at * MS, "duration_ns": MS} for at in (0, 10, 12)]
    figure = figures(build_run({"collectives": pl.DataFrame(rows)}))["gaps"]
    assert figure.table.rows[0] == ("0", "1 ms", "9 ms", "AllReduce", "AllReduce")
    assert "2 gaps between collectives; the longest, on GPU 0, takes 9 ms" in figure.summary

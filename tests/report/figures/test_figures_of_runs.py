"""Figures that answer: who waits for whom, process groups, GPU by NIC, rings and trees by node, tiles, gaps."""

from __future__ import annotations

import dataclasses
import re

import polars as pl

from nccl_insight.report import explain_log
from nccl_insight.tables.run import Run, build_run
from nccl_insight.views.log import log
from tests import pages
from tests import render_samples as samples
from tests.drawings import MS, _collectives, drawn, figures, ring_run, words


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


def test_a_ring_is_drawn_by_node_with_entry_and_exit() -> None:
    figure = figures(ring_run(16))["rings"]
    assert "each crosses between nodes twice, the minimum for 2 nodes" in figure.summary
    assert "node0: in 0, out 7" in words(figure)
    assert "node1: in 8, out 15" in words(figure)
    assert "cut in the log" not in words(figure)


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


def test_gaps_between_collectives_of_a_trace_without_ranks() -> None:
    rows = [{"device": 0, "op": "AllReduce", "start_ns": at * MS, "duration_ns": MS} for at in (0, 10, 12)]
    figure = figures(build_run({"collectives": pl.DataFrame(rows)}))["gaps"]
    assert figure.table.rows[0] == ("0", "1 ms", "9 ms", "AllReduce", "AllReduce")
    assert "2 gaps between collectives; the longest, on GPU 0, takes 9 ms" in figure.summary

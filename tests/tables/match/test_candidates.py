"""Rows of collectives and of transfers that can have partners on other ranks, with the group that these are in."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.match.candidates import candidates, transfers
from tests.by_hand import rows

EVENT = {
    "source": "kernel",
    "process_group": "0",
    "group_ranks": [0, 1],
    "size_bytes": 8,
    "dtype": "Float",
    "duration_ns": 5,
}


def table(*given: dict[str, object]) -> pl.DataFrame:
    return rows("collectives", *({**EVENT, "start_ns": 10 * n, **row} for n, row in enumerate(given, 1)))


def test_rows_that_have_partners_are_taken_once() -> None:
    one = {"op": "AllReduce", "rank": 1, "start_ns": 7}
    found = candidates(
        table(
            one, one, {"op": "AllReduce", "rank": 0}, {"op": "Send", "rank": 0}, {"op": "AllReduce"},
            {**one, "source": "flight_recorder"}, {**one, "duration_ns": -1},
        )
    )  # fmt: skip
    assert found.select("row", "rank", "end_ns").rows() == [(2, 0, 35), (0, 1, 12)]
    assert found["group"].n_unique() == 1


def test_of_an_exchange_ranks_may_bring_different_sizes_and_of_a_reduction_not() -> None:
    for op, kinds in (("AllToAll", 1), ("AllReduce", 2)):
        found = candidates(table({"op": op, "rank": 0}, {"op": op, "rank": 1, "size_bytes": 16}))
        assert found["sign"].n_unique() == kinds, op


def test_a_send_and_its_receive_are_of_one_group_and_the_way_back_of_another() -> None:
    there = transfers(table({"op": "Send", "rank": 0, "peer": 1}, {"op": "Recv", "rank": 1, "peer": 0}))
    assert there["group"].n_unique() == 1
    both = transfers(table({"op": "Send", "rank": 0, "peer": 1}, {"op": "Recv", "rank": 0, "peer": 1}))
    assert both["group"].n_unique() == 2
    assert transfers(table({"op": "Send", "rank": 0})).is_empty()
    assert transfers(table({"op": "Send", "rank": 0}).drop("peer")).is_empty()


def test_in_a_pair_transfers_of_inspector_count_in_their_order() -> None:
    own = {"source": "inspector", "rank": 0, "peer": 1, "op": "Send"}
    other = {"source": "inspector", "rank": 1, "peer": 0, "op": "Recv"}
    whole = transfers(table({**own, "seq": 7}, {**own, "seq": 9}, {**other, "seq": 1}, {**other, "seq": 2}))
    assert whole["seq"].to_list() == [1, 2, 1, 2]
    assert transfers(table({**own, "seq": 7}, {**own, "seq": 9}, {**other, "seq": 1}))["seq"].to_list() == [None] * 3

"""Joins traces with the NCCL log of the same job: process groups to communicators, tuning lines to collectives."""

from __future__ import annotations

import polars as pl

from nccl_insight.tables.join import join_log
from tests.by_hand import rows


def log_of(*members: tuple[str, int, int, str]) -> pl.DataFrame:
    """Rows of (communicator, rank, number of ranks, host), one process of each host."""
    return rows(
        "ranks", *({"comm_id": c, "rank": r, "nranks": n, "host": h, "pid": 1, "cuda_dev": 0} for c, r, n, h in members)
    )


WORLD = (("w", 0, 3, "a"), ("w", 1, 3, "b"), ("w", 2, 3, "c"))
TRACE = pl.DataFrame(
    {
        "process_group": ["0", "1", "w", "2"], "group_ranks": [[0, 1, 2], [2, 1], [5], None], "op": ["AllReduce"] * 4,
        "size_bytes": [8, 8, 8, 8], "algorithm": [None, "NVLS", None, None], "protocol": [None, "LL", None, None],
    },
    schema_overrides={"group_ranks": pl.List(pl.Int32), "algorithm": pl.String, "protocol": pl.String},
)  # fmt: skip


def test_a_group_is_the_communicator_of_the_same_ranks_of_the_job() -> None:
    pair = (("p", 0, 2, "b"), ("p", 1, 2, "c"))
    found = join_log({"collectives": TRACE, "ranks": log_of(*WORLD, *pair)})
    assert found["comm_id"].to_list() == ["w", "p", "w", None]
    twice = join_log({"collectives": TRACE, "ranks": log_of(*WORLD, *pair, ("q", 0, 2, "c"), ("q", 1, 2, "b"))})
    assert twice["comm_id"].to_list() == ["w", None, "w", None]
    part = join_log({"collectives": TRACE, "ranks": log_of(*WORLD, pair[0])})
    assert part["comm_id"].to_list() == ["w", None, "w", None]
    alone = TRACE[1:2].with_columns(group_ranks=pl.Series([[1]], dtype=pl.List(pl.Int32)))
    assert join_log({"collectives": alone, "ranks": log_of(*WORLD, pair[0])})["comm_id"].to_list() == [None]


def test_what_the_tuner_said_fills_what_the_trace_does_not_tell() -> None:
    said = {"comm_id": "w", "op": "AllReduce", "size_bytes": 8, "algorithm": "RING", "protocol": "LL128"}
    tables = {"collectives": TRACE, "ranks": log_of(*WORLD), "tuning_choice": rows("tuning_choice", said, said)}
    found = join_log(tables)
    assert found.select("algorithm", "protocol").row(0) == ("RING", "LL128")
    assert found["algorithm"].to_list()[1] == "NVLS"
    tables["tuning_choice"] = rows("tuning_choice", said, {**said, "algorithm": "TREE"})
    assert join_log(tables)["algorithm"].to_list()[0] is None


def test_without_a_log_or_groups_nothing_is_joined() -> None:
    assert join_log({"collectives": TRACE})["comm_id"].to_list() == [None] * 4
    bare = TRACE.drop("process_group")
    assert join_log({"collectives": bare}) is bare

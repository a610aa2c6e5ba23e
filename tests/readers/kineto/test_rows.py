"""The ``collectives`` table of a Kineto trace."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.readers.kineto.rows import Groups, cpu_step_table, process_groups, with_cpu_collectives


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("[0, 1]", [0, 1]), ("[2,3 ]", [2, 3]), ("[]", None), ("[,]", None), ("[1,]", None), ("[1 2]", None),
     ("[0, 1, ...]", None), ("[9999999999]", None), ("[" + "1" * 6000 + "]", None)],
)  # fmt: skip
def test_ranks_that_are_no_list_are_unknown(text: str, ranks: list[int] | None) -> None:
    assert Groups().ranks_of("zz", text) == ranks


def test_the_groups_of_a_header_without_what_is_malformed() -> None:
    groups = process_groups(
        {"pg_config": [{"pg_name": 0, "pg_desc": "world", "ranks": [0, 1]}, "junk", {"pg_desc": 7, "ranks": [0, "x"]}]}
    )
    assert [(g.name, g.description, g.ranks) for g in groups.listed] == [("0", "world", (0, 1)), ("", None, ())]
    assert groups.ranks_of("0", "[5, 6]") == [0, 1]  # the header knows better than the event
    assert groups.ranks_of("9", [5, 6]) == [5, 6]
    assert groups.ranks_of("9", [5, -1]) is None
    assert process_groups({}).listed == () == process_groups({"pg_config": "x"}).listed


COLLECTIVES = pl.DataFrame(
    {"source": ["cpu_op", "kernel"], "step": [1, 1], "start_ns": [10, 10], "duration_ns": [30, 90]}
)


def test_collectives_on_the_cpu_are_time_in_which_a_gpu_waits() -> None:
    one = pl.DataFrame({"kind": [0], "device": [3], "start_ns": [0], "end_ns": [5], "step": [1]}).with_columns(
        pl.col("kind").cast(pl.Int8), pl.col("step").cast(pl.Int32)
    )
    found = with_cpu_collectives(one, COLLECTIVES)
    assert found.select("device", "start_ns", "end_ns").rows() == [(3, 0, 5), (3, 10, 40)]
    two = pl.concat([one, one.with_columns(device=pl.lit(4, pl.Int64))])
    assert with_cpu_collectives(two, COLLECTIVES) is two
    assert with_cpu_collectives(one, COLLECTIVES.clear()) is one


def test_steps_without_a_gpu_count_the_time_of_communication_once() -> None:
    steps = pl.DataFrame({"step": [1], "start_ns": [0], "end_ns": [100]}, schema_overrides={"step": pl.Int32})
    both = pl.concat([COLLECTIVES, COLLECTIVES.with_columns(start_ns=pl.lit(20, pl.Int64))])
    assert cpu_step_table(both, steps).select("step", "duration_ns", "comm_ns").rows() == [(1, 100, 40)]
    assert cpu_step_table(COLLECTIVES, steps.clear()).is_empty()

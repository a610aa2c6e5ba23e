"""Host names that a torn line spoiled."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nccl_insight.inputs.find import find_inputs
from nccl_insight.loading.assemble.hosts import mend_hosts, spoiled
from nccl_insight.readers.nccl_log.shares import Share, take


def test_a_host_is_mended_to_the_longest_frequent_end_of_its_name() -> None:
    processes = pl.DataFrame(
        {
            "input_id": [0, 0, 0, 0, 0, 1],
            "_host": ["Connected gpu1", "gpu1", "u1", "gpu2", "xxgpu2", "yygpu1"],
            "_pid": [7, 7, 7, 7, 7, 7],
            "_lines": [2, 100, 90, 10, 9, 1],
        },
        schema={"input_id": pl.UInt16, "_host": pl.String, "_pid": pl.Int64, "_lines": pl.UInt64},
    )
    # gpu1 itself is frequent, xxgpu2 is no rarer than gpu2, and the last stands in another input.
    assert spoiled(processes).rows() == [(0, "Connected gpu1", 7, "gpu1")]


PROCESSES = {"input_id": pl.UInt16, "_host": pl.String, "_pid": pl.Int64, "_lines": pl.UInt64}


def processes_of(*rows: tuple[int, str | None, int | None, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=PROCESSES, orient="row")


@pytest.mark.parametrize(
    ("torn", "lines", "mended"),
    [("53gpu1", 1, "gpu1"), ("a=gpu1", 1, "gpu1"), ("53gpu1", 2, None), ("xgpu1", 1, None), ("53gpu2", 1, None)],
)
def test_a_name_that_stands_once_is_mended_behind_what_begins_no_name(
    torn: str, lines: int, mended: str | None
) -> None:
    """gpu1 is frequent (4 lines) and gpu2 is not; only digits and marks of paths and settings are debris."""
    found = spoiled(processes_of((0, "gpu1", 7, 4), (0, "gpu2", 8, 3), (0, torn, 9, lines)))
    assert found.rows() == ([(0, torn, 9, mended)] if mended else [])


def test_rows_without_a_host_or_a_process_are_nobody() -> None:
    assert spoiled(processes_of()).rows() == []
    assert spoiled(processes_of((0, None, 7, 9), (0, "gpu1", None, 9), (0, "53gpu1", 7, 1))).rows() == []
    assert spoiled(processes_of()).columns == ["input_id", "_host", "_pid", "_mended"]


def test_a_log_without_a_torn_name_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("gpu1:7:7 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n")
    part = take(Share(tuple(find_inputs([str(path)]))), details=True).log
    assert mend_hosts(part) is part

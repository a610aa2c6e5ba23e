"""Times of lines, whatever program stamped them: seconds since 1970 by hand."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.facts.said.clock import clock_text, with_time
from nccl_insight.tables.run import build_run

#: 2025-06-01 10:00:00: 20,240 days and ten hours after 1970.
MOMENT_S = 20_240 * 86_400 + 36_000.0


@pytest.mark.parametrize(
    ("stamp", "time_s"),
    [
        ("2025-06-01 10:00:00,250", MOMENT_S + 0.25),
        ("2025/06/01T10:00:00.5", MOMENT_S + 0.5),
        ("[Sun Jun  1 10:00:00 2025] NVRM", MOMENT_S),
        ("E0601 10:00:00.125000 4242 pg.cpp:1]", 11_109 * 86_400 + 36_000.125),  # no year is printed: 2000
        ("Jun  1 10:00:02 gpu07 kernel:", 11_109 * 86_400 + 36_002.0),
        ("2025-13-01 10:00:00", None),
        ("2025-06-01 24:00:00", None),
        ("step 10:00", None),
    ],
)
def test_stamps_of_many_programs(stamp: str, time_s: float | None) -> None:
    rows = with_time(build_run({}), pl.DataFrame({"timestamp": [stamp]}), "timestamp")
    assert rows["time_s"].to_list() == [time_s]


def test_a_stamp_without_a_year_has_that_of_the_run() -> None:
    errors = pl.DataFrame({"timestamp": ["2025-05-31 10:00:00"], "input_id": [0], "line": [1]})
    rows = with_time(build_run({"errors": errors}), pl.DataFrame({"launcher": ["Jun  1 10:00:00 gpu07"]}), "launcher")
    assert rows["time_s"].to_list() == [MOMENT_S]


def test_a_moment_is_told_with_its_year_where_one_was_printed() -> None:
    assert clock_text(MOMENT_S) == "2025-06-01 10:00:00"
    assert clock_text(11_109 * 86_400 + 36_002.0) == "06-01 10:00:02"

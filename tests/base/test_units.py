"""Formatting of sizes, durations, bandwidths and rank sets for people."""

from __future__ import annotations

import re

from nccl_insight.base.units import format_bytes, format_ns, format_ranks, format_span_s, listed, plural, rank_words


def test_durations_are_as_documented() -> None:
    stated = re.findall(r"``([0-9]+)`` -> ``([^`]+)``", str(format_ns.__doc__))
    assert stated == [("1500", "1.50 us")]
    assert format_ns(int(stated[0][0])) == stated[0][1]


def test_sizes_times_and_counts_for_people() -> None:
    assert [format_bytes(n) for n in (0, 1023, 1536, 3 << 20)] == ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]
    assert [format_span_s(n) for n in (1.9, 45, 1860, 9000)] == ["1.90 s", "45 s", "31 min", "2.5 h"]
    assert [plural(1, "rank"), plural(1200, "rank"), plural(2, "process", "processes")] == [
        "1 rank", "1,200 ranks", "2 processes",
    ]  # fmt: skip


def test_ranks_and_names_are_listed_once() -> None:
    assert format_ranks([3, 1, 2, 2, 7]) == "1-3,7"
    assert format_ranks(range(0, 30, 2), limit=2) == "0,2,... (15 ranks)"
    assert format_ranks([None]) == ""  # of a row that knows no rank
    assert [rank_words([4, 4]), rank_words([4, 6])] == ["rank 4", "ranks 4,6"]
    assert listed(["a", "b", "a", "c"], 2) == "a, b and 1 more"

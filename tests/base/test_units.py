"""Formatting of sizes, durations, bandwidths and rank sets for people."""

from __future__ import annotations

import re

from nccl_insight.base.units import format_ns


def test_durations_are_as_documented() -> None:
    stated = re.findall(r"``([0-9]+)`` -> ``([^`]+)``", str(format_ns.__doc__))
    assert stated == [("1500", "1.50 us")]
    assert format_ns(int(stated[0][0])) == stated[0][1]

"""What NCCL's tuner chose, of which a log may have millions of rows: counted piece by piece, in one pass."""

from __future__ import annotations

from nccl_insight.facts.setup.choices import LATENCY_PROTOCOL, ONE_CHANNEL, SIMPLE_PROTOCOL, choices
from tests.by_hand import run

MIB = 1 << 20


def test_choices_are_counted_and_the_unusual_ones_shown() -> None:
    line = {"op": "AllReduce", "comm_id": "c", "input_id": 0, "channels_lo": 0, "channels_hi": 7}
    told = [
        {**line, "algorithm": "Ring", "protocol": "LL", "size_bytes": 16 * MIB, "line": 1},
        {**line, "algorithm": "RING", "protocol": "LL", "size_bytes": 16 * MIB - 1, "line": 2},
        {**line, "algorithm": "Tree", "protocol": "SIMPLE", "size_bytes": 4096, "line": 3},
        {**line, "algorithm": "Tree", "protocol": "Simple", "size_bytes": 0, "line": 4},
        {**line, "algorithm": "NVLS", "protocol": "Simple", "size_bytes": 8, "line": 5},
        {**line, "algorithm": "Ring", "protocol": "Simple", "size_bytes": 64 * MIB, "channels_hi": 0, "line": 6},
        {
            **line,
            "algorithm": "Ring",
            "protocol": "LL",
            "size_bytes": 16 * MIB,
            "channels_hi": 0,
            "op": "Send",
            "line": 7,
        },
    ]
    found = choices(run(tuning_choice=told))
    assert {name: (kind.count, kind.rows["line"].to_list()) for name, kind in found.unusual.items()} == {
        LATENCY_PROTOCOL: (2, [1, 7]), SIMPLE_PROTOCOL: (1, [3]), ONE_CHANNEL: (1, [6]),
    }  # fmt: skip
    assert found.unusual[ONE_CHANNEL].rows["comm_id"].to_list() == ["c"]
    assert sum(found.counts["len"]) == 7


def test_what_is_large_grows_with_the_ranks() -> None:
    """128 ranks at 256 KiB each are 32 MiB."""
    comms = [{"comm_id": "c", "nranks": 128, "ranks_seen": 128}]
    row = {"algorithm": "Ring", "protocol": "LL", "op": "AllReduce", "input_id": 0, "channels_lo": 0, "channels_hi": 7}
    for size, count in ((32 * MIB - 1, 0), (32 * MIB, 1)):
        found = choices(run(communicators=comms, tuning_choice=[{**row, "size_bytes": size, "line": 1}])).unusual
        assert (found[LATENCY_PROTOCOL].count if LATENCY_PROTOCOL in found else 0) == count


def test_without_choices_nothing_is_unusual() -> None:
    found = choices(run())
    assert found.counts.is_empty()
    assert found.unusual == {}

"""Steps that once grew with the square of hosts, settings or members give what they gave."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from nccl_insight import analyze
from nccl_insight.facts.setup.outliers import outliers


def test_many_communicators_of_the_same_members_are_still_a_leak(tmp_path: Path) -> None:
    log = tmp_path / "leak.log"
    lines = []
    for made in range(80):
        for rank in range(2):
            head = f"h{rank}:{10 + rank}:{10 + rank} [0] NCCL INFO "
            lines.append(
                f"{head}ncclCommInitRank comm 0x{made:x}{rank}000 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 "
                f"busId 1000 commId 0x{made + 1:x}ab - Init COMPLETE"
            )
    log.write_text("\n".join(lines) + "\n")
    found = {f.code: f for f in analyze([str(log)]).findings}
    assert "NI112" in found
    assert found["NI112"].hosts == ("h0", "h1")


def test_ranks_that_differ_are_described_by_communicator_and_value() -> None:
    """Two communicators, one of them without an id: whole hosts, hosts in part, lines once, unknown values."""
    rows = [
        ("a", 0, "h0", "x", 0, 1), ("a", 1, "h0", "x", 0, 2), ("a", 2, "h1", "x", 0, 3), ("a", 3, "h1", "y", 0, 4),
        ("a", 3, "h1", "y", 0, 4), ("a", 4, "h2", "y", 0, None), ("a", 5, "h3", None, 0, 6),
        (None, 0, "h0", "y", 1, 7), (None, 1, None, "z", 1, 8),
    ]  # fmt: skip
    schema = {
        "comm_id": pl.String,
        "rank": pl.Int32,
        "host": pl.String,
        "fact": pl.String,
        "input_id": pl.UInt16,
        "line": pl.UInt64,
    }
    first, second = outliers(pl.DataFrame(rows, schema=schema, orient="row"), "fact")
    # Three rows each: the value of the lowest rank is the usual one.
    assert (first.comm_id, first.value, first.majority, first.majority_ranks) == ("a", "y", "x", 3)
    assert (first.ranks, first.hosts, first.whole_hosts) == ((3, 4), ("h1", "h2"), ("h2",))
    assert ([r.line for r in first.lines], [r.line for r in first.usual_lines]) == ([4], [1])
    assert (second.comm_id, second.value, second.majority, second.ranks) == (None, "z", "y", (1,))
    assert (second.hosts, second.whole_hosts) == ((), ())
    assert [(r.input_id, r.line) for r in second.lines] == [(1, 8)]

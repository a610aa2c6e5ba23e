"""The report of NCCL's RAS client (``ncclras`` or port 28028) as text, among lines of text."""

from __future__ import annotations

import polars as pl

from nccl_insight.readers.embedded.ras_text import scan_lines


def found_in(*texts: str) -> pl.DataFrame:
    return scan_lines(
        pl.DataFrame({"line": range(1, len(texts) + 1), "text": texts}, schema={"line": pl.UInt64, "text": pl.String})
    )


def test_ranks_that_differ_are_members_of_what_differs() -> None:
    found = found_in(
        "Communicators... (0.00s)",
        "#0-0 (8ce6b3e0b9e2d2a9) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  3 ranks have launched up to operation 7",
        "  1 rank has launched up to operation 5",
        "  Rank 2 -- GPU 1 managed by process 812 on node gpu07",
        "loss 2.5",
    )
    columns = ["line", "event", "comm_hash", "op", "op_count", "count", "rank", "host", "pid", "gpu", "report"]
    assert found.select(columns).rows() == [
        (4, "mismatch", "8ce6b3e0b9e2d2a9", "AllReduce", 7, 3, None, None, None, None, 1),
        (5, "mismatch", "8ce6b3e0b9e2d2a9", "AllReduce", 5, 1, None, None, None, None, 1),
        (6, "mismatch_member", "8ce6b3e0b9e2d2a9", "AllReduce", 5, None, 2, "gpu07", 812, "1", 1),
    ]


def test_rows_of_the_summary_and_missing_ranks() -> None:
    found = found_in(
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
        "    0         1         2         4         8         8   RUNNING      OK",
        "#1-0 (abc123) INCOMPLETE",
        "  The missing ranks: 3, 5",
        "  2 ranks have not launched any operation",
    )
    assert found.select("event", "group", "rank").rows() == [
        ("group", 0, None), ("incomplete_member", 1, 3), ("incomplete_member", 1, 5), ("incomplete", 1, None),
    ]  # fmt: skip
    assert found.row(0, named=True)["ranks_per_comm"] == 8
    assert found.row(1, named=True)["comm_hash"] == "0000000000abc123"
    assert found.row(3, named=True)["op_count"] == 0


def test_text_without_a_report_gives_nothing() -> None:
    assert found_in("Rank 2 is here", "3 ranks have launched up to operation 7").is_empty()
    assert found_in().is_empty()

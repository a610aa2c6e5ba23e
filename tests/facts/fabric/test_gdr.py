"""GPUDirect RDMA."""

from __future__ import annotations

import polars as pl

from nccl_insight.facts.fabric import gdr
from nccl_insight.tables.run import build_run
from tests.facts.tables_by_hand import _links, two_hosts


def test_gdr_by_host_counts_both_directions() -> None:
    run = two_hosts(
        _links(
            (0, 2, "send", "NET", "IB", True),
            (0, 2, "receive", "NET", "IB", False),
            (2, 0, "send", "NET", "Socket", False),
        )
    )
    rows = gdr.gdr_by_host(run).select("local_host", "total", "direct", "without").rows()
    assert rows == [("a", 1, 1, 0), ("b", 1, 0, 1)]


def test_gdr_lines_of_sockets_are_left_out() -> None:
    lines = pl.DataFrame(
        {
            "host": ["a", "a"], "pid": [1, 1], "scope": ["device", "device"], "network": ["Socket", "IB"],
            "gdr_state": ["Disabled", "Disabled"], "hca_name": ["eth0", "mlx5_0"], "input_id": [0, 0], "line": [1, 2],
        }
    )  # fmt: skip
    assert gdr.gdr_lines(build_run({"gdr": lines})).select("hca", "enabled").rows() == [("mlx5_0", False)]

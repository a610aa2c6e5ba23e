"""Who talks to whom over what."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.facts.who import transports
from tests.facts.tables_by_hand import _links, two_hosts


def test_pairs_fold_channels_and_know_hosts() -> None:
    run = two_hosts(
        _links(
            (0, 1, "send", "P2P", None, False),
            (0, 1, "send", "P2P", None, False),
            (1, 2, "send", "NET", "IB", True),
            (1, 2, "receive", "NET", "IB", False),
        )
    )
    rows = transports.pairs(run).select("src_rank", "dst_rank", "same_host", "gdr", "any_gdr", "n_channels").rows()
    assert rows == [(0, 1, True, False, False, 2), (1, 2, False, False, True, 2)]


@pytest.mark.parametrize(
    ("name", "rdma"),
    [
        ("IB", True),
        ("Socket", False),
        ("FastSocket", False),
        ("AWS Libfabric", True),
        ("IBext_v8", True),
        ("gIB", True),
    ],
)
def test_network_names(name: str, rdma: bool) -> None:
    assert transports.is_rdma(name) is rdma
    frame = pl.DataFrame({"n": [name]}).select(transports.rdma_expr("n"))
    assert frame.item() is rdma

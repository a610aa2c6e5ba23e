"""Checks of settings: expected results follow from NCCL's sources (strtoll, strcmp, parseList)."""

from __future__ import annotations

import pytest

from nccl_insight.advise.settings.check.values import check_value
from nccl_insight.base.model import Severity


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_DISABLE", "true"), ("NCCL_P2P_DISABLE", "yes"), ("NCCL_BUFFSIZE", "8M"), ("NCCL_BUFFSIZE", "4MiB"),
        ("NCCL_ALGO", "Rign"), ("NCCL_PROTO", "Simpel"), ("NCCL_ALGO", "allredcue:ring"), ("NCCL_ALGO", "ring;tree"),
        ("NCCL_COMM_ID", "gpu01"),
    ],
)  # fmt: skip
def test_values_that_break_something(name: str, value: str) -> None:
    issue = check_value(name, value)
    assert issue is not None
    assert (issue.name, issue.severity) == ("env-invalid-value", Severity.ERROR)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_DEBUG", "debug"), ("NCCL_SOCKET_FAMILY", "ipv4"), ("NCCL_P2P_LEVEL", "nvl"), ("NCCL_CROSS_NIC", "5"),
        ("NCCL_IB_TIMEOUT", "50"), ("NCCL_NTHREADS", "100"), ("NCCL_DEBUG_SUBSYS", "INIT,NETWORK"),
        ("NCCL_BUFFSIZE", "8"),
        ("NCCL_CTA_POLICY", "FAST"), ("TORCH_NCCL_BLOCKING_WAIT", "maybe"),
        ("NCCL_MIN_NCHANNELS", "0"),
    ],
)  # fmt: skip
def test_values_that_are_ignored_or_cut(name: str, value: str) -> None:
    issue = check_value(name, value)
    assert issue is not None
    assert issue.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_IB_DISABLE", "1"), ("NCCL_IB_DISABLE", "0x1"), ("NCCL_DEBUG", "info"), ("NCCL_DEBUG", "INFO"),
        ("NCCL_ALGO", "Ring,Tree"), ("NCCL_ALGO", "^NVLS"),
        ("NCCL_ALGO", "ring,collnetdirect;allreduce:tree;broadcast:ring"),
        ("NCCL_PROTO", "LL,LL128,Simple"), ("NCCL_PROTO", "^LL128;allreduce:LL128"), ("NCCL_P2P_LEVEL", "NVL"),
        ("NCCL_P2P_LEVEL", "3"), ("NCCL_NET_GDR_LEVEL", "SYS"), ("NCCL_SOCKET_IFNAME", "^docker,lo"),
        ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"), ("NCCL_DEBUG_SUBSYS", "^NET,init"),
        ("NCCL_CTA_POLICY", "EFFICIENCY|ZERO"),
        ("NCCL_COMM_ID", "[fe80::1%eth0]:5000"), ("NCCL_RAS_ADDR", "localhost:12345"), ("NCCL_CUMEM_ENABLE", "-2"),
        ("NCCL_SOCKET_NTHREADS", ""), ("NCCL_IB_TC", "106"), ("OFI_NCCL_PROTOCOL", "rdma"),
        ("FI_EFA_USE_HUGE_PAGE", "0"),
        ("NCCL_NETDEVS_POLICY", "MAX:2"), ("NCCL_UNKNOWN_THING", "whatever"),
    ],
)  # fmt: skip
def test_good_values_are_silent(name: str, value: str) -> None:
    assert check_value(name, value) is None


def test_releases_matter_for_algorithms() -> None:
    old = check_value("NCCL_ALGO", "Rign", "2.21.5")
    assert old is not None
    assert old.severity is Severity.WARNING
    assert check_value("NCCL_ALGO", "PAT", "2.21.5") is not None
    assert check_value("NCCL_ALGO", "PAT", "2.23.4") is None
    assert check_value("NCCL_ALGO", "Collnet", "2.12.12") is None
    assert check_value("NCCL_ALGO", "Collnet", "2.27.7") is not None

"""Checks of settings: expected results follow from NCCL's sources (strtoll, strcmp, parseList)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import (
    as_number,
    check_deprecated,
    check_name,
    check_pinned,
    check_setting,
    check_together,
    check_too_new,
)
from nccl_insight.advise.settings.check.values import check_value
from nccl_insight.base.model import Severity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        (" 42", 42),
        ("-2", -2),
        ("0x10", 16),
        ("010", 8),
        ("4M", 4),
        ("true", 0),
        ("", 0),
        ("08", 0),
        ("1.", 1),
    ],
)
def test_numbers_as_strtoll_reads_them(text: str, number: int) -> None:
    assert as_number(text) == number


@given(st.integers(min_value=-(2**40), max_value=2**40))
def test_plain_integers_stay_what_they_are(value: int) -> None:
    assert as_number(str(value)) == value


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


def test_names() -> None:
    typo = check_name("NCCL_NSOCS_PERTHREAD")
    assert typo is not None
    assert (typo.severity, typo.expected) == (Severity.WARNING, "NCCL_NSOCKS_PERTHREAD")
    stranger = check_name("NCCL_MY_OWN_THING_ENTIRELY")
    assert stranger is not None
    assert stranger.severity is Severity.INFO
    timeout = check_name("NCCL_TIMEOUT")
    assert timeout is not None
    assert "init_process_group" in timeout.title
    assert check_name("MASTER_PORT") is None


def test_no_listed_name_is_called_unknown() -> None:
    assert [name for name in catalog().variables if check_name(name) is not None] == []


def test_deprecation_follows_the_release() -> None:
    assert check_deprecated("NCCL_IB_GID_INDEX", "2.18.3") is None
    found = check_deprecated("NCCL_IB_GID_INDEX", "2.21.5")
    assert found is not None
    assert (found.name, found.severity) == ("env-deprecated", Severity.INFO)
    gone = check_deprecated("NCCL_IB_CUDA_SUPPORT", "2.27.7")
    assert gone is not None
    assert gone.severity is Severity.WARNING
    assert "NCCL_NET_GDR_LEVEL" in gone.next_step
    assert check_deprecated("NCCL_IB_CUDA_SUPPORT", "2.3.7") is None
    recent = check_deprecated("NCCL_WORK_FIFO_DEPTH", None)
    assert recent is not None
    assert recent.severity is Severity.INFO


def test_names_of_later_releases() -> None:
    found = check_too_new("NCCL_RAS_ENABLE", "2.18.3")
    assert found is not None
    assert "2.24" in found.title
    assert check_too_new("NCCL_RAS_ENABLE", "2.27.7") is None
    assert check_too_new("NCCL_RAS_ENABLE", None) is None


def _names(settings: dict[str, str], version: str | None = None) -> dict[str, Severity]:
    return {issue.name: issue.severity for issue in check_together(settings, version)}


@pytest.mark.parametrize(
    ("settings", "name", "severity"),
    [
        ({"NCCL_IB_DISABLE": "1", "NCCL_NET": "IB"}, "env-contradiction", Severity.ERROR),
        ({"NCCL_ALGO": "NVLS", "NCCL_NVLS_ENABLE": "0"}, "env-contradiction", Severity.ERROR),
        ({"NCCL_CUMEM_ENABLE": "0", "NCCL_MNNVL_ENABLE": "1"}, "env-contradiction", Severity.WARNING),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}, "env-contradiction", Severity.WARNING),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "NVL"}, "env-contradiction", Severity.WARNING),
        ({"NCCL_MIN_NCHANNELS": "16", "NCCL_MAX_NCHANNELS": "8"}, "env-contradiction", Severity.WARNING),
        ({"NCCL_SOCKET_NTHREADS": "16", "NCCL_NSOCKS_PERTHREAD": "8"}, "env-contradiction", Severity.WARNING),
        ({"NCCL_ALGO": "Tree"}, "algorithm-unavailable", Severity.WARNING),
        ({"NCCL_SOCKET_IFNAME": "docker0"}, "ifname-wrong", Severity.WARNING),
        ({"NCCL_SOCKET_IFNAME": "=lo"}, "ifname-wrong", Severity.WARNING),
        ({"NCCL_IB_HCA": "mlx5_0,mlx5_1"}, "env-prefix-match", Severity.INFO),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/tmp/nccl.log"}, "debug-file-shared", Severity.WARNING),
        ({"NCCL_DEBUG_SUBSYS": "ALL"}, "debug-output-insufficient", Severity.INFO),
        ({"NCCL_IB_DISABLE": "1"}, "net-socket-by-config", Severity.INFO),
        ({"NCCL_P2P_DISABLE": "1"}, "p2p-disabled-by-env", Severity.INFO),
    ],
)
def test_settings_together(settings: dict[str, str], name: str, severity: Severity) -> None:
    assert _names(settings).get(name) is severity


@pytest.mark.parametrize(
    "settings",
    [
        {"NCCL_IB_DISABLE": "0", "NCCL_NET": "IB"},
        {"NCCL_ALGO": "Ring,Tree"},
        {"NCCL_ALGO": "allreduce:tree"},
        {"NCCL_ALGO": "^NVLS"},
        {"NCCL_SOCKET_IFNAME": "^docker,lo"},
        {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"},
        {"NCCL_IB_HCA": "mlx5"},
        {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/tmp/nccl.%h.%p.log", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
        {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/dev/stderr"},
        {"NCCL_MIN_CTAS": "8", "NCCL_MAX_CTAS": "16"},
    ],
)
def test_good_settings_are_silent(settings: dict[str, str]) -> None:
    assert _names(settings) == {}


def test_trees_alone_were_fine_before_2_24() -> None:
    assert "algorithm-unavailable" not in _names({"NCCL_ALGO": "Tree"}, "2.21.5")


def test_pinned() -> None:
    assert [i.variable for i in check_pinned({"NCCL_ALGO": "Ring", "NCCL_IB_TIMEOUT": "22"})] == ["NCCL_ALGO"]
    assert list(check_pinned({"NCCL_PROTO": "^LL128"})) == []
    assert list(check_pinned({"NCCL_PROTO": "Simple", "NCCL_FASTRAK_USE_SNAP": "1"})) == []


@given(name=st.sampled_from(sorted(catalog().variables)), value=st.text(max_size=40))
def test_any_value_is_taken(name: str, value: str) -> None:
    for issue in check_setting(name, value):
        assert issue.title
        assert issue.next_step
    list(check_together({name: value}))

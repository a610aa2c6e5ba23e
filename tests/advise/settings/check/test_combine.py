"""Settings that contradict each other, undo each other, or choose something with a cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccl_insight.advise.settings.catalog import catalog
from nccl_insight.advise.settings.check import check_setting
from nccl_insight.advise.settings.check.combine import check_together
from nccl_insight.base.model import Severity


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


@settings(deadline=None)
@given(name=st.sampled_from(sorted(catalog().variables)), value=st.text(max_size=40))
def test_any_value_is_taken(name: str, value: str) -> None:
    for issue in check_setting(name, value):
        assert issue.title
        assert issue.next_step
    list(check_together({name: value}))

"""Interfaces and addresses that no other host can reach."""

from __future__ import annotations

import re

import pytest

from nccl_insight.advise.settings.check.combine import check_together
from nccl_insight.advise.settings.interfaces import VIRTUAL, is_virtual


@pytest.mark.parametrize("name", ["lo", "docker0", "br-1a2b", "veth12ab", "virbr0", "cali12ab", "tun0", "cilium_host"])
def test_virtual_interfaces_have_one_list(name: str) -> None:
    assert re.fullmatch(VIRTUAL, name)
    assert is_virtual(name)
    assert [i for i in check_together({"NCCL_SOCKET_IFNAME": name}) if i.variable == "NCCL_SOCKET_IFNAME"]
    assert not [i for i in check_together({"NCCL_SOCKET_IFNAME": "eth0"}) if i.variable == "NCCL_SOCKET_IFNAME"]
    assert not is_virtual("eth0")
    assert not re.fullmatch(VIRTUAL, "eth0")

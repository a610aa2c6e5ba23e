"""Networks and NICs."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.facts.fabric import networks
from nccl_insight.tables.run import build_run
from tests.facts.tables_by_hand import _links


def test_networks_are_said_or_used() -> None:
    run = build_run(
        {
            "processes": pl.DataFrame({"host": ["a"], "pid": [100], "network": ["IB"], "input_id": [0], "line": [3]}),
            "connections": _links((2, 0, "send", "NET", "Socket", False)),
        }
    )
    assert networks.process_networks(run).select("host", "network").rows() == [("a", "IB"), ("b", "Socket")]
    assert networks.socket_processes(run).select("host", "pid").rows() == [("b", 102)]


def test_listed_interfaces_tell_sockets_where_the_choice_is_missing() -> None:
    devices = {"host": ["a"], "pid": [100], "network": ["Socket"], "name": ["eth0"], "input_id": [0], "line": [4]}
    run = build_run({"net_devices": pl.DataFrame(devices)})
    assert networks.socket_processes(run).select("host", "line").rows() == [("a", 4)]


@pytest.mark.parametrize(
    ("name", "yes"), [("ib0", True), ("ibs108", True), ("eth0", False), ("enp1s0", False), (None, False)]
)
def test_ip_over_infiniband(name: str | None, yes: bool) -> None:
    assert networks.ipoib(name) is yes

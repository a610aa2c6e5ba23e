"""Interfaces: ``ethtool``, ``ethtool -S``, ``ip addr``, ``ip link``, ``ifconfig``."""

from __future__ import annotations

from nccl_insight.readers.host_tools.model import Found, Output, described


def read(name: str, text: str, command: str = "") -> tuple[str, dict[tuple[str | None, str], str]]:
    tool = next(tool for tool in described() if tool.name == name)
    found = Found()
    said = tool.read(Output(tool, list(enumerate(text.splitlines(), 1)), command=command), found)
    return said, {(device, name): value for _, _, device, name, value, _, _ in found.facts}


def test_interfaces_have_a_state_an_address_and_a_size_of_packets() -> None:
    said, facts = read(
        "ip addr",
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default\n"
        "    inet 127.0.0.1/8 scope host lo\n"
        "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default\n"
        "    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\n"
        "    inet6 fe80::1/64 scope link\n"
        "3: eth1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq master bond0 state DOWN group default\n",
    )
    assert facts["eth0", "net.address"] == "10.0.0.1/24"
    assert facts["eth0", "net.address6"] == "fe80::1/64"
    assert [facts[name, "net.state"] for name in ("lo", "eth0", "eth1")] == ["UP", "UP", "NO-CARRIER"]
    assert facts["eth1", "net.master"] == "bond0"
    assert facts["eth0", "net.mtu"] == "9000"
    assert said == "eth0 up 10.0.0.1 mtu 9000, eth1 no-carrier mtu 1500, lo up 127.0.0.1 mtu 65536"


def test_the_speed_of_an_interface_and_whether_it_has_a_link() -> None:
    said, facts = read(
        "ethtool",
        "Settings for eth0:\n\tSpeed: 25000Mb/s\n\tDuplex: Full\n\tAuto-negotiation: on\n\tLink detected: no\n",
    )
    assert facts["eth0", "net.speed"] == "25000"
    assert facts["eth0", "net.link_detected"] == "no"
    assert facts["eth0", "net.duplex"] == "Full"
    assert said == "eth0 25000Mb/s, link no"


def test_counters_of_many_queues_are_left_out() -> None:
    _, facts = read("ethtool -S", "NIC statistics:\n     rx_discards_phy: 17\n     rx0_packets: 5\n", "ethtool -S eth2")
    assert {device for device, _ in facts} <= {"eth2"}
    assert not any("rx0" in name for _, name in facts)
    assert "17" in facts.values()

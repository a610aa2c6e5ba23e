"""``lspci -vv``: links, access control services, which bridge a device stands under."""

from __future__ import annotations

from nccl_insight.readers.host_tools.model import Found, Output, described

TEXT = """1b:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)
	LnkCap:	Port #0, Speed 32GT/s, Width x16, ASPM not supported
	LnkSta:	Speed 16GT/s (downgraded), Width x16 (ok)
	NUMA node: 1
	Kernel driver in use: nvidia
1a:00.0 PCI bridge: Broadcom Device (prog-if 00)
	Bus: primary=19, secondary=1b, subordinate=1c, sec-latency=0
	ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+
1c:00.0 Ethernet controller: Mellanox Technologies
	Capabilities: <access denied>"""


def read(text: str) -> tuple[str, Found]:
    tool = next(tool for tool in described() if tool.name == "lspci")
    found = Found()
    return tool.read(Output(tool, list(enumerate(text.splitlines(), 1))), found), found


def test_links_bridges_and_access_control_are_facts_of_their_devices() -> None:
    said, found = read(TEXT)
    facts = {(device, name): (value, line) for line, _, device, name, value, _, _ in found.facts}
    assert facts["0000:1b:00.0", "pci.link_max_speed"] == ("32", 2)
    assert facts["0000:1b:00.0", "pci.link_speed"] == ("16", 3)
    assert facts["0000:1b:00.0", "pci.link_downgraded"] == ("speed", 3)
    assert facts["0000:1b:00.0", "pci.numa_node"] == ("1", 4)
    assert facts["0000:1a:00.0", "pci.buses"] == ("1b-1c", 7)
    assert [facts[f"0000:{bus}:00.0", "pci.kind"][0] for bus in ("1b", "1a", "1c")] == ["gpu", "bridge", "nic"]
    assert said == (
        "1 GPU, 1 NIC, 1 bridge, links: 1b:00.0 16 GT/s x16, ACS redirects requests at 1a:00.0, "
        "capabilities of 1 device hidden (run it as root)"
    )


def test_without_a_device_nothing_is_said_of_one() -> None:
    said, found = read("pcilib: Cannot open /proc/bus/pci")
    assert said == "0 devices"
    assert found.facts == []

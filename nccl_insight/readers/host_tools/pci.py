"""``lspci -vv``: links, access control services, which bridge a device stands under."""

import re
from collections import Counter
from typing import Final

from nccl_insight.base import late, texts
from nccl_insight.readers.host_tools.model import Found, Output, bus_id, count, listed

_RE: Final = texts.compiled(__file__)

_HEAD: Final = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] "
_DEVICE: Final = late.compiled(
    rf"(?P<id>{_HEAD[:-1]}) \"?(?P<class>[A-Z0-9][^:\"\[]{{2,60}}?)(?: \[[0-9a-f]{{4}}\])?(?:: |\" )(?P<name>.*)"
)
_PLAIN: Final = (
    (late.compiled(r"NUMA node: ([0-9]+)"), "pci.numa_node", None),
    (late.compiled(r"Kernel driver in use: (\S+)"), "pci.driver", None),
    (late.compiled(r"MaxPayload ([0-9]+) bytes, MaxReadReq"), "pci.max_payload", "bytes"),
    (_RE["acs"], "pci.acs", None),
    (_RE["type"], "pci.port", None),
)


def _lspci(out: Output, found: Found) -> str:
    device: str | None = None
    kinds: dict[str | None, str] = {}
    says: list[str] = []
    redirected: list[str] = []
    hidden = 0
    for line, text in out.lines:
        if head := _DEVICE.match(text):
            device = bus_id(head["id"])
            kinds[device] = _kind(head["class"], head["name"])
            for name, value in (("class", head["class"]), ("name", head["name"]), ("kind", kinds[device])):
                found.fact(line, device, f"pci.{name}", value)
            continue
        hidden += "<access denied>" in text
        shown = (device or "a device")[5:]
        if link := _RE["link"].search(text):
            _link(found, line, device, link)
            if link[1] == "Sta" and kinds.get(device) in ("gpu", "nic"):
                says.append(f"{shown} {link[2]} GT/s x{link[4]}")
        elif buses := _RE["buses"].search(text):
            found.fact(line, device, "pci.buses", f"{buses[2]}-{buses[3]}")
        redirected += [shown] if "ACSCtl:" in text and "ReqRedir+" in text else []
        for pattern, name, unit in _PLAIN:
            if match := pattern.search(text):
                found.fact(line, device, name, match[1], unit)
    found.unread += hidden
    words = {"gpu": "GPU", "nic": "NIC", "bridge": "bridge"}
    numbers = Counter(kinds.values())
    parts = [count(numbers[kind], word) for kind, word in words.items() if numbers[kind]]
    parts += [f"links: {listed(says)}"] if says else []
    parts += [f"ACS redirects requests at {listed(redirected)}"] if redirected else []
    parts += [f"capabilities of {count(hidden, 'device')} hidden (run it as root)"] if hidden else []
    return ", ".join(parts) or count(len(kinds), "device")


def _link(found: Found, line: int, device: str | None, link: re.Match[str]) -> None:
    """What a link can do, or does: its speed and width, and which of them is less than it can."""
    what = "link_max" if link[1] == "Cap" else "link"
    found.fact(line, device, f"pci.{what}_speed", link[2], "GT/s")
    found.fact(line, device, f"pci.{what}_width", link[4], "lanes")
    if "downgraded" in (link[3], link[5]):
        found.fact(line, device, "pci.link_downgraded", "speed" if link[3] == "downgraded" else "width")


def _kind(class_: str, name: str) -> str:
    if re.search(r"^(?:3D|VGA(?: compatible)?|Display) controller|Processing accelerators", class_) and re.search(
        r"NVIDIA|AMD|ATI|Intel|Instinct", name
    ):
        return "gpu"
    if re.search(r"Ethernet|Network|Infiniband", class_, re.I):
        return "nic"
    return "bridge" if class_.startswith("PCI bridge") else "other"

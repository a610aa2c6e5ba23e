"""``lspci -vv``: links, access control services, which bridge a device stands under."""

import re
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
)


def _lspci(out: Output, found: Found) -> str:
    device: str | None = None
    kinds: dict[str, str] = {}
    says: list[str] = []
    redirected: list[str] = []
    hidden = 0
    for line, text in out.lines:
        head = _DEVICE.match(text)
        if head:
            device = bus_id(head["id"])
            kind = _kind(head["class"], head["name"])
            kinds[device or ""] = kind
            found.fact(line, device, "pci.class", head["class"])
            found.fact(line, device, "pci.name", head["name"])
            found.fact(line, device, "pci.kind", kind)
            continue
        link = _RE["link"].search(text)
        if link:
            what = "link_max" if link[1] == "Cap" else "link"
            found.fact(line, device, f"pci.{what}_speed", link[2], "GT/s")
            found.fact(line, device, f"pci.{what}_width", link[4], "lanes")
            if "downgraded" in (link[3], link[5]):
                found.fact(line, device, "pci.link_downgraded", "speed" if link[3] == "downgraded" else "width")
            if link[1] == "Sta" and kinds.get(device or "") in ("gpu", "nic"):
                says.append(f"{(device or '')[5:]} {link[2]} GT/s x{link[4]}")
        elif acs := _RE["acs"].search(text):
            found.fact(line, device, "pci.acs", acs[1])
            if "ReqRedir+" in acs[1]:
                redirected.append((device or "a device")[5:])
        elif buses := _RE["buses"].search(text):
            found.fact(line, device, "pci.buses", f"{buses[2]}-{buses[3]}")
        elif (kind_ := _RE["type"].search(text)) and device:
            found.fact(line, device, "pci.port", kind_[1])
        else:
            hidden += "<access denied>" in text
            for pattern, name, unit in _PLAIN:
                if match := pattern.search(text):
                    found.fact(line, device, name, match[1], unit)
    found.unread += hidden
    parts = [
        count(sum(k == kind for k in kinds.values()), word)
        for kind, word in (("gpu", "GPU"), ("nic", "NIC"), ("bridge", "bridge"))
        if kind in kinds.values()
    ]
    parts += [f"links: {listed(says)}"] if says else []
    parts += [f"ACS redirects requests at {listed(redirected)}"] if redirected else []
    parts += [f"capabilities of {count(hidden, 'device')} hidden (run it as root)"] if hidden else []
    return ", ".join(parts) or count(len(kinds), "device")


def _kind(class_: str, name: str) -> str:
    if re.search(r"^(?:3D|VGA(?: compatible)?|Display) controller|Processing accelerators", class_) and re.search(
        r"NVIDIA|AMD|ATI|Intel|Instinct", name
    ):
        return "gpu"
    if re.search(r"Ethernet|Network|Infiniband", class_, re.I):
        return "nic"
    return "bridge" if class_.startswith("PCI bridge") else "other"

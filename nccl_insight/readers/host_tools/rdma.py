"""RDMA devices, their ports, GIDs and counters: ibstat, ibv_devinfo, show_gids, rdma, perfquery, sysfs and more."""

import re
from typing import Final

from nccl_insight.base import texts
from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, count, listed, number, slug

_RE: Final = texts.compiled(__file__)

_STATES: Final = (
    ("Active", r"\bactive\b(?!_defer)|PORT_ACTIVE\b"),
    ("Down", r"\bdown\b|PORT_DOWN"),
    ("Initializing", r"\binit"),
    ("Armed", r"\barmed|PORT_ARMED"),
)


def _port(found: Found, line: int, device: str, key: str, value: str) -> None:
    """One fact of a device or port, with its value in one form for all tools."""
    name = vocabulary.table("ports").get(slug(key))
    if name is None:
        return
    unit = None
    if name == "port.state":
        value = next((s for s, p in _STATES if re.search(p, value.replace("PORT_", ""), re.I)), value)
    elif name == "port.physical_state":
        value = re.sub(r"^[0-9]+:\s*|\s*\([0-9]+\)$|_", "", value).strip().lower()
    elif name in ("port.rate", "port.effective_rate"):
        value, unit = f"{number(value) or 0:g}", "Gbit/s"
    elif name.endswith("mtu"):
        value, unit = value.split()[0], "bytes"
    elif name == "device.transport":
        value = value.split(" (")[0]
    found.fact(line, device, name, value, unit)


def _ports(found: Found) -> str:
    """Of the output just read, what its ports are."""
    ports: dict[str, dict[str, str]] = {}
    for _, host, device, name, value, _, tool in found.facts:
        if tool == found.tool and host == found.host and name.startswith("port.") and device:
            ports.setdefault(device, {})[name] = value
    said = []
    for device, port in sorted(ports.items(), key=lambda of: of[1].get("port.state") == "Active"):
        state = port.get("port.state", "")
        physical = "" if state == "Active" else port.get("port.physical_state", "")
        rate = f"{port['port.rate']} Gb/s" if "port.rate" in port else ""
        said.append(" ".join(filter(None, (device, state, physical, rate, port.get("port.netdev", "")))))
    return f"{count(len(ports), 'port')}: {listed(said, 8)}" if ports else "no port"


def _ibstat(out: Output, found: Found) -> str:
    device = port = ""
    for item in shapes.tree(out.lines):
        if (match := re.match(r"(?:CA|Switch|Router|iWARP RNIC|RNIC|\?\?\?) '(.+)'", item.key)) or (
            match := re.match(r"(?:CA|Switch|Router): '(.+)'", f"{item.key}: {item.value}")
        ):
            device = port = match[1]
        elif match := re.fullmatch(r"Port ([0-9]+)", item.key):
            port = f"{device}/{match[1]}"
        elif match := re.match(r"Infiniband device '(.+)' port ([0-9]+) status", item.key):
            device, port = match[1], f"{match[1]}/{match[2]}"
        else:
            _port(found, item.line, port, item.key, item.value)
    return _ports(found)


def _devinfo(out: Output, found: Found) -> str:
    device = port = ""
    gids = 0
    for item in shapes.tree(out.lines):
        if item.key == "hca_id":
            device = port = item.value
        elif item.key == "port" and item.value.isdigit():
            port = f"{device}/{item.value}"
        elif match := re.fullmatch(r"GID\[\s*([0-9]+)\]", item.key):
            gids += found.fact(item.line, port, f"gid.{match[1]}", item.value)
        else:
            _port(found, item.line, port, item.key, item.value)
    return _ports(found) + (f"; {count(gids, 'GID')}" if gids else "")


def _gids(out: Output, found: Found) -> str:
    total = 0
    for line, text in out.lines:
        if match := _RE["gid"].match(text):
            total += 1
            address = f"{match['gid']} {match['ver'] or ''} {match['ip'] or ''} {match['net'] or ''}"
            found.fact(line, f"{match['dev']}/{match['port']}", f"gid.{match['index']}", address)
        elif match := re.match(r"n_gids_found=([0-9]+)", text):
            found.fact(line, None, "gid.count", match[1])
            return f"{match[1]} GIDs found"
    return f"{total} GIDs found"


def _rdma_link(out: Output, found: Found) -> str:
    for line, text in out.lines:
        words = text.split()
        if words[:1] == ["link"] or re.match(r"[0-9]+/[0-9]+:", text):
            at = 1
            device = words[1].rstrip(":") if words[0] == "link" else words[0].split(":")[-1] or words[1].rstrip(":")
            if words[0] != "link":
                at = words.index(device) if device in words else 0
            pairs = dict(zip(words[at + 1 :: 2], words[at + 2 :: 2], strict=False))
            for key, value in pairs.items():
                if key == "netdev":
                    found.fact(line, device, "port.netdev", value)
                else:
                    _port(found, line, device, key, value)
    return _ports(found)


def _counters(found: Found, line: int, device: str | None, name: str, value: str) -> int:
    value = value.strip()
    if not re.fullmatch(r"[0-9]+", value):
        found.fact(line, device, f"counter.{name}", "N/A")
        return 0
    return int(found.fact(line, device, f"counter.{name}", value))


def _said(found: Found, before: int) -> str:
    """Counters that are not zero and tell of trouble first."""
    rows = [(f[2], f[3].removeprefix("counter."), f[4]) for f in found.facts[before:]]
    worth = [r for r in rows if r[2] != "0" and re.search(NOTABLE, r[1], re.I)]
    devices = listed(sorted({r[0] for r in rows if r[0]}), 8)
    parts = [f"{count(len(rows), 'counter')} of {devices}" if devices else count(len(rows), "counter")]
    told = [f"{d + ' ' if d else ''}{n} {int(v):,}" for d, n, v in worth]
    parts += [listed(told, 8) if told else "none tells of trouble"] if rows else []
    return "; ".join(parts)


#: Names of counters that count trouble, in perfquery, sysfs, ethtool and rdma.
NOTABLE: Final = (
    r"err|drop|discard|down|recover|symbol|out_of_seq|timeout|retry|nak|retrans|wait|pause(?!_duration)|cnp|ecn"
    r"|out_of_buffer|overrun|"
    r"congest|slow_restart|crc|fault|flap"
)


def _rdma_statistic(out: Output, found: Found) -> str:
    before = len(found.facts)
    for line, text in out.lines:
        words = text.split()
        if words[:1] == ["link"] and len(words) > 2:
            for key, value in zip(words[2::2], words[3::2], strict=False):
                _counters(found, line, words[1], slug(key), value)
    return _said(found, before)


_SELECTS: Final = ("PortSelect", "CounterSelect", "CounterSelect2")


def _perfquery(out: Output, found: Found) -> str:
    before, device = len(found.facts), None
    for line, text in out.lines:
        if match := re.match(r"#.*?(?:counters|info): (?:Lid|LID) ([0-9]+).* port ([0-9]+)", text):
            device = f"lid {match[1]}/{match[2]}"
        elif match := re.match(r"(LinkState|PhysLinkState|LinkWidthActive|LinkSpeed(?:Ext)?Active):\.*(\S.*)", text):
            _port(found, line, device or "", match[1], match[2])
        elif (match := re.match(r"([A-Za-z0-9]+):\.*\s*(\S+)", text)) and match[1] not in _SELECTS:
            _counters(found, line, device, _words(match[1]), match[2])
    return _said(found, before) if any(f[3].startswith("counter.") for f in found.facts[before:]) else _ports(found)


def _words(name: str) -> str:
    """``PortXmitWait`` as sysfs has it: port_xmit_wait."""
    return slug(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name))


def _sysfs(out: Output, found: Found) -> str:
    before = len(found.facts)
    for line, text in out.lines:
        if match := _RE["sysfs"].match(text):
            device = f"{match['dev']}/{match['port']}"
            if "counters/" in text:
                _counters(found, line, device, match["name"], match["value"])
            else:
                _port(found, line, device, match["name"], match["value"])
    return _said(found, before) if any(f[3].startswith("counter.") for f in found.facts[before:]) else _ports(found)


def _netdev(out: Output, found: Found) -> str:
    for line, text in out.lines:
        if match := re.match(r"(?:\S+ )?(\S+) port ([0-9]+)(?: \([^)]*\))* ==> (\S+) \((Up|Down)\)", text):
            found.fact(line, f"{match[1]}/{match[2]}", "port.netdev", match[3])
            found.fact(line, match[3], "net.state", match[4].upper())
            # An IPoIB interface that is down says nothing of its port.
            if not match[3].startswith("ib"):
                _port(found, line, f"{match[1]}/{match[2]}", "state", match[4].replace("Up", "Active"))
    return _ports(found)


def _devices(out: Output, found: Found) -> str:
    matches = [(line, m) for line, text in out.lines if (m := re.match(r"\s+(\S+)\s+([0-9a-f]{16})", text))]
    for line, match in matches:
        found.fact(line, match[1], "device.guid", match[2])
    return f"{count(len(matches), 'device')}: {listed([m[1] for _, m in matches], 8)}"


def _no_device(out: Output, found: Found) -> str:
    found.fact(out.line, None, "rdma.devices", "0")
    return "no RDMA device"

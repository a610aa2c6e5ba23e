"""Tools whose output is keys with values, and nothing that other modules read: a row a tool."""

import re
from typing import Final

from nccl_insight.base import late, texts
from nccl_insight.readers.host_tools import rdma, shapes
from nccl_insight.readers.host_tools.model import Found, Lines, Output, bus_id, count, listed, slug

_RE: Final = texts.compiled(__file__)

_PAIR: Final = late.compiled(r"(?:#\s*)?(?P<key>[^:=]{0,80}?[^:=\s])\s{0,80}(?::\s+|\s=\s|:$)(?P<value>.*)$")


def _pairs(out: Output, found: Found) -> str:
    """Each key with a value is a fact."""
    device = None
    words: list[str] = []
    lines: Lines = [(n, t.removeprefix("#")) for n, t in out.lines]
    for item in shapes.tree(lines, _PAIR):
        if not item.value:
            continue
        if out.tool.device and re.fullmatch(out.tool.device, item.key):
            device = item.value
        read = found.fact(item.line, device, f"{out.tool.prefix}.{slug(item.key)}", item.value)
        if read and re.search(out.tool.telling, item.key):
            words.append(f"{item.key} {item.value}")
    return listed(list(dict.fromkeys(words)), 8) or count(len(out.lines), "line")


_LINK: Final = (
    (r"State", "port.state"), (r"Physical state", "port.physical_state"), (r"Recommendation", "port.recommendation"),
    (r"Symbol Errors", "counter.symbol_error"), (r"Link Down Counter", "counter.link_downed"),
    (r"Link Error Recovery Counter", "counter.link_error_recovery"),
)  # fmt: skip


def _mlxlink(out: Output, found: Found) -> str:
    """State of a port, what the firmware recommends, counters of the wire; all other keys by their names."""
    device = out.argument(r"(?:-d|--device)\s+(\S+)")
    words: list[str] = []
    for item in shapes.tree(out.lines):
        if not item.value:
            continue
        name = next((n for key, n in _LINK if key == item.key), f"mlxlink.{slug(item.key)}")
        value = item.value
        if name == "port.state":
            found.fact(item.line, device, "port.physical_state", value.lower())
            value = "Active" if value == "Active" else "Down"
        if name == "port.physical_state":
            continue
        found.fact(item.line, device, name, value)
        if item.key in ("State", "Speed", "Recommendation", "Effective Physical BER"):
            words.append(f"{item.key} {item.value}")
    return listed(words, 6)


_UNIT: Final = late.compiled(r"(?:[●○×x*↻] )?(?P<name>[\w@.\\-]+\.(?:service|socket|mount|timer))(?: - (?P<what>.*))?$")
_JOURNAL: Final = r"[A-Z][a-z]{2} +[0-9]+ [0-9:]{8} (?P<host>\S+) (?P<who>[\w.-]+)(?:\[[0-9]+\])?: (?P<text>.*)"


def _systemctl(out: Output, found: Found) -> str:
    """State of a service, and the lines of its log that tell of trouble."""
    unit, words = "", []
    for line, text in out.lines:
        if match := _UNIT.match(text):
            unit = match["name"].removesuffix(".service")
        elif match := re.match(r"\s+(Loaded|Active|Status): \"?(.*?)\"?$", text):
            found.fact(line, unit, f"service.{match[1].lower()}", match[2])
            words += [f"{unit} {match[2].split(' since')[0]}"] if match[1] != "Loaded" else []
        elif match := re.match(_JOURNAL, text):
            found.host = found.host or match["host"]
            if match["who"] != "systemd" and _RE["trouble"].search(match["text"]):
                found.fact(line, unit, "service.message", match["text"])
                words.append(match["text"][:120])
    return listed(words, 4)


def _lstopo(out: Output, found: Found) -> str:
    """Devices with their PCI address and the NUMA node or package they are in."""
    node, address = "", ""
    seen: dict[str, list[str]] = {}
    for line, text in out.lines:
        if match := re.search(r"(?:NUMANode|Package) L#[0-9]+ \(?P?#?([0-9]+)?", text):
            node = match[1] or node
        if match := re.match(r"\s*PCI (?:L#[0-9]+ )?(?:\(busid=)?(\S+?)[ )]", text):
            address = bus_id(match[1]) or ""
        elif match := re.match(r'\s*(?:Net|OpenFabrics|CoProc|GPU|Net\([^)]*\))\S* (?:L#[0-9]+ )?\(?"([^"]+)"', text):
            found.fact(line, match[1], "topology.numa_node", node)
            found.fact(line, match[1], "pci.address", address)
            seen.setdefault(node, []).append(match[1])
    return "; ".join(f"NUMA node {n or '?'}: {listed(d, 12)}" for n, d in sorted(seen.items())) or "no I/O device"


def _iperf(out: Output, found: Found) -> str:
    words = []
    for line, text in out.lines:
        match = _RE["interval"].match(text)
        if match and match["end"]:
            gbit = float(match["rate"]) * {"K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}.get(match["scale"], 1e-9)
            found.fact(line, match["end"], "tcp.bandwidth", f"{gbit:g}", "Gbit/s")
            found.fact(line, match["end"], "tcp.retransmits", match["again"] or "")
            words.append(f"{match['end']} {match['rate']} {match['scale']}bits/sec")
    return listed(words, 4) or count(len(out.lines), "line")


_WIRE: Final = late.compiled(r"(?P<state>[^)]*)\)==>[^(]*(?:\((?P<note>[^)]*)\))?")


def _links(out: Output, found: Found) -> str:
    """iblinkinfo: the two ends of each link; a port without a peer is one that nothing is plugged into."""
    name, total, odd = "", 0, []
    for line, text in out.lines:
        if match := re.match(r"(?:CA|Switch|RT): (?:0x[0-9a-f]+ )?(.*?):\s*$", text):
            name = match[1]
        elif match := _WIRE.match(text.partition("==(")[2]):
            total += 1
            port = re.search(r"([0-9]+)\[[^]]{0,9}\] ==\(", text[:200])
            device, state = f"{name} port {port[1] if port else '?'}", match["state"].strip()
            note = (match["note"] or "").strip()
            found.fact(line, device, "link.state", state)
            found.fact(line, device, "link.could_be", note)
            odd += [f"{device} {note}"] if note else []
            odd += [f"{device} {state}"] if "LinkUp" not in state else []
    return "; ".join([count(total, "link"), *odd[:6]])


def _ibdiagnet(out: Output, found: Found) -> str:
    """Warnings and errors of its stages, and the counters that it prints by port."""
    words: list[str] = []
    device = None
    for line, text in out.lines:
        if match := re.match(r"-([WE])- (.*)", text):
            kind = "error" if match[1] == "E" else "warning"
            found.fact(line, None, f"ibdiagnet.{kind}", match[2])
            words.append(match[2])
        if match := re.match(r"(?:-[EW]- )?.*?lid=(0x[0-9a-f]+).*? (\S+/P?[0-9]+)\s*$", text):
            device = match[2]
        elif match := re.match(r"\s+([a-z_]+)\s*:\s*([0-9]+)\b", text):
            rdma._counters(found, line, device, match[1], match[2])
            words.append(f"{device or ''} {match[1]} {match[2]}".strip())
    return listed(words, 6) or "no warning and no error"


def _strace(out: Output, found: Found) -> str:
    words = []
    for line, text in out.lines:
        if match := re.match(r"(?:\[pid +([0-9]+)\] )?(?:[0-9:.]+ )?(\w+)\((.*)\)\s+= (-?\S+)(?: (E[A-Z]+).*)?", text):
            who, said = f"pid {match[1]}" if match[1] else None, f"{match[3]} = {match[4]} {match[5] or ''}"
            found.fact(line, who, f"call.{match[2]}", said)
            words.append(f"{match[2]} {match[5] or match[4]}")
    return listed(words[-4:], 4) or "in no call of the system"


def _tree(out: Output, found: Found) -> str:
    """lspci -t: what hangs on each root, without addresses of their own."""
    gpus = nics = 0
    for line, text in out.lines:
        for name in re.findall(r"(?<=[0-9a-f]  )(.*)$", text):
            gpu = bool(re.search(r"NVIDIA.*\[|Instinct", name))
            nic = not gpu and bool(re.search(r"Mellanox|ConnectX|Broadcom.*57|EFA", name))
            if gpu or nic:
                found.fact(line, None, f"pci.tree.{'gpu' if gpu else 'nic'}", name)
            gpus, nics = gpus + gpu, nics + nic
    return f"{count(gpus, 'GPU')}, {count(nics, 'NIC')}"


def _first(out: Output, found: Found) -> str:
    """One value, that of the pattern's group."""
    for line, text in out.lines:
        if match := re.search(out.tool.telling, text):
            found.fact(line, None, out.tool.prefix, match[1])
            return match[1]
    return ""

"""Interfaces: ``ethtool``, ``ethtool -S``, ``ip addr``, ``ip link``, ``ifconfig``."""

import re
from typing import Final

from nccl_insight.readers.host_tools import rdma, shapes
from nccl_insight.readers.host_tools.model import Found, Output, listed, slug


def _statistics(out: Output, found: Found) -> str:
    before = len(found.facts)
    device = out.argument(r"(?:-S|--statistics)\s+(\S+)") or out.argument(
        r"((?:en[ospx]|eth|ib|bond|rdma)[a-z0-9]*[0-9][a-z0-9]*)"
    )
    for line, text in out.lines:
        if match := re.match(r"\s+(?:\[[0-9]+\]: )?([A-Za-z0-9_ .\[\]-]+?):\s*(\S+)\s*$", text):
            name = slug(match[1])
            if re.match(r"[rt]x_?(?:queue_?)?[0-9]+_|ch[0-9]+_|[rt]x-[0-9]+\.", name):
                continue  # one of many queues: the sums stand above
            rdma._counters(found, line, device, name, match[2])
    return rdma._said(found, before)


def _settings(out: Output, found: Found) -> str:
    device = None
    says: list[str] = []
    for item in shapes.tree(out.lines):
        if match := re.match(r"Settings for (\S+)", item.key):
            device = match[1]
        elif item.key == "Speed" and found.fact(
            item.line, device, "net.speed", re.sub(r"Mb/s", "", item.value), "Mbit/s"
        ):
            says.append(f"{device} {item.value}")
        elif item.key in ("Link detected", "Duplex", "Port", "Auto-negotiation"):
            found.fact(item.line, device, f"net.{slug(item.key)}", item.value)
            says += [f"link {item.value}"] if item.key == "Link detected" else []
    return listed(says, 8) or str(device)


_FLAGS: Final = re.compile(
    r"(?:[0-9]+: )?(?P<name>[A-Za-z][\w.@-]*?)(?:@\S+)?: (?:flags=[0-9]+)?<(?P<flags>[^>]*)>(?P<rest>.*)"
)


def _ip(out: Output, found: Found) -> str:
    device = ""
    interfaces: dict[str, dict[str, str]] = {}
    for line, text in out.lines:
        if match := _FLAGS.match(text):
            device = match["name"]
            seen = interfaces.setdefault(device, {})
            flags = match["flags"].split(",")
            state = re.search(r"\bstate (\S+)", match["rest"])
            up = "UP" if "LOWER_UP" in flags or "RUNNING" in flags else "DOWN"
            up = state[1] if state and state[1] != "UNKNOWN" else up
            seen["state"] = "NO-CARRIER" if "NO-CARRIER" in flags else up
            found.fact(line, device, "net.state", seen["state"])
            if mtu := re.search(r"\bmtu ([0-9]+)", match["rest"]):
                seen["mtu"] = mtu[1]
                found.fact(line, device, "net.mtu", mtu[1], "bytes")
            if master := re.search(r"\bmaster (\S+)", match["rest"]):
                found.fact(line, device, "net.master", master[1])
        elif device and (address := re.match(r"\s+inet6? (?:addr:)?([0-9a-fA-F.:]+)(?:/([0-9]+))?", text)):
            name = "net.address" if "." in address[1] else "net.address6"
            found.fact(line, device, name, address[1] + (f"/{address[2]}" if address[2] else ""))
            if name == "net.address":
                interfaces[device].setdefault("address", address[1])
        elif brief := re.match(r"([a-z][\w.@-]*)\s+(UP|DOWN|UNKNOWN|LOWERLAYERDOWN)\s*(.*)", text):
            name = brief[1].split("@")[0]
            seen = interfaces.setdefault(name, {"state": brief[2]})
            found.fact(line, name, "net.state", brief[2])
            for address_ in re.findall(r"[0-9]+(?:\.[0-9]+){3}/[0-9]+", brief[3]):
                found.fact(line, name, "net.address", address_)
                seen.setdefault("address", address_.split("/")[0])
    said = [
        " ".join(
            filter(None, (n, v.get("state", "").lower(), v.get("address", ""), f"mtu {v['mtu']}" if "mtu" in v else ""))
        )
        for n, v in sorted(interfaces.items(), key=lambda kv: (kv[0] == "lo", "address" not in kv[1]))
    ]
    return listed(said, 6)

"""Logs of daemons around the GPUs: fabric manager, IMEX, the kernel, switches; and ``nvidia-imex-ctl``.

What their lines mean stands in the grammar. Here it is only told that a text is such a log, and what it spans.
"""

import re
from typing import Final

from nccl_insight.base import texts
from nccl_insight.readers.host_tools.model import Found, Output, count, listed

_RE: Final = texts.compiled(__file__)


def _daemon(out: Output, found: Found) -> str:
    first = last = ""
    bad: list[str] = []
    kinds: dict[str, int] = {}
    for line, text in out.lines:
        if match := _RE["daemon"].match(text):
            first, last = first or match["time"], match["time"]
            if match["level"] not in ("INFO", "DEBUG"):
                found.fact(line, None, f"daemon.{match['level'].lower()}", match["text"])
                bad.append(match["text"])
            if version := re.search(r"(?:version|Version):? ([0-9]{3}\.[0-9.]+)", match["text"]):
                found.fact(line, None, "daemon.version", version[1])
            word = " ".join(match["text"].split()[:2])
            kinds[word] = kinds.get(word, 0) + 1
    said = [f"{word} ({n})" for word, n in sorted(kinds.items(), key=lambda kv: -kv[1])[:3]]
    span = f" from {first} to {last}" if first else ""
    trouble = f"errors: {listed(bad, 3)}" if bad else f"no error; {listed(said)}"
    return f"{count(len(out.lines), 'line')}{span}; {trouble}"


def _dmesg(out: Output, found: Found) -> str:
    who: dict[str, int] = {}
    for line, text in out.lines:
        if link := _RE["link"].search(text):
            state = (link[3] or link[5] or link[6]).lower()
            device = link[2] or link[1] or link[4]
            found.fact(line, device, "kernel.link", {"lost": "down", "gained": "up"}.get(state, state))
        elif event := re.search(r"mlx5_core (\S+): Port module event: (.*)", text):
            found.fact(line, event[1], "kernel.module", event[2])
        if version := re.search(r"NVRM: loading NVIDIA .*?  ([0-9]{3}\.[0-9.]+)", text):
            found.fact(line, None, "host.driver_version", version[1])
        if match := _RE["driver"].search(text):
            who[match[1]] = who.get(match[1], 0) + 1
    names = [f"{name} {n}" for name, n in sorted(who.items(), key=lambda kv: -kv[1])]
    return "; ".join([count(len(out.lines), "line"), *([listed(names, 6)] if names else [])])


def _ras(out: Output, found: Found) -> str:
    """What the table of communicators says; the facts are rows of the table ``ras``."""
    says = []
    for line, text in out.lines:
        if match := _RE["group"].match(text):
            found.fact(line, f"group {match[1]}", "ras.ranks", match[3])
            found.fact(line, f"group {match[1]}", "ras.status", match[4])
            found.fact(line, f"group {match[1]}", "ras.errors", match[5])
            says.append(f"{match[3]} ranks on {match[2]} nodes {match[4]} {match[5]}")
        elif match := re.match(r"NCCL version (\S+) compiled with CUDA (\S+)", text):
            found.fact(line, None, "nccl.version", match[1])
    return listed(says, 4) or count(len(out.lines), "line")


def _imex(out: Output, found: Found) -> str:
    says = []
    for line, text in out.lines:
        if match := re.match(r"Node #([0-9]+)\s*[*-]?\s*(\S+)\s*-\s*(\S+)\s*-\s*Version: (\S+)", text):
            found.fact(line, match[2], "imex.state", match[3])
            says.append(f"{match[2]} {match[3]}")
        elif match := _RE["domain"].match(text):
            found.fact(line, None, "imex.domain", match[1] or match[2])
            says.append(f"domain {match[1] or match[2]}")
    return listed(says, 6) or count(len(out.lines), "line")


def _syslog(out: Output, found: Found) -> str:
    bad = []
    for line, text in out.lines:
        if match := re.search(r"(%[A-Z0-9_]+-([0-7])-[A-Z0-9_]+): (.*)", text):
            found.fact(line, None, f"switch.severity_{match[2]}", f"{match[1]} {match[3]}")
            bad += [match[3]] if int(match[2]) <= 3 else []
        if storm := re.search(r"detected PFC storm on port ([\w/.-]+),? (queue index [0-9]+)?", text):
            found.fact(line, storm[1], "switch.pfc_storm", storm[2] or "a queue")
            bad.append(storm[0])
        if port := _RE["switch_port"].search(text):
            found.fact(line, port[1], "kernel.link", port[2])
            bad += [port[0]]
    return "; ".join([count(len(out.lines), "line"), *bad[:3]])

"""DCGM's checks of GPUs: ``dcgmi diag`` (3 and 4), ``dcgmi health``, ``dcgmi discovery``, ``dcgmi dmon``."""

import re
from typing import Final

from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, count, listed, slug

_RESULT: Final = re.compile(r"(?P<what>Pass|Fail|Warn|Skip|Not Run)\b(?: - (?P<who>.*))?")
_ENTITY: Final = re.compile(r"(?P<who>[A-Za-z]+ ?[0-9]+): (?P<what>Pass|Fail|Warn|Skip|Not Run)")
_WHO: Final = re.compile(r"(?:GPU|NvSwitch|CPU|Switch)s?:? ?[0-9][0-9, ]*", re.I)


def _diag(out: Output, found: Found) -> str:
    """A test and its result; warnings go on over several lines, cut within words."""
    test, sub, bad, passed, versions = "", "", [], 0, []
    text: list[str] = []
    at, who = 0, ""

    def flush() -> None:
        if text:
            found.fact(at, who or None, f"dcgm.{slug(test)}.warning", "".join(text))
        text.clear()

    rows = dict(out.lines)
    for line, cells in shapes.boxes(out.lines):
        if len(cells) != 2 or re.match(r"-{3,}", cells[0]):
            flush()
            continue
        # The raw cell tells whether the cut stood between words.
        raw = rows[line].split("|")[2][1:].rstrip()
        key, value = cells
        entity = None if key else _ENTITY.fullmatch(value)
        if sub == "text" and not key and entity is None:
            text.append(raw)
            continue
        flush()
        if key.startswith(("Warning", "Info")):
            device = _WHO.search(f"{key}\n{value}")
            at, who, sub = line, device[0].strip(" :,") if device else who, "text"
            text += [raw] if key.startswith("Warning") else []
        elif entity:
            who, sub = entity["who"], ""
            found.fact(line, who, f"dcgm.{slug(test)}", entity["what"])
        elif result := _RESULT.match(value):
            test, sub, who = key, "", (result["who"] or "").strip()
            who = "" if who.lower() == "all" else who
            found.fact(line, who or None, f"dcgm.{slug(key)}", result["what"])
            passed += result["what"] == "Pass"
            bad += [f"{key}: {value}"] if result["what"] in ("Fail", "Warn") else []
        elif key and found.fact(line, None, f"dcgm.{slug(key)}", value) and "Version" in key:
            versions.append(f"{key} {value}")
    flush()
    return "; ".join([*versions[:2], f"{count(passed, 'test')} Pass", *bad[:4]])


def _health(out: Output, found: Found) -> str:
    group, entity, overall = "GPU", None, ""
    system, says = "", []
    message: list[str] = []
    at = 0

    def flush() -> None:
        if message:
            found.fact(at, entity, f"dcgm.health.{slug(system)}.message", " ".join(message))
            says.append(f"{entity or ''} {system}: {' '.join(message)}".strip())
        message.clear()

    for line, cells in shapes.boxes(out.lines):
        if len(cells) < 2:
            continue
        key, value = cells[0], cells[1]
        if key == "Overall Health":
            overall = value
            found.fact(line, None, "dcgm.health", value)
        elif re.fullmatch(r"GPU|NvSwitch|CPU|Switch|ConnectX|GPU ID", key) and not value:
            flush()
            group = key.removesuffix(" ID")
        elif match := re.fullmatch(r"->\s*([0-9]+)", key):
            flush()
            entity = f"{group} {match[1]}"
            found.fact(line, entity, "dcgm.health", value)
        elif match := re.fullmatch(r"->\s*(\S.*)", key):
            flush()
            system = match[1]
            found.fact(line, entity, f"dcgm.health.{slug(system)}", value)
        elif not key and value:
            at = at if message else line
            message.append(value)
    flush()
    return "; ".join([f"overall health {overall or 'unknown'}", *says[:3]])


def _discovery(out: Output, found: Found) -> str:
    gpus = 0
    for line, cells in shapes.boxes(out.lines):
        if len(cells) == 2 and cells[0].isdigit() and (name := re.search(r"Name: (.*)", cells[1])):
            gpus += found.fact(line, f"GPU {cells[0]}", "gpu.name", name[1])
    return count(gpus, "GPU")


def _nvlink(out: Output, found: Found) -> str:
    """``dcgmi nvlink -e``: error counters of each link of a GPU."""
    gpu = link = ""
    bad = []
    for line, cells in shapes.boxes(out.lines):
        if match := re.fullmatch(r"(?:GPU|gpuId) ?([0-9]+)", cells[0]):
            gpu = f"GPU {match[1]}"
        elif match := re.fullmatch(r"Link ([0-9]+)", cells[0]):
            link = match[1]
        elif len(cells) == 2 and "Error" in cells[0]:
            read = found.fact(line, gpu, f"nvlink.{link}.{slug(cells[0])}", cells[1])
            bad += [f"{gpu} link {link} {cells[0]} {cells[1]}"] if read and cells[1] != "0" else []
    return listed(bad, 6) or f"{gpu}: no error"


def _dmon(out: Output, found: Found) -> str:
    names: list[str] = []
    last: dict[str, tuple[int, list[str]]] = {}
    for line, text in out.lines:
        words = text.split()
        if text.startswith(("#Entity", "# Entity")):
            names = words[1:] if words[0] == "#Entity" else words[2:]
        elif match := re.match(r"(GPU(?:-I|-CI)?|Switch|CPU) ([0-9]+)\s+(.*)", text):
            last[f"{match[1]} {match[2]}"] = (line, match[3].split())
    for device, (line, values) in last.items():
        for name, value in zip(names, values, strict=False):
            found.fact(line, device, vocabulary.table("dcgm_dmon").get(name, f"dcgm.{slug(name)}"), value)
    return f"{listed(sorted(last))}: {listed(names, 8)}"

"""nvidia-smi (tables, -q, dmon, pmon, --query-gpu, topo -p2p) and what it prints when a GPU or the driver is gone."""

import re
from typing import Final, TypeAlias

from nccl_insight.base import texts
from nccl_insight.base.units import plural
from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, bus_id, count, listed, number, slug

_RE: Final = texts.compiled(__file__)
_Fact: TypeAlias = tuple[str, str, str | None]  # name behind ``gpu.``, value, unit
# What nvidia-smi prints in the table of a GPU that it cannot read.
_BROKEN: Final = {"ERR!": "ERR!", "requires reset": "GPU requires reset", "is lost": "GPU is lost"}


def _table(out: Output, found: Found) -> str:
    gpus: list[str] = []
    broken: list[str] = []
    versions: dict[str, str] = {}
    device, pids = None, 0
    for line, text in out.lines:
        for what, version in _RE["versions"].findall(text):
            found.fact(line, None, f"host.{what.lower()}_version", version)
            versions[what] = version
        if lost := _RE["lost"].search(text):
            _lost(found, line, lost)
            broken.append(" ".join(text.split())[:120])
        if process := _RE["process"].match(text):
            pids += 1
            where = f"GPU {process['gpu']}/pid {process['pid']}"
            found.fact(line, where, "process.name", process["name"])
            found.fact(line, where, "process.memory_used", process["used"], "MiB")
            continue
        cells = next(shapes.boxes([(line, text)]), (line, []))[1]
        if len(cells) < 3:
            continue
        if identity := _identity(cells):
            device = bus_id(cells[1])
            gpus.append(identity[1][1])
        for name, value, unit in identity or _usage(cells) if device else ():
            found.fact(line, device, f"gpu.{name}", value, unit)
        word = next((said for sign, said in _BROKEN.items() if sign in text or sign in text.lower()), "")
        if device and word and not any(b.startswith(device) for b in broken):
            found.fact(line, device, "gpu.unreadable", f"nvidia-smi prints {word}")
            broken.append(f"{device} {word}")
    parts = [f"{count(len(gpus), 'GPU')} ({listed(sorted(set(gpus)), 2)})"] if gpus else []
    parts += [f"driver {versions['Driver']}"] if "Driver" in versions else []
    parts += [plural(pids, "process", "processes")] if gpus else []
    return "; ".join((*parts, *broken[:3]))


def _identity(cells: list[str]) -> list[_Fact]:
    """Facts of the first row of a GPU: its number and name, and errors of its memory."""
    first = re.match(r"([0-9]+)  (\S.*?)\s+(?:On|Off|N/A)$", cells[0])
    if not first or not bus_id(cells[1]):
        return []
    errors = [("ecc.uncorrectable", n, "errors") for n in cells[2].split()[:1] if n.isdigit()]
    return [("index", first[1], None), ("name", first[2], None), *errors]


def _usage(cells: list[str]) -> list[_Fact]:
    """Facts of the second row of a GPU: memory, performance state, utilization."""
    if (used := _RE["used"].search(cells[1])) is None:
        return []
    state = next((w for w in cells[0].split() if re.fullmatch(r"P[0-9]+", w)), "")
    facts: list[_Fact] = [
        ("memory_used", used[1], "MiB"),
        ("memory_total", used[2], "MiB"),
        ("performance_state", state, None),
    ]
    share = cells[2].partition("%")
    return [*facts, ("utilization", share[0].split()[-1], "%")] if share[1] else facts


def _lost(found: Found, line: int, lost: re.Match[str]) -> None:
    if lost["nvml"] is None:  # which speaks of the library, and has a meaning of its own
        why = lost["why"] or lost["driver"] or "no devices were found"
        found.fact(line, bus_id(lost["a"] or ""), "gpu.unreadable", f"nvidia-smi: {why}")


def _named(table: str, path: str) -> tuple[str, str | None] | None:
    """The fact of a path and its unit, by the first pattern of a table that its end matches."""
    for pattern, name, unit in vocabulary.patterns(table):
        if match := pattern.search(path):
            return name + (slug(match["n"]) if name.endswith(".") else ""), unit
    return None


def _query(out: Output, found: Found) -> str:
    device, pid = None, ""
    says: list[str] = []
    gpus: list[str] = []
    for item in shapes.tree(out.lines):
        if item.key in ("Driver Version", "CUDA Version") and found.fact(
            item.line, None, f"host.{slug(item.key)}", item.value
        ):
            says.append(f"{item.key.split()[0]} {item.value}")
        path = item.path
        if re.match(r"GPU [0-9A-Fa-f]{4,8}[:.]", path) and not item.above:
            # The address holds colons: the key ends at one where the value is empty.
            device = bus_id(f"{item.key}:{item.value}" if item.value else item.key)
            continue
        if item.key == "Process ID":
            pid = item.value
        if "Processes" in path and item.key in ("Name", "Used GPU Memory") and pid:
            name, unit = ("name", None) if item.key == "Name" else ("memory_used", "MiB")
            found.fact(item.line, f"{device}/pid {pid}", f"process.{name}", _plain(item.value, unit), unit)
            continue
        if not item.value or (told := _named("query", path)) is None:
            continue
        name, unit = told
        if found.fact(item.line, device, name, _plain(item.value, unit), unit) and name == "gpu.name":
            gpus.append(item.value)
        if name.startswith(("gpu.fabric.st", "gpu.remap.", "gpu.recovery", "gpu.ecc.vol")) and _telling(item.value):
            says.append(f"{item.key} {item.value}")
    names = f" ({listed(sorted(set(gpus)), 2)})" if gpus else ""
    return "; ".join([count(len(gpus), "GPU") + names, *dict.fromkeys(says[:12])])


def _xml(out: Output, found: Found) -> str:
    """Line by line, so that a cut file is read to its cut."""
    device, says, gpus, path = None, [], [], [""]
    for line, text in out.lines:
        tag = _RE["tag"].match(text)
        if tag is None:
            continue
        if tag["id"]:
            device = bus_id(tag["id"])
        if tag["end"]:
            path = path[:-1] or [""]
        elif tag["value"] is None:
            path.append(tag["tag"])
        elif told := _named("xml", "/".join((*path, tag["tag"]))):
            name, unit = told
            read = found.fact(line, device, name, _plain(tag["value"], unit), unit)
            gpus += [tag["value"]] if read and name == "gpu.name" else []
            worth = name.startswith(("gpu.fabric.st", "gpu.remap.", "gpu.ecc.vol")) and _telling(tag["value"])
            if read and (worth or "driver" in name):
                says.append(f"{tag['tag'].replace('_', ' ')} {tag['value']}")
    return "; ".join([f"{count(len(gpus), 'GPU')} ({listed(sorted(set(gpus)), 2)})", *dict.fromkeys(says[:12])])


def _plain(value: str, unit: str | None) -> str:
    parsed = number(value) if unit is not None else None
    return value if parsed is None else f"{parsed:g}" if parsed < 1e6 else f"{parsed:.0f}"


def _telling(value: str) -> bool:
    return value not in ("0", "No", "None", "N/A", "Completed", "Success")


def _dmon(out: Output, found: Found) -> str:
    """Samples: the last one of each GPU is kept."""
    columns: list[str] = []
    last: dict[str, tuple[int, list[str]]] = {}
    for line, text in out.lines:
        words = text.split()
        if text.startswith("#"):
            columns = [w.lower() for w in words[1:]] if "gpu" in (w.lower() for w in words[:4]) else columns
        elif columns and len(words) >= len(columns) - 1 and words:
            last[words[columns.index("gpu")]] = (line, words)
    says = []
    for gpu, (line, words) in sorted(last.items()):
        row = dict(zip(columns, words, strict=False))
        for key, (name, unit) in vocabulary.units("dmon").items():
            if key in row:
                found.fact(line, f"GPU {gpu}", name, row[key], unit)
        if row.get("sm", "-") != "-":
            more = [f"{row[key]} {unit}" for key, unit in (("pclk", "MHz"), ("pwr", "W")) if key in row]
            says.append(", ".join([f"GPU {gpu}: SM {row['sm']} %", *more]))
    return listed(says, 8) or count(len(last), "GPU")


def _csv(out: Output, found: Found) -> str:
    columns: list[str] = []
    rows = 0
    for line, text in out.lines:
        cells = [cell.strip() for cell in text.split(",")]
        if re.match(_CSV_HEAD, text):
            columns = [cell.split(" [")[0] for cell in cells]
            continue
        row = dict(zip(columns, cells, strict=False))
        device = bus_id(row.get("pci.bus_id", row.get("gpu_bus_id", ""))) or (
            f"GPU {row['index']}" if row.get("index", "").isdigit() else f"GPU {rows}"
        )
        rows += 1
        for key, value in row.items():
            name, unit = vocabulary.units("csv").get(key, (f"gpu.{slug(key)}", None))
            if not found.fact(line, device, name, _plain(value, unit), unit) and _RE["gone"].search(value):
                found.fact(line, device, "gpu.unreadable", f"nvidia-smi: {value.strip('[]')} ({key})")
    return f"{count(rows, 'GPU')}, {listed(columns)}"


def _p2p(out: Output, found: Found) -> str:
    words: dict[str, list[str]] = {}
    for line, row, column, cell in shapes.matrix(out.lines, r"GPU[0-9]+"):
        if row != column and cell != "X" and re.fullmatch(r"[A-Z]{1,4}", cell):
            found.fact(line, f"{row}->{column}", "p2p.status", cell)
            words.setdefault(cell, []).append(f"{row}->{column}")
    legend = dict(re.findall(r"^\s*([A-Z]{1,3})\s+= (.*)$", "\n".join(out.texts()), re.M))
    gpus = sorted({pair.split("->")[0] for pairs in words.values() for pair in pairs})
    return "; ".join(
        [listed(gpus, 16), *(f"{w} ({legend.get(w, w)}): {count(len(p), 'pair')}" for w, p in sorted(words.items()))]
    )


def _list(out: Output, found: Found) -> str:
    device, bad = "", list[str]()
    gpus, links = [], [text for text in out.texts() if re.match(r"\s*Link [0-9]+:", text)]
    for line, text in out.lines:
        if match := re.match(r"\s*GPU ([0-9]+): (.*?) \(UUID", text):
            found.fact(line, f"GPU {match[1]}", "gpu.name", match[2])
            gpus.append(match[2])
            device = f"GPU {match[1]}"
        elif match := re.match(r"\s*Link ([0-9]+): (.*?(?:Error|Count)[^:]*): ([0-9]+)", text):
            found.fact(line, device, f"nvlink.{match[1]}.{slug(match[2])}", match[3])
            bad += [f"{device} link {match[1]} {match[2]} {match[3]}"] if match[3] != "0" else []
        elif "all links are inactive" in text:
            found.fact(line, device, "nvlink.active", "0")
            bad.append(f"{device} all links inactive")
    off = sum("inactive" in text for text in links)
    says = [f"{count(len(gpus), 'GPU')} ({listed(sorted(set(gpus)), 2)})"]
    says += [f"{count(len(links), 'NVLink line')}" + (f", {off} inactive" if off else "")] if links else []
    return "; ".join([*says, *bad[:6]])


def _cells(out: Output, found: Found) -> str:
    rows = {m[1] for text in out.texts() if (m := re.match(r"\s*(?:\x1b\[[0-9;]*m)*(GPU[0-9]+)\s", text))}
    gpus = sorted(rows, key=lambda g: int(g[3:]))
    links: dict[str, int] = {}
    for line, row, column, cell in shapes.matrix(out.lines, r"(?:GPU|NIC)[0-9]+|mlx5_\S+"):
        if row != column and re.fullmatch(r"NV[0-9]+|[A-Z]{3,4}|[CP]2[CP]", cell):
            if row.startswith(column[:3]):
                found.fact(line, f"{row}->{column}", "p2p.link", cell)
            links[cell] = links.get(cell, 0) + 1
    return f"{count(len(gpus), 'GPU')} ({listed(gpus, 8)}); paths {listed(sorted(links), 8)}"


_CSV_HEAD: Final = r"(?:[a-z][a-z0-9_.]*(?: \[[^\],]+\])?, ?)+[a-z][a-z0-9_.]*(?: \[[^\],]+\])?$"

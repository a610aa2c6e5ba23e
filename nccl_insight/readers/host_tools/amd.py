"""rocm-smi and amd-smi: values of GPUs, and the matrices of how they are linked."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, TypeAlias

from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, bus_id, count, listed, slug

Cell: TypeAlias = tuple[int, str, str, str]  # line, row, column, text
_VALUE: Final = re.compile(r"(?:GPU|CPU)\[([0-9]+)\]\s*: (?P<key>.*?):\s+(?P<value>\S.*)$")
# A row of the table of links of amd-smi.
_METRIC: Final = re.compile(r"GPU([0-9]+)\s+[0-9a-f:.]{7,14}\s+([0-9]+) Gb/s\s+[0-9]+ Gb/s\s+([A-Z]+)\s*$")
_SECTION: Final = re.compile(r"=+\s+(\S.*?)\s+=+$")


def _rocm(out: Output, found: Found) -> str:
    gpus: set[str] = set()
    links: Counter[str] = Counter()
    section = ""
    part: list[tuple[int, str]] = []
    sections: list[str] = []
    for line, text in [*out.lines, (0, "=== end ===")]:
        if match := _SECTION.match(text):
            if re.search("Link Type|Hops|Weight|Accessib", section):
                name = "link" if "Type" in section else slug(section.split()[0])
                _pairs(found, name, shapes.matrix(part, r"GPU[0-9]+"), gpus, links)
            section, part = match[1], []
            if not re.search(r"ROCm? System Management|End of ROCm|ROCm SMI|^end$", section):
                sections.append(section)
            continue
        part.append((line, text))
        if value := _VALUE.match(text):
            gpus.add(f"GPU{value[1]}")
            device = f"GPU {value[1]}"
            found.fact(line, device, f"gpu.{slug(re.sub(r'[(](Topology)[)]', '', value['key']))}", value["value"])
        elif ras := re.match(r"\s+([A-Z0-9_]+)\s+(?:ENABLED|DISABLED)\s+([0-9]+)\s+([0-9]+)\s*$", text):
            device = " ".join(section.split()[-2:])
            gpus.add(device.replace(" ", ""))
            found.fact(line, device, f"gpu.ecc.correctable.{ras[1].lower()}", ras[2], "errors")
            found.fact(line, device, f"gpu.ecc.uncorrectable.{ras[1].lower()}", ras[3], "errors")
            if ras[3] != "0":
                sections.append(f"{device} {ras[1]} {ras[3]} uncorrectable")
        elif "Concise" in section and re.match(r"[0-9]+\s+\S", text):
            head = next((t for _, t in part if re.match(r"(?:GPU|Device)\s", t)), "")
            index = text.split()[0]
            gpus.add(f"GPU{index}")
            cells = re.split(r"\s{2,}", text.strip())
            for key, cell in zip(re.split(r"\s{2,}", head.strip())[1:], cells[1:], strict=False):
                found.fact(line, f"GPU {index}", f"gpu.{slug(key)}", cell)
    return "; ".join([*_linked(gpus, links), *([listed(sections, 3)] if sections else [])])


def _pairs(found: Found, name: str, cells: Iterable[Cell], devices: set[str], links: Counter[str]) -> None:
    """Facts of pairs, the cells of a matrix; its rows are added to ``devices``, kinds of links counted."""
    for line, row, column, cell in cells:
        devices.add(row)
        if row != column and found.fact(line, f"{row}->{column}", f"p2p.{name}", cell) and name == "link":
            links[cell] += 1


def _linked(devices: set[str], links: Counter[str]) -> list[str]:
    return [count(len(devices), "GPU"), *(f"{n} pairs over {link}" for link, n in sorted(links.items()))]


def _amd(out: Output, found: Found) -> str:
    """``GPU: 0`` with a tree below it, the tables of topology, and those of monitor and the bare command."""
    device: str | None = None
    devices: set[str] = set()
    title = ""
    links: Counter[str] = Counter()
    part: list[tuple[int, str]] = []
    for item in shapes.tree([(n, t) for n, t in out.lines if not re.match(r"[|+]", t)]):
        if item.key == "GPU" and item.value.isdigit() and not item.above:
            device = f"GPU {item.value}"
            devices.add(device)
        elif device and item.value:
            name = slug("/".join(["gpu", *(a for a in item.above if a != "GPU"), item.key]))
            if errors := re.fullmatch(r"gpu\.ecc(?:_blocks\.(\w+)\.|\.(total)_)((?:un)?correctable)_count", name):
                name = f"gpu.ecc.{errors[3]}.{errors[1] or errors[2]}"
            unit = "GT/s" if item.value.endswith("GT/s") else None
            value = item.value.partition(" GT/s")[0] if unit else item.value
            found.fact(item.line, device, vocabulary.table("amd").get(name, name), value, unit)
    for line, text in [*out.lines, (0, "END TABLE:")]:
        if metric := _METRIC.match(text):
            device = f"GPU {metric[1]}"
            devices.add(device)
            found.fact(line, device, "xgmi.rate", metric[2], "Gbit/s")
            found.fact(line, device, "xgmi.type", metric[3])
        if match := re.match(r"([A-Z0-9 -]+ TABLE):", text.strip()):
            name = "link" if "LINK TYPE" in title else slug(title.removesuffix(" TABLE"))
            _pairs(found, name, _addresses(part), devices, links)
            title, part = match[1], []
        else:
            part.append((line, text))
    return "; ".join(_linked(devices, links))


def _monitor(out: Output, found: Found) -> str:
    """``amd-smi monitor``: a row for each GPU; columns end where their names end."""
    gpus: set[str] = set()
    ends: list[tuple[str, int, int]] = []
    for line, text in out.lines:
        if re.match(r"GPU\s+[A-Z]", text):
            at = [0, *(m.end() for m in re.finditer(r"\S+", text))]
            ends = [(slug(text[a:b]), a, b) for a, b in pairwise(at)]
        elif ends:
            gpus.add(device := f"GPU {text[: ends[0][2]].strip()}")
            for name, start, end in ends[1:]:
                found.fact(line, device, f"gpu.{name}", text[start:end].strip())
    return f"{count(len(gpus), 'GPU')}: {listed([name for name, *_ in ends[1:]], 8)}"


def _addresses(lines: list[tuple[int, str]]) -> list[Cell]:
    """Cells of a matrix whose rows and columns are PCI addresses."""
    columns: list[str] = []
    cells = []
    for number, text in lines:
        words = text.split()
        ids = [b for w in words if re.fullmatch(r"[0-9a-fA-F:.]{7,14}", w) and (b := bus_id(w))]
        if ids and len(ids) == len(words):
            columns = ids
        elif columns and ids and bus_id(words[0]) and len(words) > len(columns):
            cells += [(number, ids[0], column, cell) for column, cell in zip(columns, words[1:], strict=False)]
    return cells

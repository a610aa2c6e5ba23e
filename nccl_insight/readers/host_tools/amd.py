"""rocm-smi and amd-smi: values of GPUs, and the matrices of how they are linked."""

import re
from itertools import pairwise
from typing import Final

from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, bus_id, count, listed, slug

_VALUE: Final = re.compile(r"(?:GPU|CPU)\[([0-9]+)\]\s*: (?P<key>.*?):\s+(?P<value>\S.*)$")
# A row of the table of links of amd-smi.
_METRIC: Final = re.compile(r"GPU([0-9]+)\s+[0-9a-f:.]{7,14}\s+([0-9]+) Gb/s\s+[0-9]+ Gb/s\s+([A-Z]+)\s*$")
_SECTION: Final = re.compile(r"=+\s+(\S.*?)\s+=+$")


def _rocm(out: Output, found: Found) -> str:
    gpus: set[str] = set()
    links: dict[str, int] = {}
    section = ""
    part: list[tuple[int, str]] = []
    sections: list[str] = []
    for line, text in [*out.lines, (0, "=== end ===")]:
        if match := _SECTION.match(text):
            if "Link Type" in section or "Hops" in section or "Weight" in section or "Accessib" in section:
                name = "p2p.link" if "Type" in section else f"p2p.{slug(section.split()[0])}"
                for at, row, column, cell in shapes.matrix(part, r"GPU[0-9]+"):
                    gpus.add(row)
                    if row != column and found.fact(at, f"{row}->{column}", name, cell) and name == "p2p.link":
                        links[cell] = links.get(cell, 0) + 1
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
    says = [count(len(gpus), "GPU"), *(f"{n} pairs over {link}" for link, n in sorted(links.items()))]
    return "; ".join([*says, listed(sections, 3)] if sections else says)


def _amd(out: Output, found: Found) -> str:
    """``GPU: 0`` with a tree below it, the tables of topology, and those of monitor and the bare command."""
    device: str | None = None
    devices: set[str] = set()
    title = ""
    links: dict[str, int] = {}
    part: list[tuple[int, str]] = []
    for item in shapes.tree([(n, t) for n, t in out.lines if not re.match(r"[|+]", t)]):
        if item.key == "GPU" and item.value.isdigit() and not item.above:
            device = f"GPU {item.value}"
            devices.add(device)
        elif device and item.value:
            path = [a for a in item.above if a != "GPU"]
            name = slug("/".join(["gpu", *path, item.key]))
            if errors := re.fullmatch(r"gpu\.ecc(?:_blocks\.(\w+)\.|\.(total)_)((?:un)?correctable)_count", name):
                name = f"gpu.ecc.{errors[3]}.{errors[1] or errors[2]}"
            value, _, unit = item.value.partition(" GT/s") if item.value.endswith("GT/s") else (item.value, "", None)
            found.fact(
                item.line, device, vocabulary.table("amd").get(name, name), value, "GT/s" if unit is not None else None
            )
    for line, text in [*out.lines, (0, "END TABLE:")]:
        if metric := _METRIC.match(text):
            device = f"GPU {metric[1]}"
            devices.add(device)
            found.fact(line, device, "xgmi.rate", metric[2], "Gbit/s")
            found.fact(line, device, "xgmi.type", metric[3])
        if match := re.match(r"([A-Z0-9 -]+ TABLE):", text.strip()):
            name = f"p2p.{slug(title.removesuffix(' TABLE'))}"
            name = "p2p.link" if "LINK TYPE" in title else name
            for at, row, column, cell in _addresses(part):
                devices.add(row)
                if row != column and found.fact(at, f"{row}->{column}", name, cell) and name == "p2p.link":
                    links[cell] = links.get(cell, 0) + 1
            title, part = match[1], []
        else:
            part.append((line, text))
    return "; ".join([count(len(devices), "GPU"), *(f"{n} pairs over {link}" for link, n in sorted(links.items()))])


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


def _addresses(lines: list[tuple[int, str]]) -> list[tuple[int, str, str, str]]:
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

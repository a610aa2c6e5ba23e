"""``nvidia-smi topo -m`` matrices and ``nvidia-smi nvlink`` listings among lines of text.

Pastes lose tabs and join cells (``PXBNODE``, ``SYSSYS``), terminals add underline codes; cells are therefore
read by their alphabet, not by columns.
"""

import re
from typing import Final

import polars as pl

from nccl_insight.tables.declared import frame
from nccl_insight.tables.schema import of_input, of_rows

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_WORD = re.compile(r"\S")
_CELL = re.compile(r"NV[0-9]+|PIX|PXB|PHB|NODE|SYS|N/A|X")
_NAME = re.compile(r"GPU[0-9]+|NIC[0-9]+|(?:mlx[0-9]|bnxt_re|rocep|ibp|efa|irdma|mana|hfi1|rdmap)[A-Za-z0-9_]*")
_LEGEND = re.compile(r"^\s*(NIC[0-9]+)\s*:\s*([A-Za-z0-9_.-]+)\s*$")
_HEADER = r"^\s*(?:\x1b\[[0-9;]*m|\s)*GPU0\b"
_LINKS = {"X": None, "N/A": None, "PIX": "PCI", "PXB": "PCI", "PHB": "PCI", "NODE": "SYS", "SYS": "SYS"}
NODES = frame("line u64, node str, kind str, index i32, numa i32, cpu_affinity str, device str, section i32")
LINKS = frame("line u64, src str, dst str, link str, path str, count i32, section i32")
NVLINKS: Final = of_input("nvlinks")


def scan_topology(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Nodes and links of every matrix in ``lines`` (``line``, ``text``); ``section`` counts matrices.

    ``path`` is the cell as printed (NV12, PIX, PXB, PHB, NODE, SYS), ``count`` the number of NVLinks. A pair is
    given once in each direction, as the matrix does.
    """
    nodes: list[dict[str, object]] = []
    links: list[dict[str, object]] = []
    heads = lines.filter(pl.col("text").str.contains(_HEADER))["line"].to_list()
    if not heads:
        return pl.DataFrame(schema=NODES), pl.DataFrame(schema=LINKS)
    named: dict[tuple[int, str], list[dict[str, object]]] = {}
    columns: list[str] = []
    section = 0
    near = lines.filter(
        pl.col("text").str.contains(r"^(?:\x1b\[[0-9;]*m|\s)*(?:GPU[0-9]|NIC[0-9]|[a-z][a-z0-9_]*\s*\S)")
        & (pl.col("line") >= heads[0])
    )
    for line, raw in near.select("line", "text").iter_rows():
        text = _ANSI.sub("", raw).strip()
        first = _NAME.match(text)
        if first is None:
            continue
        rest = text[first.end() :]
        header = _header(text)
        if header:
            columns, section = header, section + 1
            continue
        if (legend := _LEGEND.match(text)) and columns:
            for node in named.get((section, legend[1]), ()):
                node["device"] = legend[2]
            continue
        cells, tail = _cells(rest, len(columns))
        if len(cells) != len(columns) or not columns:
            continue
        nodes.append(_node(line, section, first[0], tail))
        named.setdefault((section, first[0]), []).append(nodes[-1])
        links += _row(line, section, first[0], columns, cells)
    return of_rows(nodes, NODES), of_rows(links, LINKS)


def _header(text: str) -> list[str]:
    """Device names of a header line; empty for any other line."""
    names = _NAME.findall(re.split(r"CPU Affinity|CPU\s+Aff", text)[0])
    plain = re.sub(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|NUMA\s*|Affinity\s*|CPU\s*|ID\b", "", text)
    return names if names[:1] == ["GPU0"] and not _NAME.sub("", plain).strip() else []


def _cells(rest: str, wanted: int) -> tuple[list[str], str]:
    cells: list[str] = []
    at = 0
    while len(cells) < wanted:
        word = _WORD.search(rest, at)
        match = _CELL.match(rest, word.start()) if word else None
        if match is None:
            break
        cells.append(match[0])
        at = match.end()
    return cells, rest[at:].strip()


def _node(line: int, section: int, name: str, tail: str) -> dict[str, object]:
    is_gpu = name.startswith("GPU")
    digits = name[len(name.rstrip("0123456789")) :]
    fields = re.split(r"\t+|\s{2,}|\s(?=\S+$)", tail) if tail and is_gpu else []
    numa = next((f for f in fields[1:2] if re.fullmatch(r"[0-9]+", f.strip())), None)
    index, node = (int(number[:9]) if number else None for number in (digits, numa))
    row = {"line": line, "section": section, "node": name, "kind": "GPU" if is_gpu else "NIC", "index": index}
    device = None if is_gpu or name.startswith("NIC") else name
    return {**row, "numa": node, "cpu_affinity": fields[0].strip() if fields else None, "device": device}


def _row(line: int, section: int, src: str, columns: list[str], cells: list[str]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for dst, cell in zip(columns, cells, strict=True):
        link = "NVL" if cell.startswith("NV") else _LINKS[cell]
        if link and dst != src:
            count = int(cell[2:6]) if link == "NVL" else None
            place = {"line": line, "section": section, "src": src, "dst": dst}
            rows.append({**place, "link": link, "path": cell, "count": count})
    return rows


def scan_nvlinks(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per GPU and link from ``nvlink -s`` (GB/s as printed, signalling rate) and ``nvlink -e`` (errors).

    Listings of the same GPUs in one text are merged; ``active`` is false for ``<inactive>`` links.
    """
    text = pl.col("text")
    near = lines.filter(text.str.contains(r"^\s*(?:GPU [0-9]+:|Link [0-9]+:)"))
    if near.is_empty():
        return pl.DataFrame(schema=NVLINKS)
    rows = near.with_columns(
        text.str.extract(r"^\s*GPU ([0-9]+):").cast(pl.Int32, strict=False).forward_fill().alias("gpu"),
        text.str.extract(r"^\s*GPU [0-9]+:\s*(.*?)\s*(?:\(UUID:.*)?$").forward_fill().alias("model"),
        text.str.extract(r"^\s*Link ([0-9]+):").cast(pl.Int32, strict=False).alias("link"),
        text.str.extract(r"Link [0-9]+:\s*([0-9.]+) GB/s").cast(pl.Float64, strict=False).alias("speed_gbps"),
        text.str.contains(r"Link [0-9]+:\s*<?inactive").alias("_off"),
        *(
            text.str.extract(rf"(?i){w}[^:]* Errors:\s*([0-9]+)").cast(pl.Int64, strict=False).alias(c)
            for w, c in (("Replay", "replay_errors"), ("Recovery", "recovery_errors"), ("CRC", "crc_errors"))
        ),
    ).filter(pl.col("link").is_not_null() & pl.col("gpu").is_not_null())
    errors = ("replay_errors", "recovery_errors", "crc_errors")
    merged = rows.group_by("gpu", "link", maintain_order=True).agg(
        pl.col("line").first(),
        pl.col("model").first(),
        pl.col("speed_gbps").max(),
        pl.col("_off").any(),
        *(pl.col(c).max() for c in errors),
    )
    state = pl.when(pl.col("_off")).then(False).when(pl.col("speed_gbps") > 0).then(True)
    return merged.with_columns(state.alias("active")).select(pl.col(c).cast(t) for c, t in NVLINKS.items())

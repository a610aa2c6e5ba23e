"""Bandwidth tests: p2pBandwidthLatencyTest, nvbandwidth, perftest, rocm-bandwidth-test."""

import re
from typing import Final

from nccl_insight.base import texts
from nccl_insight.readers.host_tools import shapes, vocabulary
from nccl_insight.readers.host_tools.model import Found, Output, bus_id, count, number

_RE: Final = texts.compiled(__file__)


def _matrices(out: Output, title: re.Pattern[str]) -> list[tuple[re.Match[str] | None, list[tuple[int, str]]]]:
    """Lines by the title that they stand under."""
    parts: list[tuple[re.Match[str] | None, list[tuple[int, str]]]] = [(None, [])]
    for line, text in out.lines:
        if match := title.search(text):
            parts.append((match, []))
        else:
            parts[-1][1].append((line, text))
    return parts


def _copy(found: Found, line: int, src: str, dst: str, gbps: float, access: bool | None, test: str) -> None:
    found.copies.append((line, found.host, int(src), int(dst), access, gbps, test))


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _p2p(out: Output, found: Found) -> str:
    """CUDA sample p2pBandwidthLatencyTest: every pair with peer access on and off."""
    says: list[str] = []
    for line, text in out.lines:
        if match := _RE["device"].match(text):
            found.fact(line, f"GPU {match[1]}", "gpu.name", match[2])
            domain, bus, slot = (int(match[part], 16) for part in (5, 3, 4))
            found.fact(line, f"GPU {match[1]}", "gpu.bus_id", f"{domain:04x}:{bus:02x}:{slot:02x}.0")
        elif match := re.match(r"Device=([0-9]+) (CAN(?:NOT)?) Access Peer Device=([0-9]+)", text):
            found.fact(line, f"{match[1]}->{match[3]}", "p2p.access", "yes" if match[2] == "CAN" else "no")
    for title, lines in _matrices(out, _RE["p2p_title"]):
        says += _p2p_matrix(found, title, lines) if title else []
    return "; ".join(says) or "no complete matrix"


def _p2p_matrix(found: Found, title: re.Match[str], lines: list[tuple[int, str]]) -> list[str]:
    access, kind = title["on"] == "Enabled", title["what"].lower()
    one_way = title["dir"] != "Bidirectional"
    name = f"p2p.{kind}{'' if one_way else '.both_ways'}{'.peer' if access else '.through_host'}"
    values: list[float] = []
    # Latencies as the CPU sees them stand in a second matrix under the same title.
    end = next((at for at, (_, text) in enumerate(lines) if re.match(r"\s*CPU\s", text)), len(lines))
    for line, src, dst, cell in shapes.matrix(lines[:end], r"[0-9]+"):
        value = number(cell)
        if src == dst or value is None:
            continue
        found.fact(line, f"{src}->{dst}", name, cell, "us" if kind == "latency" else "GB/s")
        values.append(value)
        if kind == "bandwidth" and one_way and "Reads" not in (title["how"] or ""):
            _copy(found, line, src, dst, value, access, "p2pBandwidthLatencyTest")
    told = bool(values) and one_way
    return [f"{kind} with P2P {'on' if access else 'off'} {_range(values)} {title['unit']}"] if told else []


def _nvbandwidth(out: Output, found: Found) -> str:
    says: list[str] = []
    test = ""
    for line, text in out.lines:
        if match := re.match(r"nvbandwidth Version: (\S+)", text):
            found.fact(line, None, "nvbandwidth.version", match[1])
            says.append(match[1])
        elif match := re.match(r"Driver Version: (\S+)", text):
            found.fact(line, None, "host.driver_version", match[1])
        elif match := re.match(r"(?:Process [0-9]+ \([^)]*\): )?[Dd]evice ([0-9]+): (.*?) \(([0-9a-f:]+)\)", text):
            found.fact(line, f"GPU {match[1]}", "gpu.name", match[2])
            found.fact(line, f"GPU {match[1]}", "gpu.bus_id", bus_id(match[3]) or match[3])
        elif match := re.match(r"SUM (\S+) ([0-9.]+)", text):
            found.fact(line, None, f"{match[1]}.sum", match[2], "GB/s")
        elif re.match(r"WAIVED: |ERROR: |ASSERT in|\s?Invalid value when checking|\[CUDA_ERROR", text):
            found.fact(line, None, "nvbandwidth.message", text)
            says += [] if text.startswith("WAIVED") else [text.strip()[:100]]
    part: list[tuple[int, str]] = []
    title: re.Match[str] | None = None
    for line, text in [*out.lines, (0, "Running end.")]:
        if match := re.match(r"Running (\S+?)\.$", text):
            _nvb_matrix(found, test, title, part, says)
            test, title, part = match[1], None, []
        elif match := _RE["nvb_title"].search(text):
            _nvb_matrix(found, test, title, part, says)
            title, part = match, []
        else:
            part.append((line, text))
    return "; ".join(says)


def _nvb_matrix(
    found: Found, test: str, title: re.Match[str] | None, lines: list[tuple[int, str]], says: list[str]
) -> None:
    if title is None:
        return
    values: list[float] = []
    for line, row, column, cell in shapes.matrix(lines, r"[0-9]+"):
        value = number(cell)
        if value is None:
            continue
        peers = title["row"] == title["col"] == "GPU"
        # In both notations of the arrow the row reads from or writes to the column; no check asks which.
        device = f"{row}->{column}" if peers else f"{title['row']} {row}->{title['col']} {column}"
        unit = title["unit"]
        found.fact(line, device, f"{test}.{title['kind']}", cell, "GB/s" if unit == "GB/s" else unit)
        values.append(value)
        if peers and row != column and title["kind"] == "bandwidth" and "bidirectional" not in test:
            _copy(found, line, row, column, value, None, test)
    if values:
        says.append(f"{test} {_range(values)} {title['unit']}")


def _perftest(out: Output, found: Found) -> str:
    """ib_write_bw and its kin: what was set, and a row per size."""
    values: dict[str, str] = {}
    names: list[str] = []
    unit, test, says, device = "", "", [], None
    for line, text in out.lines:
        if match := _RE["test"].match(text):
            test = f"{match[1]} {match[2]}"
        for key, value in (
            re.findall(r"([A-Z][a-zA-Z.]*(?: [A-Za-z.]+)*)\s*:\s+(\S+)", text) if _RE["heads"].match(text) else ()
        ):
            values.setdefault(key.strip(), value)
            device = values.get("Device")
        if "#bytes" in text:
            names = re.split(r"\s{2,}|\t+| (?=#)", text.strip())
            unit = next((m[1] for m in [re.search(r"\[(Gb|MiB|MB|GiB)/sec\]", text)] if m), "")
        elif names and re.match(r"\s*[0-9]+\s+[0-9]+\s", text):
            row = dict(zip([re.sub(r"\[.*", "", n) for n in names], text.split(), strict=False))
            size = row.get("#bytes", "").split()[0]
            average = number(row.get("BW average"))
            if average is not None:
                gbit = {"Gb": 1.0, "MiB": 8 * 1.048576e-3, "MB": 8e-3, "GiB": 8 * 1.073741824}.get(unit, 1.0) * average
                found.fact(line, device, "perftest.bandwidth", f"{gbit:g}", "Gbit/s")
                found.fact(line, device, "perftest.size", size, "bytes")
                says.append(f"{size} bytes {average:g} {unit}/s")
            elif latency := row.get("t_typical") or row.get("t_avg"):
                found.fact(line, device, "perftest.latency", latency, "us")
                says.append(f"{size} bytes {latency} us")
        elif match := _RE["failed"].search(text):
            found.fact(line, device, "perftest.error", text.strip())
            says.append(text.strip()[:100])
    for key, name in vocabulary.table("perftest").items():
        if key in values:
            found.fact(out.line, device, name, values[key].replace("[B]", ""), "bytes" if key == "Mtu" else None)
    return "; ".join([test, device or "", *(says if len(says) <= 3 else [says[0], says[-1]])]).strip("; ")


def _rocm(out: Output, found: Found) -> str:
    """rocm-bandwidth-test: matrices of devices, in GB/s."""
    says = []
    for title, lines in _matrices(
        out, re.compile(r"(Unidirectional|Bidirectional|Inter-Device) (?:copy peak bandwidth GB/s|Access|Numa)?")
    ):
        values = []
        for line, src, dst, cell in shapes.matrix([(n, t.replace("D/D", "")) for n, t in lines], r"[0-9]+"):
            if title and title[1] == "Unidirectional" and src != dst and (value := number(cell)) is not None:
                found.fact(line, f"device {src}->device {dst}", "copy.bandwidth", cell, "GB/s")
                values.append(value)
        if values:
            says.append(f"{title[1] if title else ''} {_range(values)} GB/s")
    return "; ".join(says) or count(len(out.lines), "line")

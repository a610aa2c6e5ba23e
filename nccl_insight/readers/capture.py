"""Result files of ``nccl-insight capture``: one JSON object a line, written as the measurements are made."""

import json
from typing import Any

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import of_input, of_rows


def sniff(head: bytes, name: str) -> float:
    """0.95 for a file that begins with the head line."""
    return 0.95 if head[:1] == b"{" and b'"nccl_insight_capture"' in head[:512] else 0.0


def read(source: InputFile) -> Partial:
    """Tables ``benchmarks``, ``capture_ranks``, ``host_bandwidth``, ``peer_bandwidth``, ``capture_nodes`` and
    ``node_pairs`` (bus bandwidth of two nodes at a time, node numbers as in ``capture_nodes``;
    with a ``local_rank`` that of one rank of each, which takes its own NIC).
    """
    content = _side.read_content(source)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    broken = 0
    for number, raw in enumerate(content.text.split("\n"), 1):
        if not raw.strip():
            continue
        try:
            item = _side.mapping(json.loads(raw))
        except (ValueError, RecursionError):
            broken += 1
            continue
        by_kind.setdefault(str(item.get("kind")), []).append({**item, "line": number})
    rank = _rank(by_kind)
    rows = [{"gpu": rank.get("gpu"), "backend": rank.get("backend"), "run": 1, **row} for row in by_kind.get("row", [])]
    found = {
        "benchmarks": rows,
        "capture_ranks": [rank] if rank else [],
        "host_bandwidth": by_kind.get("copy", []),
        "peer_bandwidth": [{**row, "line": None} for row in by_kind.get("peer", [])],  # judged as a whole, not by line
        "capture_nodes": by_kind.get("node", []),
        "node_pairs": by_kind.get("pair", []),
    }
    tables = {name: of_rows(rows, of_input(name)) for name, rows in found.items()}
    problems = [content.problem]
    problems += [f"{item.get('what')} were not measured: {item.get('why')}" for item in by_kind.get("failed", [])]
    if broken:
        problems.append(f"{broken} lines are cut or damaged and were left out")
    if rank and not rank["finished"]:
        problems.append(f"rank {rank.get('rank')} did not finish the capture")
    return _side.partial(source, tables, *problems)


def _rank(by_kind: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    heads = by_kind.get("head", [])
    if not heads:
        return {}
    versions = by_kind.get("versions", [{}])[0]
    return {
        **{k: v for k, v in versions.items() if k not in ("kind", "line")},
        **{k: v for k, v in heads[0].items() if k not in ("kind", "line")},
        "joined": "ready" in by_kind,
        "finished": "end" in by_kind,
    }


FORMAT = Format(kind="capture", sniff=sniff, read=read)

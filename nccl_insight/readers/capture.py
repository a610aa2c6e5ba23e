"""Result files of ``nccl-insight capture``: one JSON object a line, written as the measurements are made."""

import json
from typing import Any, Final

import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import Columns, of_input

BENCHMARKS = {
    "line": pl.UInt64, "op": pl.String, "size_bytes": pl.UInt64, "count": pl.UInt64, "dtype": pl.String,
    "red_op": pl.String, "root": pl.Int32, "in_place": pl.Boolean, "time_us": pl.Float64,
    "time_min_us": pl.Float64, "time_max_us": pl.Float64,
    "iteration_min_us": pl.Float64, "iteration_max_us": pl.Float64, "algbw_gbps": pl.Float64, "busbw_gbps": pl.Float64,
    "wrong": pl.Int64, "nranks": pl.Int32, "gpu": pl.String, "backend": pl.String, "run": pl.Int32,
    "n_hosts": pl.Int32,
}  # fmt: skip
RANKS: Final = of_input("capture_ranks")
COPIES: Final = of_input("host_bandwidth")
PEERS = {
    "host": pl.String, "src": pl.Int32, "dst": pl.Int32, "peer_access": pl.Boolean,
    "size_bytes": pl.UInt64, "gbps": pl.Float64,
}  # fmt: skip

NODES: Final = of_input("capture_nodes")
PAIRS: Final = of_input("node_pairs")


def sniff(head: bytes, name: str) -> float:
    """1 for a file that begins with the head line."""
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
    tables = {
        "benchmarks": _frame(rows, BENCHMARKS),
        "capture_ranks": _frame([rank] if rank else [], RANKS),
        "host_bandwidth": _frame(by_kind.get("copy", []), COPIES),
        "peer_bandwidth": _frame(by_kind.get("peer", []), PEERS),
        "capture_nodes": _frame(by_kind.get("node", []), NODES),
        "node_pairs": _frame(by_kind.get("pair", []), PAIRS),
    }
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


def _frame(rows: list[dict[str, Any]], schema: Columns) -> pl.DataFrame:
    return pl.DataFrame([{k: row.get(k) for k in schema} for row in rows], schema=schema, strict=False)


FORMAT = Format(kind="capture", sniff=sniff, read=read)

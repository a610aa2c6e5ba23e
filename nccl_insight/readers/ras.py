"""Reports of NCCL's RAS subsystem as JSON (2.28.7 and later): status and monitor events."""

import json
import re
from typing import Any, Final, TypeAlias

import polars as pl

from nccl_insight.base.natures import called
from nccl_insight.base.words import words
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.readers.embedded import ras_text
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import of_input, of_rows

COUNTS: Final = of_input("ras_counts")
_FLAGS = words("init_state async_error finalize_called destroy_flag abort_flag unresponsive considered_dead")
RANKS: Final = of_input("ras_ranks")
_MOST_RANKS: Final = 1_000_000


def sniff(head: bytes, name: str) -> float:
    """High for the report as JSON; its text is read among the lines of a log (``embedded.ras_text``)."""
    if head.lstrip()[:1] == b"{":
        status = b'"communicators"' in head and b'"nccl_version"' in head
        event = b'"group"' in head and b'"event"' in head and b'"peer"' in head and b'"traceEvents"' not in head
        return 0.9 if status or event else 0.0
    return 0.0


def read(source: InputFile) -> Partial:
    """Table ``ras`` (facts, ``embedded.ras_text``); from JSON also ``ras_ranks`` and ``ras_counts``."""
    content = _side.read_content(source)
    text = content.text
    problem = ""
    tables: dict[str, pl.DataFrame] = {}
    if text.lstrip()[:1] == "{":
        documents, problem = _documents(text)
        tables = _from_json(documents)
    else:
        tables["ras"] = ras_text.scan_lines(_side.lines_frame(text))
    return _side.partial(source, tables, content.problem, problem, notes=garbage(tables.get("ras", pl.DataFrame())))


def _documents(text: str) -> tuple[list[dict[str, Any]], str]:
    """One status document, or monitor events one after another."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    at = 0
    while True:
        start = re.compile(r"\s*").match(text, at)
        at = start.end() if start else at
        if at >= len(text):
            return found, ""
        try:
            item, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            return found, f"the JSON ends early or is damaged ({error}); complete documents were kept"
        found.append(_side.mapping(item))


def _from_json(documents: list[dict[str, Any]]) -> dict[str, pl.DataFrame]:
    facts: list[dict[str, Any]] = []
    ranks: list[dict[str, Any]] = []
    counts: list[dict[str, Any]] = []
    for number, document in enumerate(documents):
        if "peer" in document:
            peer = _side.mapping(document.get("peer"))
            row = {"event": "peer", "status": _side.as_text(document.get("event"), 40), "report": number}
            row |= {"host": _side.as_text(peer.get("host")), "pid": _side.as_int(peer.get("pid"))}
            row["gpu"] = ",".join(str(d)[:9] for d in _side.sequence(peer.get("cuda_devs"))[:64]) or None
            facts.append({**row, "text": f"{document.get('timestamp')} {document.get('event')}"[:300]})
        for item in _side.sequence(document.get("communicators")):
            _communicator(_side.mapping(item), number, facts, ranks, counts)
        timeouts = _side.as_int(_side.mapping(document.get("ras")).get("timeouts_count"), 0)
        if timeouts:
            text = f"timeouts_count {timeouts}"
            facts.append({"event": "timeout", "count": timeouts, "report": number, "text": text})
    return {
        "ras": of_rows(facts, ras_text.SCHEMA),
        "ras_ranks": of_rows(ranks, RANKS),
        "ras_counts": of_rows(counts, COUNTS),
    }


_Rows: TypeAlias = list[dict[str, Any]]


def _communicator(comm: dict[str, Any], report: int, facts: _Rows, ranks: _Rows, counts: _Rows) -> None:
    comm_hash = (_side.as_text(comm.get("hash")) or "").lower().removeprefix("0x").rjust(16, "0")
    size = _side.as_int(comm.get("size"))
    before = len(ranks)
    missing = [_side.mapping(m) for m in _side.sequence(comm.get("missing_ranks"))]
    there = [_side.mapping(r) for r in _side.sequence(comm.get("ranks"))]
    for member, is_missing in (*((m, False) for m in there), *((m, True) for m in missing)):
        status = _side.mapping(member.get("status"))
        row: dict[str, Any] = {"comm_hash": comm_hash, "size": size, "missing": is_missing}
        row["host"] = _side.as_text(member.get("host"))
        row |= {k: _side.as_int(member.get(k)) for k in ("rank", "pid", "cuda_dev", "nvml_dev")}
        row |= {k: v if isinstance(v := status.get(k), bool) else _side.as_int(v) for k in _FLAGS}
        ranks.append(row)
        for op, count in _side.mapping(member.get("collective_counts")).items():
            told = {"op": op[:40], "op_count": _side.as_int(count, 0)}
            counts.append({"comm_hash": comm_hash, "rank": row["rank"], **told})
    count = _side.as_int(comm.get("missing_ranks_count"), 0) or len(missing)
    about = {"comm_hash": comm_hash, "report": report}
    if count:
        text = f"missing_ranks_count {count} of {size}"
        facts.append({"event": "incomplete", **about, "count": count, "ranks_per_comm": size, "text": text})
    for row in ranks[before:]:
        if row["missing"]:
            event = "dead_member" if row["considered_dead"] else "incomplete_member"
            gpu = None if row["cuda_dev"] is None else str(row["cuda_dev"])
            text = f"missing rank {row['rank']} process {row['pid']} on node {row['host']}"[:300]
            who = {column: row[column] for column in ("rank", "host", "pid")}
            facts.append({"event": event, **about, **who, "gpu": gpu, "text": text})


def corrupt(facts: pl.DataFrame, rows: pl.DataFrame, of: tuple[str, ...]) -> pl.DataFrame:
    """Those of the rows that cannot be true: more ranks missing than their communicator has, or ranks beyond it.

    ``of``: the columns that tell the reports apart.
    """
    sizes = facts.filter(pl.col("event") == "group").select(*of, "group", _size="ranks_per_comm")
    known = rows.filter(pl.col("group").is_not_null()).join(sizes, on=[*of, "group"], how="left")
    return known.filter((pl.col("count") > pl.col("_size")) | (pl.col("rank") >= pl.coalesce("_size", _MOST_RANKS)))


def garbage(facts: pl.DataFrame) -> list[tuple[str, str]]:
    """Values that cannot be true, in words."""
    if facts.is_empty():
        return []
    odd = corrupt(facts, facts.filter(pl.col("event").is_in(["incomplete", "incomplete_member"])), ("report",))
    why = "more than the communicator has; the report itself is corrupt"
    said = odd.select("line", "text").iter_rows()
    return [(called("report-incomplete"), f"line {line}: {text} - {why}") for line, text in said]


FORMAT = Format(kind="ras", sniff=sniff, read=read)

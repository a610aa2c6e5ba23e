"""NCCL Inspector: JSON records, one a line (also pretty printed), and its Prometheus text.

Sizes of AllGather and ReduceScatter are per rank in the records; here ``size_bytes`` is the whole buffer, as
nccl-tests counts it. A bus bandwidth of 0 means that Inspector has no formula for the operation.
"""

from __future__ import annotations

import json
import re

import polars as pl

from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.tables.run import Partial

_OPS = (
    "AllReduce",
    "AllGather",
    "ReduceScatter",
    "Broadcast",
    "Reduce",
    "Send",
    "Recv",
    "AllToAll",
    "Gather",
    "Scatter",
)
_FIELDS = {
    "process_group": (r'"id":\s*"([^"\\]{1,64})"', pl.String), "rank": (r'"rank":\s*([0-9]{1,9})\b', pl.Int32),
    "group_size": (r'"n_ranks":\s*([0-9]{1,9})\b', pl.Int32),
    "n_nodes": (r'"nnodes":\s*([0-9]{1,9})\b', pl.Int32),
    "comm_name": (r'"comm_name":\s*"((?:[^"\\]|\\.){0,200})"', pl.String),
    "host": (r'"hostname":\s*"([^"\\]{1,255})"', pl.String), "pid": (r'"pid":\s*([0-9]{1,12})\b', pl.Int64),
    "dump_timestamp_us": (r'"dump_timestamp_us":\s*([0-9]{1,18})\b', pl.Int64),
    "op": (r'"(?:coll|p2p)":\s*"([A-Za-z]{1,40})"', pl.String),
    "seq": (r'"(?:coll|p2p)_sn":\s*([0-9]{1,18})\b', pl.Int64),
    "peer": (r'"p2p_peer":\s*(-?[0-9]{1,9})\b', pl.Int32),
    "msg_size_bytes": (r'"(?:coll|p2p)_msg_size_bytes":\s*([0-9]{1,19})\b', pl.UInt64),
    "exec_time_us": (r'"(?:coll|p2p)_exec_time_us":\s*([0-9.]{1,30})\b', pl.Float64),
    "timing_source": (r'"(?:coll|p2p)_timing_source":\s*"([a-z_]{1,40})"', pl.String),
    "algbw_gbps": (r'"(?:coll|p2p)_algobw_gbs":\s*([0-9.eE+-]{1,40})', pl.Float64),
    "busbw_gbps": (r'"(?:coll|p2p)_busbw_gbs":\s*([0-9.eE+-]{1,40})', pl.Float64),
    "start_us": (r'"kernel_start_ts":\s*([0-9]{1,16})\b', pl.Int64),
}  # fmt: skip
_PROM = re.compile(
    r"^nccl_(?P<p2p>p2p_)?(?P<what>bus_bandwidth_gbs|(?:collective_)?exec_time_microseconds)\{(?P<labels>[^}]{0,2000})\}\s+(?P<value>[0-9.eE+-]{1,40})"
)


def sniff(head: bytes, name: str) -> float:
    """1 for Inspector records or its Prometheus metrics."""
    if b'"inspector_output_format_version"' in head or (b'"coll_perf"' in head and b'"n_ranks"' in head):
        return 0.95
    return (
        0.95
        if re.search(rb"^nccl_(?:p2p_)?(?:bus_bandwidth_gbs|exec_time|collective_exec_time)", head, re.M)
        else 0.0
    )


def read(source: InputFile) -> Partial:
    """Tables ``inspector`` (as written) and ``collectives``, or ``inspector_metrics`` from Prometheus text."""
    content = _side.read_content(source)
    text = content.text
    if re.search(r"^nccl_(?:p2p_|collective_)?(?:bus_bandwidth|exec_time)", text[:65536], re.M):
        tables = {"inspector_metrics": _metrics(text)}
        broken = 0
    else:
        records, broken = _records(text)
        tables = {"inspector": records, "collectives": _collectives(records)}
    result = {k: _side.with_input(v, source.input_id) for k, v in tables.items() if not v.is_empty()}
    problems = [content.problem] if content.problem else []
    if broken:
        problems.append(f"{broken:,} records are cut or damaged and were left out")
    if problems:
        result["notes"] = _side.notes(source.input_id, *(("trace-truncated", p) for p in problems))
    return Partial(result)


def _records(text: str) -> tuple[pl.DataFrame, int]:
    """All complete records, and how many were not: by line, or object by object when pretty printed."""
    lines = _side.lines_frame(text).filter(pl.col("text").str.strip_chars() != "")
    first = lines["text"].first()
    if not (isinstance(first, str) and first.lstrip().startswith("{") and first.rstrip().endswith("}")):
        lines = _objects(text)
    if lines.is_empty():
        return pl.DataFrame(), int(bool(text.strip()))
    body = pl.col("text").str.strip_chars()
    frame = lines.select(
        "line", body.str.ends_with("}").alias("_whole"),
        *(pl.col("text").str.extract(p).cast(t, strict=False).alias(n) for n, (p, t) in _FIELDS.items()),
    )  # fmt: skip
    good = frame.filter(pl.col("_whole") & pl.col("op").is_not_null() & pl.col("exec_time_us").is_not_null())
    return good.drop("_whole"), frame.height - good.height


def _objects(text: str) -> pl.DataFrame:
    """Each JSON object as one line of text; a cut last one is kept as it is."""
    decoder = json.JSONDecoder()
    rows: list[tuple[int, str]] = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        try:
            _, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            rows.append(
                (text.count("\n", 0, start) + 1, text[start : start + 4096].replace("\n", " ").rstrip("} "))
            )
            break
        rows.append((0, text[start:at].replace("\n", " ")))
    return pl.DataFrame(rows, schema={"line": pl.UInt64, "text": pl.String}, orient="row")


def _collectives(records: pl.DataFrame) -> pl.DataFrame:
    """Rows for ``collectives``: durations are those of the record, which include waiting for peers."""
    if records.is_empty():
        return pl.DataFrame()
    whole = pl.col("op").is_in(["AllGather", "ReduceScatter", "AllToAll", "Gather", "Scatter"])
    return records.select(
        "rank", "process_group", "group_size", "seq",
        pl.when(pl.col("op").is_in(_OPS)).then(pl.col("op")).otherwise(pl.lit("Other")).alias("op"),
        pl.when(whole).then(pl.col("msg_size_bytes") * pl.col("group_size").cast(pl.UInt64))
        .otherwise(pl.col("msg_size_bytes")).alias("size_bytes"),
        (pl.col("start_us") * 1000).alias("start_ns"),
        (pl.col("exec_time_us") * 1000).round().cast(pl.Int64).alias("duration_ns"),
        pl.when(pl.col("algbw_gbps") > 0).then(pl.col("algbw_gbps")).alias("algbw_gbps"),
        pl.when(pl.col("busbw_gbps") > 0).then(pl.col("busbw_gbps")).alias("busbw_gbps"),
        pl.lit("inspector").alias("source"), "host", "pid",
    )  # fmt: skip


def _metrics(text: str) -> pl.DataFrame:
    """Prometheus samples; message sizes are ranges there (``4-5GB``), so they stay text."""
    rows = []
    for line, raw in enumerate(text.split("\n"), 1):
        match = _PROM.match(raw)
        if match:
            labels = dict(re.findall(r'([a-z_]{1,40})="([^"]{0,200})"', match["labels"]))
            rows.append(
                {
                    "line": line, "metric": "busbw_gbps" if "bus" in match["what"] else "time_us",
                    "value": _side.as_float(match["value"]), "host": labels.get("node"), "gpu": labels.get("gpu"),
                    "comm_name": labels.get("comm_name"),
                    "op": labels.get("collective") or labels.get("p2p_operation"),
                    "size_range": labels.get("message_size"), "algorithm": labels.get("algo_proto"),
                    "nranks": _side.as_int(labels.get("nranks"), 0, 2**31 - 1),
                    "n_nodes": _side.as_int(labels.get("n_nodes"), 0, 2**31 - 1),
                }
            )  # fmt: skip
    schema = {
        "line": pl.UInt64, "metric": pl.String, "value": pl.Float64, "host": pl.String, "gpu": pl.String,
        "comm_name": pl.String, "op": pl.String, "size_range": pl.String, "algorithm": pl.String,
        "nranks": pl.Int32, "n_nodes": pl.Int32,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


FORMAT = Format(kind="inspector", sniff=sniff, read=read)

"""NCCL Inspector 4.0 to 4.4: JSON records, one per line (also pretty printed), and its Prometheus text.

From 4.1 each dump begins with a record ``dump_stats``, which counts what was dropped; from 4.3 only that record
carries the header, for as many records as it announces. From 4.4 steps of the proxy stand inside the record of their
operation, which may come in parts. Collectives of a communicator are numbered by type.

Sizes of AllGather and ReduceScatter are per rank in the records; here ``size_bytes`` is the whole buffer, as
nccl-tests counts it. A bus bandwidth of 0 means that Inspector has no formula for the operation.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

import polars as pl

from nccl_insight.base import toml
from nccl_insight.base.bandwidth import PER_RANK
from nccl_insight.base.data import dataclass
from nccl_insight.base.objects import object_of
from nccl_insight.base.words import pairs, words
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.tables.notes import DROPPED
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import known_op, of_input, of_rows

_FIELDS: Final = _side.patterns_of_fields(__file__, "records")
_HEADER = ("process_group", "rank", "group_size", "n_nodes", "comm_name", "host", "pid", "dump_timestamp_us")
_COUNTS = ("coll_records", "p2p_records", "proxy_records")
_DROPS: Final[Mapping[str, str]] = toml.beside(__file__)["drops"]
_PROXY_FIELDS: Final = _side.patterns_of_fields(__file__, "proxy")
_CONNECTION: Final = ("parent_type", "parent_sn", "proxy_op_sn", "channel_id", "peer", "direction")
_MOST_STEPS: Final = 100_000
_ALGORITHMS = pairs("""RING=Ring TREE=Tree COLLNET_DIRECT=CollNetDirect COLLNET_CHAIN=CollNetChain NVLS=NVLS
    NVLS_TREE=NVLSTree PAT=PAT SIMPLE=Simple LL=LL LL128=LL128""")
_PROM = re.compile(
    r"^nccl_(?P<p2p>p2p_)?(?P<what>bus_bandwidth_gbs|"
    r"(?:collective_)?exec_time_microseconds)\{(?P<labels>[^}]{0,2000})\}\s+(?P<value>[0-9.eE+-]{1,40})"
)
# Columns of the metrics by the labels that they are.
_LABELS = pairs("host=node gpu=gpu comm_name=comm_name size_range=message_size algorithm=algo_proto")
_METRIC = re.compile(rb"^nccl_(?:p2p_)?(?:bus_bandwidth_gbs|exec_time|collective_exec_time)", re.M)


def sniff(head: bytes, name: str) -> float:
    """0.95 for Inspector records or its Prometheus metrics."""
    if b'"inspector_output_format_version"' in head or (b'"coll_perf"' in head and b'"n_ranks"' in head):
        return 0.95
    named = b"bus_bandwidth_gbs" in head or b"exec_time" in head
    return 0.95 if named and _METRIC.search(head) else 0.0


def read(source: InputFile) -> Partial:
    """Tables ``inspector`` (as written), ``collectives`` and ``proxy_steps``, or ``inspector_metrics``."""
    content = _side.read_content(source)
    text = content.text
    if re.search(r"^nccl_(?:p2p_|collective_)?(?:bus_bandwidth|exec_time)", text[:65536], re.M):
        tables = {"inspector_metrics": _metrics(text)}
        found = _Found(pl.DataFrame(), pl.DataFrame(), 0, 0, ())
    else:
        found = _records(text)
        tables = {"inspector": found.records, "collectives": _collectives(found.records), "proxy_steps": found.proxy}
    problems = [content.problem]
    if found.broken:
        problems.append(f"{found.broken:,} records are cut or damaged and were left out")
    if found.bare:
        problems.append(
            f"{found.bare:,} records stand behind no dump marker, so their rank and communicator are unknown"
        )
    return _side.partial(source, tables, *problems, notes=((DROPPED, d) for d in found.dropped))


@dataclass(frozen=True)
class _Found:
    """What a file holds: records of operations, proxy records, damaged and header-less ones, what was dropped."""

    records: pl.DataFrame
    proxy: pl.DataFrame
    broken: int
    bare: int
    dropped: tuple[str, ...]


def _records(text: str) -> _Found:
    """All complete records, by line, or object by object when pretty printed."""
    lines = _side.lines_frame(text).filter(pl.col("text").str.strip_chars() != "")
    first = lines["text"].first()
    if not (isinstance(first, str) and first.lstrip().startswith("{") and first.rstrip().endswith("}")):
        lines = _objects(text)
    if lines.is_empty():
        return _Found(pl.DataFrame(), pl.DataFrame(), int(bool(text.strip())), 0, ())
    body = pl.col("text").str.strip_chars()
    frame = _with_context(
        lines.select(
            "line",
            "text",
            body.str.ends_with("}").alias("_whole"),
            pl.col("text").str.contains('"dump_stats"', literal=True).alias("_marker"),
            pl.col("text").str.contains('"proxy_trace"', literal=True).alias("_proxy"),
            *(pl.col("text").str.extract(p).cast(t, strict=False).alias(n) for n, (p, t) in _FIELDS.items()),
        )
    )
    whole = pl.col("_whole")
    complete = pl.col("op").is_not_null() & pl.col("exec_time_us").is_not_null()
    records = frame.filter(whole & ~pl.col("_marker") & ~pl.col("_proxy") & complete)
    markers = frame.filter(whole & pl.col("_marker"))
    proxy = frame.filter(whole & pl.col("_proxy"))
    known = records.height + markers.height + proxy.height
    bare = records["rank"].null_count() + proxy["rank"].null_count()
    kept = records.drop("_whole", "_marker", "_proxy", "text")
    return _Found(kept, _proxy_steps(proxy), frame.height - known, bare, _dropped(markers))


def _with_context(frame: pl.DataFrame) -> pl.DataFrame:
    """Records without a header (4.3) with that of the dump marker before them, as many as it announces."""
    if not frame["_marker"].any():
        return frame
    counts = [_total(c) for c in _COUNTS]
    marked = frame.with_columns(
        _dump=pl.col("_marker").cum_sum(), _left=pl.when("_marker").then(sum(counts[1:], counts[0]))
    ).with_columns(pl.col("_left").forward_fill(), _nth=pl.int_range(pl.len()).over("_dump"))
    inside = pl.col("process_group").is_null() & (pl.col("_nth") <= pl.col("_left")) & (pl.col("_dump") > 0)
    own = pl.col("_marker")
    filled = [
        pl.when(inside).then(pl.when(own).then(c).forward_fill()).otherwise(c).alias(c)
        for c in _HEADER
        if c in frame.columns
    ]
    return marked.with_columns(filled).drop("_dump", "_left", "_nth")


def _total(name: str) -> pl.Expr:
    """Number under a key of a record, 0 where it is missing."""
    pattern = rf'"{name}":\s*([0-9]{{1,18}})\b'
    return pl.col("text").str.extract(pattern).cast(pl.Int64, strict=False).fill_null(0)


def _dropped(markers: pl.DataFrame) -> tuple[str, ...]:
    """What each rank's recorder dropped, in words."""
    totals = markers.select("process_group", "rank", *(_total(n).alias(n) for n in _DROPS))
    most = totals.group_by("process_group", "rank", maintain_order=True).agg(pl.col(*_DROPS).max())
    texts = []
    for row in most.iter_rows(named=True):
        parts = [f"{row[name]:,} {what}" for name, what in _DROPS.items() if row[name]]
        if parts:
            rank = "?" if row["rank"] is None else row["rank"]
            texts.append(f"rank {rank} of communicator {row['process_group']} dropped {', '.join(parts)}")
    return tuple(texts)


def _proxy_steps(lines: pl.DataFrame) -> pl.DataFrame:
    """Proxy operations and their network steps; the waits are times from the start of that state to the next.

    The start of an operation is given only where its end is not in the file.
    """
    if lines.is_empty():
        return pl.DataFrame()
    lines = _unnested(lines)
    fields = (pl.col("text").str.extract(p).cast(t, strict=False).alias(n) for n, (p, t) in _PROXY_FIELDS.items())
    rows = lines.select("line", "host", "pid", pl.col("process_group").alias("comm_id"), "rank", *fields)
    one = ["host", "pid", "comm_id", "rank", "proxy_op"]
    ended = (pl.col("record") == "proxy_op").any().over(one)
    begun = pl.col("record") == "proxy_op_start"
    rows = rows.filter((pl.col("record") != "proxy_op_segment") & ~(begun & ended))
    begun = pl.col("record") == "proxy_op_start"
    unfinished = begun | (pl.col("end_us").is_null() & (pl.col("n_steps_completed") < pl.col("n_steps")))
    after_gpu = pl.coalesce("peer_wait_us", "wire_us", "end_us")
    return rows.with_columns(
        state=pl.when(unfinished).then(pl.lit("open")).otherwise(pl.lit("done")),
        start_ns=pl.col("start_us") * 1000,
        end_ns=pl.col("end_us") * 1000,
        gpu_wait_ns=pl.coalesce(
            pl.when(pl.col("direction") == "send").then(after_gpu - pl.col("gpu_wait_us")), "produce_us"
        )
        * 1000,
        peer_wait_ns=pl.coalesce(pl.col("wire_us") - pl.col("peer_wait_us"), "credit_us") * 1000,
        wire_ns=pl.coalesce(pl.coalesce("flush_us", "end_us") - pl.col("wire_us"), "transfer_us") * 1000,
    ).drop(words("start_us end_us gpu_wait_us peer_wait_us wire_us flush_us produce_us credit_us transfer_us"))


def _unnested(lines: pl.DataFrame) -> pl.DataFrame:
    """Records with a list of steps as one line for the operation and one for each step, with its connection."""
    nested = lines["text"].str.contains(r'"steps":\s*\[')
    if not nested.any():
        return lines
    rows: list[tuple[int, str]] = []
    for number, text in lines.with_row_index("at").filter(nested).select("at", "text").iter_rows():
        trace = dict(_side.mapping(object_of(text).get("proxy_trace")))
        steps = _side.sequence(trace.pop("steps", ()))
        place = {key: trace[key] for key in _CONNECTION if key in trace}
        rows.append((number, json.dumps({"proxy_trace": trace})))
        for step in steps[:_MOST_STEPS]:
            rows.append((number, json.dumps({**place, **_side.mapping(step), "record_type": "proxy_step"})))
    made = pl.DataFrame(rows, schema={"at": pl.UInt32, "text": pl.String}, orient="row")
    numbered = lines.with_row_index("at")
    made = made.join(numbered.drop("text"), on="at", how="left", maintain_order="left").select(numbered.columns)
    return pl.concat([numbered.filter(~nested), made]).sort("at", maintain_order=True).drop("at")


def _objects(text: str) -> pl.DataFrame:
    """Each JSON object as one line of text; a cut last one is kept as it is."""
    decoder = json.JSONDecoder()
    rows: list[tuple[int, str]] = []
    at = 0
    while (start := text.find("{", at)) >= 0:
        try:
            _, at = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            rows.append((text.count("\n", 0, start) + 1, text[start : start + 4096].replace("\n", " ").rstrip("} ")))
            break
        rows.append((0, text[start:at].replace("\n", " ")))
    return pl.DataFrame(rows, schema={"line": pl.UInt64, "text": pl.String}, orient="row")


def _collectives(records: pl.DataFrame) -> pl.DataFrame:
    """Rows for ``collectives``: durations are those of the record, which include waiting for peers."""
    if records.is_empty():
        return pl.DataFrame()
    whole = pl.col("op").is_in(list(PER_RANK))
    bytes_, ranks = pl.col("msg_size_bytes"), pl.col("group_size").cast(pl.UInt64)
    size = pl.when(whole).then(bytes_ * ranks).otherwise(bytes_).alias("size_bytes")
    start = (pl.col("start_us") * 1000).alias("start_ns")
    took = (pl.col("exec_time_us") * 1000).round().cast(pl.Int64, strict=False).alias("duration_ns")
    rates = (pl.when(pl.col(c) > 0).then(pl.col(c)).alias(c) for c in ("algbw_gbps", "busbw_gbps"))
    chosen = (pl.col(c).replace_strict(_ALGORITHMS, default=pl.col(c)).alias(c) for c in ("algorithm", "protocol"))
    timed = (known_op("op").alias("op"), size, start, took, *rates, *chosen)
    source = pl.lit("inspector").alias("source")
    return records.select("rank", "process_group", "group_size", "seq", *timed, "peer", source, "host", "pid")


def _metrics(text: str) -> pl.DataFrame:
    """Prometheus samples; message sizes are ranges there (``4-5GB``), so they stay text."""
    rows: list[dict[str, object]] = []
    for line, raw in enumerate(text.split("\n"), 1):
        match = _PROM.match(raw)
        if match:
            labels = dict(re.findall(r'([a-z_]{1,40})="([^"]{0,200})"', match["labels"]))
            metric = "busbw_gbps" if "bus" in match["what"] else "time_us"
            row = {"line": line, "metric": metric, "value": _side.as_float(match["value"])}
            row |= {column: labels.get(label) for column, label in _LABELS.items()}
            row["op"] = labels.get("collective") or labels.get("p2p_operation")
            row |= {count: _side.as_int(labels.get(count), 0, 2**31 - 1) for count in ("nranks", "n_nodes")}
            rows.append(row)
    return of_rows(rows, of_input("inspector_metrics"))


FORMAT = Format(kind="inspector", sniff=sniff, read=read)

"""Output of NCCL's example profiler plugin: begin and end events, one per line, often not valid JSON.

Older builds leave enums and pointers unquoted, lists end with an empty object or not at all, and time stamps of
API events may be 0. Lines are therefore read by pattern. Times are microseconds since the plugin started.
"""

import re

import polars as pl

from nccl_insight.base.bandwidth import OWN, dtype_size_expr
from nccl_insight.inputs.find import InputFile
from nccl_insight.readers import Format
from nccl_insight.readers import side as _side
from nccl_insight.tables.run import Partial
from nccl_insight.tables.schema import known_op

_CATS = b"GROUP_API|COLL_API|P2P_API|KERNEL_LAUNCH|GROUP|COLL|P2P|PROXY|NET|GPU|CE_COLL"
_EVENT = rb'"cat":\s*"(?:' + _CATS + rb')",\s*"ph":\s*"[be]"'
_FIELDS = _side.patterns_of_fields(__file__, "events")


def sniff(head: bytes, name: str) -> float:
    """0.95 for a list of the plugin's events."""
    return 0.95 if re.search(_EVENT, head) and b'"traceEvents"' not in head else 0.0


def read(source: InputFile) -> Partial:
    """Tables ``profiler_events`` (begin joined with end) and ``collectives`` (COLL and P2P events)."""
    content = _side.read_content(source)
    lines = _side.lines_frame(content.text)
    text = pl.col("text")
    events = lines.filter(text.str.contains('"ph"', literal=True)).select(
        "line", *(text.str.extract(p).cast(t, strict=False).alias(n) for n, (p, t) in _FIELDS.items())
    )
    broken = events.filter(pl.any_horizontal(pl.col("cat", "ph", "id", "ts_us").is_null())).height
    joined = _join(events.filter(pl.all_horizontal(pl.col("cat", "ph", "id", "ts_us").is_not_null())))
    tables = {"profiler_events": joined, "collectives": _collectives(joined)}
    problems = [content.problem]
    if broken:
        problems.append(f"{broken:,} events are damaged and were left out")
    if not content.text.rstrip().endswith("]"):
        problems.append("the list has no end: the process stopped while writing")
    return _side.partial(source, tables, *problems)


def _join(events: pl.DataFrame) -> pl.DataFrame:
    """One row a begin event with the time of its end (null where the end is missing)."""
    key = ["pid", "cat", "name", "id"]
    ends = events.filter(pl.col("ph") == "e").group_by(key).agg(pl.col("ts_us").max().alias("end_us"))
    return (
        events.filter(pl.col("ph") == "b")
        .join(ends, on=key, how="left", maintain_order="left")
        .drop("ph")
        .rename({"ts_us": "begin_us"})
    )


def _collectives(events: pl.DataFrame) -> pl.DataFrame:
    """Algorithm and protocol are those that ran. Durations span the host's begin and end of the operation."""
    calls = events.filter(pl.col("cat").is_in(["COLL", "P2P"]))
    if calls.is_empty():
        return pl.DataFrame()
    size = dtype_size_expr(pl.col("dtype"))
    timed = (pl.col("end_us") > pl.col("begin_us")) & (pl.col("begin_us") > 0)
    whole = pl.col("name").is_in(list(OWN))
    begin, took = pl.col("begin_us"), pl.col("end_us") - pl.col("begin_us")
    start_ns, took_ns = ((us * 1000).round().cast(pl.Int64, strict=False) for us in (begin, took))
    group, op = pl.col("comm_hash").alias("process_group"), known_op("name").alias("op")
    bytes_, dtype = pl.when(whole).then(pl.col("count") * size), pl.col("dtype").str.strip_prefix("nccl")
    start, ran = pl.when(begin > 0).then(start_ns).alias("start_ns"), pl.when(timed).then(took_ns).alias("duration_ns")
    what = ("rank", group, "seq", op, bytes_.alias("size_bytes"), dtype, start, ran)
    return calls.select(*what, "algorithm", "protocol", pl.lit("inspector").alias("source"), "pid")


FORMAT = Format(kind="inspector", sniff=sniff, read=read)

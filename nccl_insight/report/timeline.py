"""The collectives of all ranks on one clock, as Chrome JSON, which Perfetto (ui.perfetto.dev) and browsers open.

One process a rank, one thread per stream, one slice a collective, within it the time that the rank waited for the last
one and the transfer; an arrow leads from the arrival of the last rank to the transfer of each rank that waited for it.
Format: "Trace Event Format" of the Chromium project.
"""

from __future__ import annotations

from typing import Any

import orjson
import polars as pl

from nccl_insight.report.sanitize import one_line
from nccl_insight.tables.run import Run

_LEAST_WAIT_NS = 1_000
_TEXT_MOST = 200
_STEPS = 0
"""Thread number of the steps; streams are numbered from 1."""


def chrome_json(run: Run) -> bytes:
    """The timeline of a run; a list of events that may be empty."""
    table = run.table("collectives").filter(
        pl.col("rank").is_not_null() & pl.col("start_ns").is_not_null() & (pl.col("duration_ns") >= 0)
    )
    table = _on_one_clock(run, table).sort("rank", "start_ns")
    events: list[dict[str, Any]] = []
    if table.height:
        lanes = (
            table.select("rank", "device", "stream")
            .unique()
            .sort("rank", "device", "stream", nulls_last=False)
        )
        lanes = lanes.with_columns(lane=pl.int_range(1, pl.len() + 1).over("rank"))
        table = table.join(lanes, on=["rank", "device", "stream"], nulls_equal=True, maintain_order="left")
        steps = _step_rows(run)
        # Viewers drop what lies before the beginning of time.
        origin = min(int(str(frame["start_ns"].min())) for frame in (table, steps) if frame.height)
        events += _names(lanes)
        events += _slices(table, origin)
        events += _arrows(table, origin)
        events += _steps(steps, origin)
    return orjson.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def _on_one_clock(run: Run, table: pl.DataFrame) -> pl.DataFrame:
    """Times without the constant offset of each rank's clock, where the clocks are not the same."""
    clocks = run.table("trace_clocks")
    if clocks["comparable"].all():
        return table
    return (
        table.join(clocks.select("rank", "offset_ns"), on="rank", how="left", maintain_order="left")
        .with_columns(pl.col("start_ns") - pl.col("offset_ns").fill_null(0))
        .drop("offset_ns")
    )


def _names(lanes: pl.DataFrame) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for rank in lanes["rank"].unique().sort().to_list():
        events.append(
            {"ph": "M", "name": "process_name", "pid": rank, "tid": 0, "args": {"name": f"rank {rank}"}}
        )
        events.append(
            {"ph": "M", "name": "process_sort_index", "pid": rank, "tid": 0, "args": {"sort_index": rank}}
        )
        events.append(
            {"ph": "M", "name": "thread_name", "pid": rank, "tid": _STEPS, "args": {"name": "steps"}}
        )
    for rank, stream, lane in lanes.select("rank", "stream", "lane").iter_rows():
        name = f"stream {stream}" if stream is not None else "collectives"
        events.append({"ph": "M", "name": "thread_name", "pid": rank, "tid": lane, "args": {"name": name}})
    return events


def _slices(table: pl.DataFrame, origin: int) -> list[dict[str, Any]]:
    columns = ("rank", "lane", "start_ns", "duration_ns", "op", "process_group", "seq", "size_bytes", "wait_ns",
               "busbw_gbps", "peer", "step", "match_id")  # fmt: skip
    events: list[dict[str, Any]] = []
    for rank, lane, start, took, op, *rest in table.select(columns).iter_rows():
        known = dict(zip(columns[5:], rest, strict=True))
        args = {
            k: one_line(v, _TEXT_MOST) if isinstance(v, str) else v for k, v in known.items() if v is not None
        }
        events.append(
            {
                "ph": "X", "cat": "collective", "name": op or "communication", "pid": rank, "tid": lane,
                "ts": (start - origin) / 1000, "dur": took / 1000, "args": args,
            }
        )  # fmt: skip
    return events


def _arrows(table: pl.DataFrame, origin: int) -> list[dict[str, Any]]:
    """From the start of the last to arrive to every rank that waited for it, whose waiting is a slice of its own.

    Perfetto lets an arrow begin at the slice that started first, whatever its events say; so it leads to the transfer,
    which begins when the last rank has come.
    """
    matched = table.filter(pl.col("match_id").is_not_null() & pl.col("wait_ns").is_not_null())
    last = matched.sort("wait_ns", "rank").unique("match_id", keep="first", maintain_order=True)
    last = last.select("match_id", last_rank="rank", last_lane="lane", at="start_ns")
    waiting = matched.filter(pl.col("wait_ns") >= _LEAST_WAIT_NS).join(last, on="match_id")
    end = pl.col("start_ns") + pl.col("duration_ns")
    rows = waiting.filter(
        (pl.col("rank") != pl.col("last_rank")) & pl.col("at").is_between("start_ns", end, closed="none")
    ).select("last_rank", "last_lane", "at", "rank", "lane", "start_ns", end=end)
    events: list[dict[str, Any]] = []
    for number, (source, lane, at, rank, to, start, ends) in enumerate(rows.iter_rows(), 1):
        place = {"pid": rank, "tid": to, "args": {}}
        from_us, at_us = (start - origin) / 1000, (at - origin) / 1000
        common = {"cat": "waited for", "name": "waited for", "id": number, "ts": at_us}
        events += (
            {"ph": "X", "cat": "waiting", "name": f"waiting for rank {source}", "ts": from_us,
             "dur": (at - start) / 1000, **place},
            {"ph": "X", "cat": "transfer", "name": "transfer", "ts": at_us, "dur": (ends - at) / 1000, **place},
            {**common, "ph": "s", "pid": source, "tid": lane},
            {**common, "ph": "f", "bp": "e", "pid": rank, "tid": to},
        )  # fmt: skip
    return events


def _step_rows(run: Run) -> pl.DataFrame:
    """``rank, step, start_ns, duration_ns`` of the steps, on the clock of the collectives."""
    rows = run.table("steps").filter(
        pl.col("rank").is_not_null() & pl.col("step").is_not_null() & pl.col("start_ns").is_not_null()
    )
    return (
        _on_one_clock(run, rows)
        .group_by("rank", "step")
        .agg(pl.col("start_ns").min(), pl.col("duration_ns").max())
        .sort("rank", "start_ns")
    )


def _steps(rows: pl.DataFrame, origin: int) -> list[dict[str, Any]]:
    return [
        {
            "ph": "X", "cat": "step", "name": f"step {step}", "pid": rank, "tid": _STEPS,
            "ts": (start - origin) / 1000, "dur": (took or 0) / 1000, "args": {},
        }
        for rank, step, start, took in rows.iter_rows()
    ]  # fmt: skip

"""Inputs that were built to end the run, to fill the memory, or to be read where nothing may be read."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.loading import reading
from nccl_insight.readers import Format
from nccl_insight.share import api
from tests.runs import RUNS

HALF = "\ud800"
GOOD = (RUNS / "tiny-shm" / "run.log").read_text(encoding="utf-8")
KERNEL = {
    "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 7, "ts": 10,
    "dur": 5, "args": {"device": 0, "stream": 7, "Collective name": "allreduce", "In msg nelems": 4, "Group size": 2},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("kernel.json", {"traceEvents": [{**KERNEL, "name": KERNEL["name"] + HALF}, KERNEL]}),
        ("group.json", {"traceEvents": [{**KERNEL, "args": {**KERNEL["args"], "Process Group Name": HALF}}]}),
        ("head.json", {"distributedInfo": {"backend": HALF, "rank": 0, "world_size": 2,
                                           "pg_config": [{"pg_name": HALF, "pg_desc": HALF, "ranks": [0]}]},
                       "deviceProperties": [{"id": 0, "name": HALF}], "traceEvents": [KERNEL]}),
        ("ras.json", {"nccl_version": "2.28.9", "communicators": [
            {"hash": "0x1", "size": 2, "ranks": [{"rank": 0, "host": f"h{HALF}", "pid": 1}]}]}),
        ("recorder.json", {"version": "2.9", "entries": [
            {"frames": [{"name": HALF, "filename": HALF, "line": 1}], "record_id": 1, "pg_id": 0,
             "process_group": ["0", HALF], "collective_seq_id": 1, "op_id": 1, "profiling_name": "nccl:all_reduce",
             "time_created_ns": 1, "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]],
             "output_dtypes": ["Float"], "state": "started", "timeout_ms": 1, "is_p2p": False}]}),
    ],
)  # fmt: skip
def test_half_a_character_costs_one_character(tmp_path: Path, name: str, document: object) -> None:
    (tmp_path / name).write_text(json.dumps(document), encoding="ascii")
    (tmp_path / "good.log").write_text(GOOD, encoding="utf-8")
    analysis = api.analyze(api.load(tmp_path))
    assert "shm-too-small" in {f.name for f in analysis.findings}
    assert {i.kind for i in analysis.inputs} & {"unreadable"} == set()


def test_whole_characters_beyond_16_bits_stay(tmp_path: Path) -> None:
    kernel = {**KERNEL, "args": {**KERNEL["args"], "Process Group Name": "group \U0001f600"}}
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": [kernel, {**kernel, "name": HALF}]}))
    assert api.load(tmp_path).table("collectives")["process_group"].to_list() == ["group \U0001f600"]


def test_a_reader_that_fails_costs_its_input(tmp_path: Path) -> None:
    def broken(source: object) -> object:
        raise ValueError("unexpected")

    (tmp_path / "a.txt").write_text("x")
    file = api.load(tmp_path).inputs[0]
    part = reading.read_with(file, Format(kind="kineto", sniff=lambda *_: 1.0, read=broken))  # type: ignore[arg-type]
    assert part.kind == "unreadable"
    assert part.partial is not None
    row = part.partial.tables["unreadable"].row(0, named=True)
    assert row["what"] == "kineto"
    assert "ValueError: unexpected" in row["why"]


def test_parquet_with_more_rows_than_bytes_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"id": [1], "value": ["k"]}).write_parquet(tmp_path / "StringIds.parquet")
    columns = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName")
    pl.select(pl.repeat(1, 1_000_000, dtype=pl.Int64).alias(c) for c in columns).write_parquet(
        tmp_path / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    )
    notes = api.load(tmp_path).table("notes")["detail"].to_list()
    assert any("more rows or longer texts" in str(note) for note in notes)

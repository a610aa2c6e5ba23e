"""Inputs that were built to end the run, to fill the memory, or to be read where nothing may be read."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.base.errors import UsageError
from nccl_insight.engine.policy.config import read_file
from nccl_insight.inputs import temporary
from nccl_insight.inputs.stream import Stream
from nccl_insight.loading import reading
from nccl_insight.readers import Format
from nccl_insight.share import api
from nccl_insight.tables.sql import check_sql, select
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


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_empty_members_without_end_are_cut(tmp_path: Path, suffix: str) -> None:
    member = {"gz": gzip, "bz2": bz2, "xz": lzma}[suffix].compress(b"")
    path = tmp_path / f"a.log.{suffix}"
    kind = {"gz": "gzip", "bz2": "bzip2", "xz": "xz"}[suffix]
    path.write_bytes(member * 1_000)
    with Stream(path, kind) as stream:
        assert (stream.read(), stream.damage) == (b"", "")
    path.write_bytes(member * 3_000)
    with Stream(path, kind) as stream:
        assert stream.read() == b""
        assert "empty members" in stream.damage


def test_directories_of_others_are_not_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kept = []
    for name in ("nccl-insight-results", "nccl-insight-ab12cd34", "nccl-insight-zz_2cd34"):
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        (folder / ".lock").touch()
        (folder / ".nccl-insight.lock").touch()
        (folder / "thesis.txt").write_text("mine")
        kept.append(folder / "thesis.txt")
    gone = tmp_path / "nccl-insight-ab12cd35"
    (gone / "1").mkdir(parents=True)
    gone.chmod(0o700)
    (gone / ".nccl-insight.lock").touch()
    (gone / "1" / "copy.log").write_text("x")
    temporary.clear()
    place = temporary.place()
    assert place.parent.is_dir()
    assert all(path.is_file() for path in kept)
    assert not gone.exists()
    temporary.clear()


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a = " + "9" * 6_000])
def test_a_configuration_that_cannot_be_parsed_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nccl-insight.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="not valid TOML"):
        read_file(path)


SECRET = "read_csv('/etc/passwd')"


@pytest.mark.parametrize(
    "sql",
    [
        f'select 1 as "--", * from {SECRET}', f'select 1 as "/*", * from {SECRET}',
        f"select 1 as \"'\", * from {SECRET}",
        f"select 1 as `'`, * from {SECRET}", f"select $$'$$ as a, * from {SECRET}",
        f'select "key" as "--" from {SECRET}',
        f"select E'\\'' as a, * from {SECRET}", f"select * from a, {SECRET}", f'select """--" as a from {SECRET}',
        f"select * from ranks where rank in (select \"a\" as \"--\" from {SECRET})", "select * from `read_csv`('x')",
        "select * from generate_series(1, 10000000000)", "select lpad('x', 2000000000, 'y')", "select repeat('x', 10)",
        "create table x as select * from ranks", "drop table ranks", "values (1)", "", "copy ranks to 'x'",
        "select " + "(" * 3_000 + "1" + ")" * 3_000, "select " + "1+" * 3_000 + "1",
        "select " + "not " * 3_000 + "true",
        "with recursive a as (select 1) select * from a",
    ],
)  # fmt: skip
def test_sql_reads_tables_only(sql: str) -> None:
    with pytest.raises(UsageError, match="query:"):
        check_sql(sql)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select '-- read_csv(' as a", 1), ("select rank as \"a -- b\" from ranks where rank in (0, 1)", 2),
        ("select count(*) from ranks -- how many\n", 1), ("with x as (select rank from ranks) select * from x", 4),
        ("(select max(rank) from ranks)", 1), ("select 'it''s' as `a b`", 1),
        ("select rank, row_number() over (order by rank) from ranks", 4),
        ("select cast(rank as varchar(9)) from ranks where not (rank > 5)", 4), ("explain select * from ranks", 1),
        ("select case when rank > (0) then (1) else (2) end from ranks", 4),
    ],
)  # fmt: skip
def test_ordinary_sql_is_answered(sql: str, rows: int) -> None:
    assert select(api.load(RUNS / "tiny-shm" / "run.log"), sql).height == rows

"""Parquet directories of Nsight Systems give what the SQLite export of the same report gives."""

from __future__ import annotations

import sqlite3
import struct
from pathlib import Path

import polars as pl
import pytest

import nccl_insight
from tests import runs
from tests.cli import run_cli
from tests.nsys_exports import SECRET, Export, payload

SHARED = runs.SHARED / "traces"


def _as_folder(database: Path, folder: Path) -> Path:
    """What ``nsys export --type parquetdir`` makes: a file per table."""
    folder.mkdir()
    with sqlite3.connect(database) as base:
        tables = [r[0] for r in base.execute("select name from sqlite_master where type = 'table'")]
        for table in tables:
            cursor = base.execute(f'select * from "{table}"')
            names = [c[0] for c in cursor.description]
            columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
            frame = pl.DataFrame({n: list(c) for n, c in zip(names, columns, strict=True)}, strict=False)
            frame.write_parquet(folder / f"{table}.parquet")
    base.close()
    return folder


def _report(path: Path) -> Path:
    export = Export(path).gpu().schemas()
    for pid, rank in ((100, 0), (101, 1)):
        init = payload(900, struct.pack("<Qiii", 77, 2, rank, rank) + b"\0" * 4)
        export.mark("ncclCommInitRankConfig", 10, 20, pid, init)
        export.mark("ncclAllReduce", 1000, 1100, pid, payload(901, struct.pack("<QQi", 77, 1 << 20, 0)))
        export.launch(1050, pid, 7)
        export.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2000 + 500 * rank, 4000, pid, 0, 7)
        export.mark("ProfilerStep#3", 900, 5000, pid, by_id=False)
    export.kernel("gemm", 3000, 3500, 100, 0)
    export.db.commit()
    export.db.close()
    return path


def _same(one: nccl_insight.Run, other: nccl_insight.Run) -> None:
    for name in ("collectives", "steps", "memcpy", "other_communication", "trace_info", "notes"):
        assert other.table(name).equals(one.table(name)), name


def test_a_folder_reads_as_the_database(tmp_path: Path) -> None:
    base = _report(tmp_path / "r.sqlite")
    folder = _as_folder(base, tmp_path / "r_pqtdir")
    run = nccl_insight.load([folder])
    assert run.table("inputs").select("kind").rows() == [("nsys_parquet",)]
    assert run.table("collectives").select("rank", "size_bytes", "wait_ns").sort("rank").rows() == [
        (0, 1 << 20, 500),
        (1, 1 << 20, 0),
    ]
    _same(nccl_insight.load([base]), run)
    # The file that stands for the folder may be named itself.
    _same(run, nccl_insight.load([folder / "StringIds.parquet"]))


@pytest.mark.skipif(
    not (SHARED / "nsys_own_2022_4").exists(), reason="reference traces: set NCCL_INSIGHT_REFERENCE_DATA"
)
def test_a_recorded_report(tmp_path: Path) -> None:
    (base,) = (SHARED / "nsys_own_2022_4").glob("*.sqlite")
    folder = _as_folder(base, tmp_path / "x_pqtdir")
    _same(nccl_insight.load([base]), nccl_insight.load([folder]))


def test_damage_is_a_note_and_private_files_stay_closed(tmp_path: Path) -> None:
    folder = _as_folder(_report(tmp_path / "r.sqlite"), tmp_path / "r_pqtdir")
    kernels = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    whole = kernels.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"PAR1" + b"\xff" * 200 + b"PAR1", b""):
        kernels.write_bytes(damaged)
        run = nccl_insight.load([folder])
        (note,) = run.table("notes").rows(named=True)
        assert note["kind"] == "trace-truncated"
        assert "CUPTI_ACTIVITY_KIND_KERNEL.parquet" in note["detail"]
    kernels.write_bytes(whole)
    private = (folder / "TARGET_INFO_SYSTEM_ENV.parquet").read_bytes()
    assert SECRET.encode() in private
    (folder / "TARGET_INFO_SYSTEM_ENV.parquet").write_bytes(b"not to be opened")
    assert nccl_insight.load([folder]).table("collectives").height == 2


def test_a_footer_without_its_data_makes_no_report_of_a_panic(tmp_path: Path) -> None:
    """polars panics in a thread of its own there, whose report goes to standard error past Python."""
    folder = _as_folder(_report(tmp_path / "r.sqlite"), tmp_path / "r_pqtdir")
    kernels = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    frame = pl.read_parquet(kernels)
    many = pl.concat([frame] * (5000 // frame.height)).with_columns(pl.int_range(pl.len()).alias("start"))
    many.write_parquet(kernels, compression="uncompressed")
    whole = kernels.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    kernels.write_bytes(whole[:4] + whole[-footer:])
    done = run_cli("analyze", folder, "--exit-zero", env={"RUST_BACKTRACE": "1"})
    assert done.returncode == 3
    assert "panicked" not in done.stderr
    assert "stack backtrace" not in done.stderr
    assert "Traceback" not in done.stderr


def test_other_parquet_files_of_a_directory_are_no_inputs(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "data.parquet")
    (tmp_path / "run.log").write_text("node-a:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>\n")
    assert nccl_insight.load([tmp_path]).table("inputs")["kind"].to_list() == ["nccl_log"]

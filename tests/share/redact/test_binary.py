"""Databases and pickles: the redacted copy gives the same tables and holds none of the planted names."""

from __future__ import annotations

import gzip
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import nccl_insight
from nccl_insight.inputs.find import find_inputs
from nccl_insight.share.redact import binary, collect
from tests.cli import run_cli
from tests.share.redact.classes_of_names import LINES

HOST, USER, ADDRESS = "zqpart07", "zqbob", "10.77.31.5"
SECRETS = (HOST, USER, ADDRESS, "zqcorp", "zqmodel", "89abcdef01234567", "5f8a12b4-9b3a")


def database(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table StringIds (id integer primary key, value text)")
        made.execute(
            "create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, "
            "globalPid, demangledName, shortName)"
        )
        made.execute("create table NVTX_EVENTS (start, end, eventType, text, textId, globalTid, domainId, binaryData)")
        made.execute("create table TARGET_INFO_SYSTEM_ENV (name text, value text)")
        made.execute('create table "odd ""table" (x text)')
        made.execute("create table PROCESS_STREAMS (value text)")
        names = [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
            f"/home/{USER}/train.py",
            f"ProfilerStep#1 on {HOST}",
            "unused: zqmodel",
        ]
        made.executemany("insert into StringIds values (?, ?)", list(enumerate(names)))
        for i in range(20):
            row = [1000 * i, 1000 * i + 500, 0, 1, 7, i, 281474976710656, 0, 0]
            made.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,?,?,?,?,?,?,?)", row)
        event = (0, 9000, 59, f"step at {ADDRESS}", 2, 281474976710656, 0, b"\x01\x02zqcorp secret")
        made.execute("insert into NVTX_EVENTS values (?,?,?,?,?,?,?,?)", event)
        made.executemany("insert into TARGET_INFO_SYSTEM_ENV values (?, ?)", [("Hostname", HOST), ("Key", "zqcorp")])
        made.execute("insert into PROCESS_STREAMS values ('0123456789abcdef0123456789abcdef01234567')")
        made.commit()
    return path


def dump(**more: Any) -> dict[str, Any]:
    entry = {
        "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 1, "op_id": 1,
        "profiling_name": "nccl:all_reduce", "time_created_ns": 10**18, "input_sizes": [[8]], "output_sizes": [[8]],
        "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": "started", "is_p2p": False, "retired": False,
        "timeout_ms": 600000, "frames": [{"name": "step", "filename": f"/home/{USER}/train.py", "line": 7}],
    }  # fmt: skip
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": [entry],
        "host": f"{HOST}.zqcorp.io",
        "note": [f"{HOST} at {ADDRESS}", "GPU-5f8a12b4-9b3a-4c5d-a1b2-c3d4e5f60718"],
        "env": {"WANDB_API_KEY": "x", "line": "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567"},
        **more,
    }


def tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    run = nccl_insight.load(path)
    names = ("collectives", "flight_recorder", "flight_recorder_groups", "steps", "trace_info")
    return {name: run.table(name).drop("input_id").to_dicts() for name in names}


def test_copies_hold_no_planted_name_and_give_the_same_tables(tmp_path: Path) -> None:
    given = tmp_path / "in"
    given.mkdir()
    database(given / "a.sqlite")
    (given / "b.sqlite.gz").write_bytes(gzip.compress((given / "a.sqlite").read_bytes()))
    (given / "c_rank3.dump").write_bytes(pickle.dumps(dump(rank=3), protocol=2))
    (given / "d.log").write_text(f"{HOST}:1:1 [0] NCCL INFO Bootstrap: Using eth0:{ADDRESS}<0>\n" + "\n".join(LINES))
    out = tmp_path / "out"
    result = run_cli("redact", given, "-o", out)
    assert result.returncode == 0, result.stderr
    made = sorted(p.name for p in out.iterdir())
    assert made == ["input1.sqlite", "input2.sqlite.gz", "input3-rank3", "input4.log"]
    blobs = {n: (out / n).read_bytes() for n in made}
    blobs["input2.sqlite.gz"] = gzip.decompress(blobs["input2.sqlite.gz"])
    for name, blob in blobs.items():
        assert not [s for s in SECRETS if s.encode() in blob], name
    with closing(sqlite3.connect(out / "input1.sqlite")) as copy:
        kept = {r[0] for r in copy.execute("select name from sqlite_master")}
        texts = [r[0] for r in copy.execute("select value from StringIds")]
    assert kept == {"CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS", "StringIds"}
    assert len(texts) == 2, "only texts that the kept tables name"
    assert tables(out / "input1.sqlite")["collectives"] == tables(given / "a.sqlite")["collectives"]
    before, after = tables(given / "c_rank3.dump"), tables(out / "input3-rank3")
    assert len(after["flight_recorder"]) == 1
    assert after["flight_recorder_groups"] == before["flight_recorder_groups"]
    assert [r["op"] for r in after["collectives"]] == [r["op"] for r in before["collectives"]]


def test_shared_and_circular_data_is_written_as_it_is(tmp_path: Path) -> None:
    deep: list[Any] = [f"{HOST} up"]
    for _ in range(60):
        deep = [deep, deep]
    around: list[Any] = []
    around.append(around)
    path = tmp_path / "x.dump"
    path.write_bytes(pickle.dumps(dump(deep=deep, around=around), protocol=4))
    (file,) = find_inputs([path])
    redactor = collect(nccl_insight.load(path), binary.texts_of(file))
    assert binary.write_redacted(file, redactor, tmp_path / "y.dump") == ""
    made = pickle.loads((tmp_path / "y.dump").read_bytes())
    assert made["deep"][0] is made["deep"][1]
    assert made["around"][0] is made["around"]


def test_what_cannot_be_read_is_left_out_and_said(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"SQLite format 3\0" + bytes(500))
    (tmp_path / "b.dump").write_bytes(b"\x80\x04cos\nsystem\n(S'x'\ntR.")
    (tmp_path / "c.log").write_text("h1:1:1 [0] NCCL INFO x\n")
    result = run_cli("redact", tmp_path, "-o", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["input3.log"]
    assert result.stdout.count("Left out:") == 2
    half = database(tmp_path / "half.sqlite").read_bytes()
    (tmp_path / "half.sqlite").write_bytes(half[: len(half) * 2 // 3])
    result = run_cli("redact", tmp_path / "half.sqlite", "-o", tmp_path / "more")
    assert "Traceback" not in result.stderr
    assert HOST not in "".join(p.read_text("latin-1") for p in (tmp_path / "more").glob("*.sqlite"))

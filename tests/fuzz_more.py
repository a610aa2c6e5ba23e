# ruff: noqa: E501
"""Further kinds of :mod:`tests.fuzz`: profiles of XLA, databases of rocprofv3, Parquet folders of Nsight Systems, questions of agents, SQL, live files."""

from __future__ import annotations

import io
import json
import os
import random
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import nccl_insight
from nccl_insight.base.errors import InsightError
from nccl_insight.live.watch.files import Follower
from nccl_insight.share.agents.server import answer
from nccl_insight.share.agents.tools import Desk
from nccl_insight.tables import schema
from nccl_insight.tables.sql import columns, overview, select
from tests import xplane_maker
from tests.nsys_exports import Export
from tests.nsys_exports import payload as nvtx_payload
from tests.rocpd_databases import database as rocpd_database
from tests.runs import RUNS, TINY_SHM
from tests.xplane_maker import Plane

Judge = Callable[[Path], None]
SECRET = "outside-7f3a"
_NAMES = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "gemm_fusion", "MemcpyD2H", "", "\x1b[31m",
    "x" * 5000, "rccl_main_kernel", "all-reduce-start.3", "/device:GPU:0", "/host:CPU", "Stream #9(Kernel)", "XLA Ops", "é\u202e",
)  # fmt: skip
_NUMBERS = (0, 1, 7, -1, 2**31, 2**53, 2**63 - 1, -(2**63), 10**18)


def _damaged(data: bytes, rng: random.Random, keep: int = 0) -> bytes:
    """Some bytes changed, the end sometimes cut; ``keep``: bytes at the start that stay."""
    out = bytearray(data)
    for _ in range(rng.choice([0, 0, 1, 4, 30])):
        if len(out) > keep:
            out[rng.randrange(keep, len(out))] = rng.randrange(256)
    return bytes(out[: rng.choice([len(out), len(out), rng.randrange(1, len(out) + 1)])])


def xplane(rng: random.Random) -> bytes:
    """A profile of odd planes, lines and statistics."""
    planes = []
    for index in range(rng.randrange(1, 4)):
        plane = Plane(
            rng.choice([f"/device:GPU:{index}", f"/device:GPU:{index}", "/host:CPU", rng.choice(_NAMES)]),
            rng.random() < 0.5,
        )
        for _ in range(rng.randrange(4)):
            events = []
            for _ in range(rng.randrange(12)):
                stats: list[tuple[str, int | str]] = [
                    (
                        rng.choice(["correlation_id", "hlo_op", "memcpy_details", "step_num", "group_id", ""]),
                        rng.choice([rng.choice(_NUMBERS), rng.choice(_NAMES), "size:99999999999999999999"]),
                    )
                    for _ in range(rng.randrange(3))
                ]
                start = rng.choice([rng.randrange(10_000), rng.choice(_NUMBERS) // 10**6])
                events.append((rng.choice(_NAMES), start, rng.choice([5, 0, -3, 10**12]), stats))
            start_ns = rng.choice([1_000_000, 1_000_000, *_NUMBERS])
            plane.line(rng.choice(["Stream #9(Kernel)", "python3", *_NAMES]), start_ns, events)
        planes.append(plane)
    data = xplane_maker.space(planes, rng.choice(["node-a", "", "x" * 300]))
    if rng.random() < 0.1:
        for _ in range(rng.randrange(1, 200)):
            data = xplane_maker.part(rng.randrange(1, 6), data)
    return _damaged(data, rng)


def rocpd(rng: random.Random) -> bytes:
    """A database of rocprofv3 with odd values, other types, missing tables and columns."""
    with tempfile.TemporaryDirectory() as folder:
        path = rocpd_database(Path(folder) / "x.db")
        with sqlite3.connect(path) as base:
            tables = [r[0] for r in base.execute("select name from sqlite_master where type = 'table'")]
            for _ in range(rng.randrange(8)):
                table = rng.choice(tables)
                named = [c[1] for c in base.execute(f'pragma table_info("{table}")')]
                if not named:
                    continue
                column = rng.choice(named)
                value = rng.choice([None, "", "x" * 9000, b"\xff", 1.5, float("inf"), *_NUMBERS, *_NAMES])
                what = rng.randrange(5)
                try:
                    if what < 3:
                        base.execute(
                            f'update "{table}" set "{column}" = ? where rowid % ? = 0', (value, rng.randrange(1, 4))
                        )
                    elif what == 3:
                        base.execute(f'alter table "{table}" rename column "{column}" to "{column}_old"')
                    else:
                        base.execute(f'drop table "{table}"')
                except sqlite3.Error:
                    continue
        base.close()
        return _damaged(path.read_bytes(), rng, keep=16)


def nsys_parquet(rng: random.Random) -> bytes:
    """A folder of Parquet files, in an archive: columns of other types, missing, empty and damaged files."""
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.sqlite"
        export = Export(path).gpu().schemas()
        for index in range(rng.randrange(1, 6)):
            export.mark("ncclAllReduce", 1000 * index, 1000 * index + 100, 100, nvtx_payload(901, rng.randbytes(20)))
            export.launch(1000 * index + 50, 100, index)
            export.kernel(rng.choice(_NAMES[:4]), 1000 * index + 60, 1000 * index + 900, 100, 0, index)
        export.db.commit()
        export.db.close()
        with sqlite3.connect(path) as base, zipfile.ZipFile(out, "w") as archive:
            for (table,) in base.execute("select name from sqlite_master where type = 'table'").fetchall():
                cursor = base.execute(f'select * from "{table}"')
                titles = [c[0] for c in cursor.description]
                rows = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(titles)
                frame = pl.DataFrame({n: list(c) for n, c in zip(titles, rows, strict=True)}, strict=False)
                if rng.random() < 0.3 and frame.width > 1:
                    frame = frame.drop(rng.choice(frame.columns))
                if rng.random() < 0.3:
                    column = rng.choice(frame.columns)
                    odd: Any = rng.choice([None, "x", 1.5, float("nan"), -1, 2**62, b"\xff", [1], True])
                    frame = frame.with_columns(pl.Series(column, [odd] * frame.height))
                if rng.random() < 0.1:
                    continue
                file = io.BytesIO()
                frame.write_parquet(file)
                data = file.getvalue()
                archive.writestr(f"{table}.parquet", _damaged(data, rng) if rng.random() < 0.3 else data)
        base.close()
    return out.getvalue()


_PATHS = (
    "run.log", "./run.log", "", ".", "..", "../outside.log", "/etc/passwd", "/proc/self/environ", "/dev/zero", "/dev/stdin", "-",
    "link.log", "folder-link/outside.log", "loop", "run.log\x00.txt", "x" * 5000, "a/" * 3000, "file:///etc/passwd",
    "http://127.0.0.1:1/x", "s3://bucket/x", "~/.ssh/id_rsa", "*", "run.log;ls", "\ud800", "\u202e", "job.sh", "deep/../run.log",
    "missing.log", "\x1b[31m", "pipe",
)  # fmt: skip


def mcp(rng: random.Random) -> bytes:
    """A question of an agent: a tool and its arguments, of the types that the protocol lets through."""

    def path() -> str:
        return rng.choice(_PATHS) if rng.random() < 0.7 else "run.log"

    number = rng.choice([-(2**63), -1, 0, 1, 2, 3, 500, 10**6, 2**31, 2**64, 10**30])
    tool = rng.choice(["analyze", "explain", "tables", "query", "evidence", "diff", "lint"])
    arguments: dict[str, Any] = {
        "analyze": lambda: {"paths": [path() for _ in range(rng.randrange(4))]},
        "explain": lambda: {"name": rng.choice(["NI401", "shm", "", "\x00", "x" * 10**5, "../x", "{0}", *_NAMES])},
        "tables": lambda: {"paths": [path() for _ in range(rng.randrange(3))]},
        "query": lambda: {"sql": query(rng).decode("utf-8", "replace"), "paths": [path()], "limit": number},
        "evidence": lambda: {"path": path(), "first": rng.choice([1, number]), "last": rng.choice([5, number])},
        "diff": lambda: {"good": path(), "bad": path()},
        "lint": lambda: {"path": path()},
    }[tool]()
    return json.dumps({"tool": tool, "arguments": arguments}).encode()


_WORDS = (
    "select", "from", "where", "group by", "order by", "having", "limit", "offset", "join", "left join", "cross join", "on", "union all",
    "except", "distinct", "case when 1 then 2 end", "count(*)", "sum(rank)", "min(host)", "*", "rank", "host", "'x'", "''", "1", "-1",
    "1e400", "9223372036854775808", "null", "(", ")", ",", ".", "=", "<>", "like '%'", "rlike '(a+)+$'", "in (1, 2)", "between 1 and 2",
    "is null", "as", "cast(rank as int)", "cast(host as date)", "date '2026-13-01'", "interval '1 day'", "substr(host, -1, 99999999999)",
    "over (partition by rank)", "with x as (select 1)", "explain", "show tables", "drop table ranks", "insert into ranks values (1)",
    "create table t as select 1", "truncate table ranks", "delete from ranks", "read_csv('/etc/passwd')", "'/etc/passwd'", ";", "--",
    "/*", "*/", "\"", "`", "\\", "\x00", "\u202e", "é", "array[1,2]", "[1:2]", "::int", "->>", "unnest([1,2])", "lateral", "values (1)",
    "repeat('x', 3)", "strptime(host, '%')", "1 / 0", "1 % 0", "rank / 0", "round(1.5, 99999)", "left(host, -5)", "log(-1)", "sqrt(-1)",
)  # fmt: skip


def query(rng: random.Random) -> bytes:
    """A SELECT over the tables, then words of SQL in places where they may or may not stand."""
    table = rng.choice(sorted(schema.SCHEMA))
    names = list(schema.SCHEMA[table])
    one, two = rng.choice(names), rng.choice(names)
    base = rng.choice([
        f"select {one} from {table}", f"select {one}, count(*) from {table} group by {one}",
        f"select * from {table} where {one} = {two} order by {two} limit 3", f"select a.{one} from {table} a join {table} b on a.{two} = b.{two}",
        f"select cast({one} as {rng.choice(['int', 'float', 'text', 'date', 'timestamp', 'boolean'])}) from {table}",
        f"select {rng.choice(['sum', 'avg', 'min', 'max', 'length', 'upper', 'abs', 'stddev', 'first', 'round', 'year'])}({one}) from {table}",
        f"select {one} {rng.choice(['+', '-', '*', '/', '%', '||', '<', 'like', 'and'])} {two} from {table}", "",
    ])  # fmt: skip
    words = base.split(" ")
    for _ in range(rng.choice([0, 0, 1, 2, 5, 12])):
        words.insert(rng.randrange(len(words) + 1), rng.choice(_WORDS))
    text = " ".join(words)
    if rng.random() < 0.05:
        text = rng.choice(["(", "select (", "not ", "-", "case when "]) * rng.randrange(1, 40) + text
    return text.encode("utf-8", "replace")


def judge_parquet(path: Path) -> None:
    """Analyzes the folder."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "r_pqtdir"
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        _analyzed(folder)


def _one_line(error: InsightError) -> None:
    if "\n" in str(error):
        raise AssertionError("a message of several lines") from error


def _analyzed(path: Path) -> None:
    try:
        analysis = nccl_insight.analyze(path)
    except InsightError as error:
        _one_line(error)
        return
    broken = [note for note in analysis.notes if "failed and was left out" in note]
    assert not broken, broken[0]


def judge_mcp(path: Path) -> None:
    """Asks as a client would: an answer that is JSON, nothing from outside of the folder, no terminal control."""
    asked = json.loads(path.read_bytes())
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        (root / "deep").mkdir(parents=True)
        (Path(place) / "outside.log").write_text(f"{SECRET}:1:2 [0] NCCL INFO NCCL version 2.27.7+cuda12.8\n")
        (root / "run.log").write_bytes(next(RUNS.glob("tiny-shm/*.log")).read_bytes())
        (root / "job.sh").write_text("export NCCL_ALGO=Rign\n")
        (root / "link.log").symlink_to("../outside.log")
        (root / "folder-link").symlink_to("..")
        (root / "loop").symlink_to("loop")
        os.mkfifo(root / "pipe")
        tool = getattr(Desk(root), asked["tool"])
        try:
            told = json.dumps(answer(lambda: tool(**asked["arguments"]), PermissionError), allow_nan=True)
        except PermissionError as refusal:
            told = json.dumps(str(refusal))
        assert SECRET not in told, "read outside of the folder"
        assert "root:x:0" not in told, "read outside of the folder"
        assert "\\u001b" not in told, "terminal control in an answer"


def judge_query(path: Path) -> None:
    """Selects from a small run."""
    sql = path.read_bytes().decode("utf-8", "replace")
    try:
        select(_tiny(), sql).rows()
    except InsightError as error:
        _one_line(error)
    try:
        columns(sql)
    except InsightError as error:
        _one_line(error)
    assert overview(_tiny()).height


_LOADED: list[nccl_insight.Run] = []


def _tiny() -> nccl_insight.Run:
    if not _LOADED:
        _LOADED.append(nccl_insight.load(TINY_SHM))
    return _LOADED[0]


def live(rng: random.Random) -> bytes:
    """What happens to files that a watch follows: they grow, are cut, emptied, renamed, replaced, or go."""
    steps: list[dict[str, Any]] = []
    lines = next(RUNS.glob("tiny-shm/*.log")).read_text().splitlines()
    for _ in range(rng.randrange(1, 25)):
        start = rng.randrange(len(lines))
        text = "\n".join(lines[start : start + rng.randrange(12)])
        steps.append({
            "do": rng.choice(["add", "add", "add", "empty", "rename", "remove", "replace", "copy", "hole", "folder", "look"]),
            "file": rng.choice(["run.log", "a.log", "rank0.json", "x.gz"]), "text": text[: rng.choice([len(text), rng.randrange(len(text) + 1)])],
            "end": rng.choice(["\n", "", "\r", "\x00", "\ud800"]),
        })  # fmt: skip
    return json.dumps(steps).encode()


def judge_live(path: Path) -> None:
    """Follows the files through all of it: whole pieces, and news of one line."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        follower = Follower([str(root)])
        for number, step in enumerate(json.loads(path.read_bytes())):
            try:
                _happens(root, number, step)
            except OSError:
                continue
            growth = follower.grown()
            assert all(piece for _, piece in growth.pieces)
            assert all("\n" not in news for news in follower.news())


def _happens(root: Path, number: int, step: dict[str, str]) -> None:
    file, data = root / step["file"], (step["text"] + step["end"]).encode("utf-8", "surrogatepass")
    if step["do"] in ("add", "hole"):
        with file.open("ab") as stream:
            stream.truncate(stream.tell() + (4096 if step["do"] == "hole" else 0))
            stream.write(data)
    elif step["do"] == "empty":
        file.write_bytes(b"")
    elif step["do"] == "rename":
        file.rename(f"{file}.{number}")
    elif step["do"] == "remove":
        file.unlink()
    elif step["do"] == "replace":
        (root / "new").write_bytes(data)
        (root / "new").rename(file)
    elif step["do"] == "copy":
        (root / f"{file.name}.copy").write_bytes(file.read_bytes())
    elif step["do"] == "folder":
        file.mkdir()


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "xplane": xplane, "rocpd": rocpd, "nsys_parquet": nsys_parquet, "mcp": mcp, "query": query, "live": live,
}  # fmt: skip
SUFFIX = {
    "xplane": ".xplane.pb",
    "rocpd": ".db",
    "nsys_parquet": ".zip",
    "mcp": ".json",
    "query": ".sql",
    "live": ".json",
}
JUDGES: dict[str, Judge] = {"nsys_parquet": judge_parquet, "mcp": judge_mcp, "query": judge_query, "live": judge_live}

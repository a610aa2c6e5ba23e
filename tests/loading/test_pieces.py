"""A log read in chunks and tables made in pieces: the result does not depend on where they are cut."""

from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import polars as pl
import pytest

from nccl_insight.inputs import chunks
from nccl_insight.inputs import find as source
from nccl_insight.inputs.find import find_inputs
from nccl_insight.readers.nccl_log.objects import parse_objects
from nccl_insight.share.api import load
from tests.cut_logs import same, tables, text_of


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_LEAST_BYTES", 7_001)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 7_001)


@pytest.mark.usefixtures("small_chunks")
def test_bytes_that_are_no_text_between_chunks(tmp_path: Path) -> None:
    line = b"a:1:%d [0] NCCL INFO Channel 00/02 : 0 1\n"
    noise = "gr\u00fc\u00dfe \u4e16\u754c\n".encode()
    log = tmp_path / "run.log"
    log.write_bytes(b"".join(line % n + (noise if n % 3 else b"\xff\xfe broken\n") for n in range(1, 901)))
    run = load([str(log)])
    row = run.table("inputs").row(0, named=True)
    assert (row["lines"], row["parsed_lines"], row["foreign_lines"], row["bad_bytes"]) == (1800, 900, 900, 600)
    assert run.table("rings")["line"].unique().sort().to_list() == list(range(1, 1801, 2))


@pytest.mark.parametrize("end", ["\x1b[31m", "\x00", "\x1b[0m\n", ""])
def test_a_last_line_that_shows_nothing_is_a_line(end: str, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("a:1:2 [0] NCCL INFO Using network IB\n" + end, encoding="utf-8")
    assert load([str(log)]).table("inputs")["lines"].to_list() == [2 if end else 1]


@pytest.mark.usefixtures("small_chunks")
def test_lines_longer_than_a_chunk(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    ring = "a:1:2 [0] NCCL INFO Channel 00/02 : 0 1\n"
    log.write_text(ring + "x" * 50_000 + "\n" + ring, encoding="utf-8")
    run = load([str(log)])
    assert run.table("inputs")["parsed_lines"].to_list() == [2]
    assert run.table("rings").height == 4


@pytest.mark.usefixtures("small_chunks")
def test_floods_and_torn_lines_over_many_chunks(tmp_path: Path) -> None:
    flood = "a:1:2 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer b<4791>\n"
    torn = "a:1:2 [0] NCCL INFO Connected all tra:1:3 [1] NCCL INFO Connected all rings\n"
    log = tmp_path / "run.log"
    log.write_text((flood * 1200 + torn) * 3, encoding="utf-8")
    run = load([str(log)])
    (row,) = run.table("errors").to_dicts()
    assert (row["repeats"], row["line"]) == (3600, 1)
    notes = run.table("notes").filter(pl.col("kind") == "log-torn")
    assert notes["line"].to_list() == [1201, 2402, 3603]


def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    text = text_of("tiny-shm")
    log, pipe = tmp_path / "run.log", tmp_path / "pipe"
    log.write_bytes(text)
    os.mkfifo(pipe)

    threading.Thread(target=lambda: pipe.write_bytes(text), daemon=True).start()
    same(tables(load([str(log)])), tables(load([str(pipe)])))


def files_of_a_run(folder: Path) -> list[Path]:
    """Logs as a launcher leaves them: one a process, some of them odd."""
    heads = [f"gpu{n // 4}:{100 + n}:{200 + n} [{n % 4}] NCCL INFO " for n in range(8)]
    bind = "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 4194304 : CUDA error 1 'invalid argument'."
    rings = ["Using network IB", "Channel 00/02 : 0 1 2 3 4 5 6 7", "Connected all rings"]
    texts = ["\n".join(head + ring for ring in rings) + "\n" for head in heads]
    texts[1] = texts[1].rstrip("\n")
    texts[2] = ""
    texts[3] += heads[3].replace("INFO", "WARN") + bind + "\n"
    texts[4] = "This is usually caused by a system or configuration error\n" + texts[4]
    texts[5] += heads[5] + "a message of the year 2031\n" + heads[5] + "Connected all tr" + heads[4] + rings[2] + "\n"
    texts[6] += heads[6] + "Connected all rings [repeated 7x across cluster]\n"
    found = []
    for number, text in enumerate(texts):
        path = folder / f"rank{number}.log"
        path.write_bytes(text.encode() + (b"\xff\xfe no text\n" if number == 7 else b""))
        found.append(path)
    shared = folder / "copy.log"
    shared.write_text(texts[0], encoding="utf-8")
    return [*found, shared]


def test_many_small_files_are_read_like_each_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(path) for path in files_of_a_run(tmp_path)]
    together = load(paths)
    monkeypatch.setattr(source, "_SMALL_BYTES", -1)
    apart = load(paths)
    same(tables(together), tables(apart))
    inputs = together.table("inputs")
    assert inputs["lines"].to_list() == [3, 3, 0, 4, 4, 5, 4, 4, 3]
    assert inputs["torn_lines"].to_list() == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert inputs["foreign_lines"].to_list() == [0, 0, 0, 0, 1, 0, 0, 1, 0]
    assert inputs["unknown_lines"].to_list() == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert inputs["bad_bytes"].to_list() == [0, 0, 0, 0, 0, 0, 0, 2, 0]
    wanted = [(0, 3), (1, 3), (4, 1), (8, 2)]
    lines = [Path(paths[i]).read_text(encoding="utf-8").split("\n")[n - 1] for i, n in wanted]
    assert together.reader.lines(wanted) == dict(zip(wanted, lines, strict=True))


def test_many_small_traces_are_read_like_each_alone(tmp_path: Path) -> None:
    whole = sorted(Path("fixtures/traces/gloo_healthy").glob("*.json*"))
    damaged = tmp_path / "damaged.json.gz"
    damaged.write_bytes(gzip.compress(whole[0].read_bytes())[:2_000])
    files = [*whole[:1], str(damaged), *whole[1:]]
    together, apart = (load(files), [load([file]) for file in files])
    for name in ("collectives", "steps", "trace_info", "notes"):
        rows = [run.table(name) for run in apart]
        assert together.table(name)["input_id"].to_list() == [
            n for n, part in enumerate(rows) for _ in range(part.height)
        ]
    took = pl.concat([run.table("collectives")["duration_ns"] for run in apart])
    assert together.table("collectives")["duration_ns"].to_list() == took.to_list()


def test_records_of_many_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = find_inputs([str(path) for path in files_of_a_run(tmp_path)])
    together = [json.loads(line) for line in parse_objects(files, keep_foreign=True)]
    monkeypatch.setattr(source, "_SMALL_BYTES", -1)
    assert together == [json.loads(line) for line in parse_objects(files, keep_foreign=True)]
    assert [r["text"] for r in together if r["level"] is None] == [
        "This is usually caused by a system or configuration error",
        "\ufffd\ufffd no text",
    ]
    assert all("input_id" not in r.get("fields", ()) for r in together)

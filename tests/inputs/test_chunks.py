"""Where chunks of a log end, and the way back from the number of a line to its text."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from nccl_insight import load
from nccl_insight.inputs import chunks
from nccl_insight.inputs.chunks import ChunkIndex, FileLines, read_chunks
from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log import floods, head, split, work
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import chunk_reader, read_logs


def _lines(count: int, width: int = 60) -> list[str]:
    """Lines of NCCL and of another program, of many lengths, some empty."""
    rng = random.Random(3)
    kinds = ("node0:1:2 [0] NCCL INFO Channel {n:02d}/0 : 0 1 {x}", "step {n} loss {x}", "", "    at {n} {x}")
    picked = ((n, rng.choices(kinds, (6, 3, 1, 2))[0]) for n in range(count))
    return [kind.format(n=n, x="x" * rng.randrange(width)) for n, kind in picked]


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("width", [60, 2000])
def test_chunks_end_in_front_of_the_last_record_that_they_reach(
    width: int, ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(_lines(2000, width)) + "\n" * ended)
    (file,) = find_inputs(log)
    size = 5000

    def ends() -> list[bytes]:
        return [c.data[: c.size] for c in read_chunks(file, ChunkIndex(), size=size)]

    monkeypatch.setattr(chunks, "_TAIL_BYTES", size)
    whole = ends()
    monkeypatch.setattr(chunks, "_TAIL_BYTES", 300)
    told = ends()
    assert told == whole
    assert len(told) > 10
    assert b"".join(told) == log.read_bytes()
    for data, behind in pairwise(told):
        if behind.startswith(b"node0:"):
            both = data + behind
            # No later record begins within the bytes of the chunk.
            assert both.rfind(b"\n", 0, both.rfind(b" NCCL ", 0, size)) + 1 == len(data)


@pytest.mark.parametrize("ended", [True, False])
def test_a_line_is_read_back_from_the_mark_in_front_of_it(
    ended: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = _lines(3000)
    log = tmp_path / "a.log"
    log.write_text("\n".join(wanted) + "\n" * ended)
    (file,) = find_inputs(log)
    monkeypatch.setattr(split, "_MARKED_EVERY", 7)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 20_000)
    monkeypatch.setattr(chunks, "_LEAST_BYTES", 20_000)
    index = ChunkIndex()
    read_logs([(file, index)], chunk_reader(Classifier(default_catalog())), workers=2)
    assert len(index.marks) == len(index.offsets) > 3
    if hasattr(split.pl, "read_lines"):
        assert all(len(marks) > 3 for marks in index.marks[:-1])
    found = FileLines({file.input_id: (file, index)}).lines((file.input_id, n) for n in range(len(wanted) + 3))
    told = {n: found[file.input_id, n] for n in range(1, len(wanted) + 1)}
    assert list(told.values()) == wanted


def _dated(lines: int) -> str:
    """Choices of two ranks, each line with a time of its own, errors between them."""
    out = []
    for i in range(lines):
        second, micro = divmod(i * 1371, 1_000_000)
        stamp = f"2026-03-04T05:06:{second:02d}.{micro:06d}Z "
        thread = f"node{i % 2}:10{i % 2}:20{i % 2} [{i % 2}] "
        if i % 97 == 5:
            out.append(
                stamp + thread + f"misc/socket.cc:{i} NCCL WARN socketStartConnect: Connect to 10.0.0.1<{i}> failed"
            )
        else:
            op = ("AllReduce", "Broadcast")[i // 2 % 2]
            text = f"{op}: {i * 4} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..{i % 7}}}"
            out.append(stamp + thread + "NCCL INFO " + text)
    return "\n".join(out) + "\n"


def test_times_in_heads_do_not_change_what_a_flood_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "dated.log"
    log.write_text(_dated(4000))
    (file,) = find_inputs(log)
    monkeypatch.setattr(floods, "LEAST", 500)
    monkeypatch.setattr(work, "LEAST", 500)

    def read() -> tuple[dict[str, list[object]], int]:
        run = load(log)
        part = read_logs([(file, ChunkIndex())], chunk_reader(Classifier(default_catalog())))
        return {name: run.table(name).rows() for name in run.tables if run.has(name)}, part.heads.height

    quick, few = read()
    monkeypatch.setattr(work, "_undated", lambda rows: rows)
    slow, many = read()
    assert quick == slow
    assert {"tuning_choice", "errors"} <= set(quick)
    assert many > 3900
    assert few < 200
    # An error keeps the time of its own line.
    stamps = load(log).table("errors")["timestamp"].to_list()
    assert len(set(stamps)) == len(stamps) > 30


def test_only_the_time_is_another_in_an_undated_head() -> None:
    pl = split.pl
    heads = [
        "2026-03-04T05:06:07.123456789Z node0:1:2 [0]",
        "2026-03-04 05:06:07,123-07:00node0:1:2 [0]",
        "pod-1 app | 2026-03-04T05:06:07.5Z stdout F node0:1:2 [3]",
        "[2026-03-04 05:06:07.25] [rank3]: node0:1:2 [3]",
        "node0:12:34 [0]",
        "10.0.0.1:12:34 [0]",
        "12:34:56.789 [0]",
        "12:34:56.789",
    ]
    column = pl.Series(heads)
    fields = [c for c in head.COLUMNS if c not in {"timestamp", "launcher"}]
    asis, undated = (head.parse_heads(c).drop("head") for c in (column, head.undated(column)))
    assert undated.select(fields).rows() == asis.select(fields).rows()
    assert head.undated(column).to_list()[4:] == heads[4:]
    assert head.undated(column)[0] == "2026-03-04T00:00:00.0Z node0:1:2 [0]"

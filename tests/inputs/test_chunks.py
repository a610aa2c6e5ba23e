"""Where chunks of a log end, and the way back from the number of a line to its text."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest

from nccl_insight.inputs import chunks
from nccl_insight.inputs.chunks import ChunkIndex, read_chunks
from nccl_insight.inputs.find import find_inputs
from nccl_insight.share.api import load
from tests.cut_logs import LOGS, same, tables, text_of
from tests.numbered_lines import _lines


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


@pytest.mark.parametrize("name", LOGS)
def test_chunks_change_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "run.log"
    log.write_bytes(text_of(name))
    whole = load([str(log)])
    packed = tmp_path / "run.log.gz"
    packed.write_bytes(gzip.compress(text_of(name)))
    monkeypatch.setattr(chunks, "_LEAST_BYTES", 7_001)
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 7_001)
    cut = load([str(log)])
    same(tables(whole), tables(cut))
    same(tables(whole), tables(load([str(packed)])))
    wanted = [(0, 1), (0, int(whole.table("inputs")["lines"][0])), (0, 77)]
    lines = text_of(name).decode().split("\n")
    assert cut.reader.lines(wanted) == {key: lines[key[1] - 1].rstrip("\r") for key in wanted}

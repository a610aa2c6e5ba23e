"""One chunk while it is taken apart."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from nccl_insight import load
from nccl_insight.inputs.chunks import ChunkIndex
from nccl_insight.inputs.find import find_inputs
from nccl_insight.language.catalog import default_catalog
from nccl_insight.readers.nccl_log import floods, work
from nccl_insight.readers.nccl_log.classify import Classifier
from nccl_insight.readers.nccl_log.log import chunk_reader, read_logs
from tests.readers.nccl_log.distinct_texts import CALL, _log


@pytest.mark.parametrize("details", [True, False])
def test_a_flood_gives_the_rows_that_its_lines_give_one_by_one(
    details: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "flood.log"
    log.write_text(_log(3000))

    def read(least: int) -> tuple[dict[str, object], int]:
        seen: list[str] = []
        real = floods.openings

        def counted(bodies: pl.Series) -> dict[str, str]:
            found = real(bodies)
            seen.extend(found)
            return found

        monkeypatch.setattr(floods, "LEAST", least)
        monkeypatch.setattr(work, "LEAST", least)
        monkeypatch.setattr(work, "openings", counted)
        run = load([str(log)], details=details)
        monkeypatch.setattr(work, "openings", real)
        return {name: run.table(name) for name in run.tables}, len(seen)

    (slow, none), (quick, some) = read(10**9), read(50)
    assert none == 0
    assert some >= 4
    assert quick.keys() == slow.keys()
    for name, frame in slow.items():
        other = quick[name]
        for column in frame.columns:  # type: ignore[attr-defined]
            assert other[column].to_list() == frame[column].to_list(), (name, column)  # type: ignore[index]


def test_a_text_of_two_floods_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The opening of one flood may begin the other's."""
    head = "node0:100:100 [0] NCCL INFO "
    calls = [head + CALL.replace("opCount 1f", f"opCount {i:x}") for i in range(200)]
    others = [head + f"AllReduce: {i} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..1}}" for i in range(300)]
    log = tmp_path / "two.log"
    log.write_text("\n".join(line for pair in zip(calls, others, strict=False) for line in pair) + "\n")
    monkeypatch.setattr(floods, "LEAST", 50)
    monkeypatch.setattr(work, "LEAST", 50)
    run = load([str(log)])
    assert run.table("calls").height == 200
    assert run.table("tuning_choice").height == 200
    assert run.table("inputs").select("lines", "parsed_lines").rows() == [(400, 400)]


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

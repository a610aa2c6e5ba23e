"""Pointers wait as numbers and come back as they were printed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccl_insight import load
from nccl_insight.readers.nccl_log.hexadecimal import packed, unpacked

_CALL = (
    "node0:100:100 [0] NCCL INFO AllReduce: opCount {count} sendbuff {pointer} recvbuff {pointer} count 8 datatype 7 "
    "op 0 root 0 comm 0x550000100010 [nranks=2] stream {pointer}"
)


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(0, 2**64 - 1)))
def test_pointers_come_back(values: list[int | None]) -> None:
    texts = pl.Series("stream", [None if v is None else f"0x{v:x}" for v in values], pl.String)
    numbers = packed(texts)
    assert numbers is not None
    assert numbers.to_list() == values
    assert unpacked(numbers).to_list() == texts.to_list()


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1)))
def test_operation_counts_come_back(values: list[int]) -> None:
    texts = pl.Series("op_count_hex", [f"{v:x}" for v in values], pl.String)
    numbers = packed(texts)
    assert numbers is not None
    assert unpacked(numbers).to_list() == texts.to_list()


@pytest.mark.parametrize("text", ["(nil)", "0x", "0x0a", "0xA", "0x...", "10", "0x11112222333344445", ""])
def test_what_would_not_come_back_stays_text(text: str) -> None:
    assert packed(pl.Series("stream", ["0x1", text])) is None


def test_only_some_columns_are_pointers() -> None:
    assert packed(pl.Series("comm", ["0x1"])) is None


@pytest.mark.parametrize("pointers", [["0x7f0000000000", "0x0", "0xffffffffffffffff"], ["0x7f", "(nil)", "0xAB"]])
def test_the_table_of_calls_shows_what_was_printed(tmp_path: Path, pointers: list[str]) -> None:
    log = tmp_path / "run.log"
    lines = [_CALL.format(count=f"{n:x}", pointer=pointer) for n, pointer in enumerate(pointers, 14)]
    log.write_text("\n".join(lines) + "\n")
    calls = load(str(log)).table("calls")
    for name in ("sendbuff", "recvbuff", "stream"):
        assert calls[name].to_list() == pointers
    assert calls["op_count"].to_list() == [14, 15, 16]
    assert calls["op_count_hex"].to_list() == ["e", "f", "10"]

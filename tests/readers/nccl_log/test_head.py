"""The head of an NCCL line."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.readers.nccl_log import head, split
from nccl_insight.readers.nccl_log.head import parse_heads


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


@pytest.mark.parametrize(
    "form",
    [
        "[rank{}]:[E304 {} ProcessGroupNCCL.cpp:632] ", "{}: {} ", "[2026-03-04 {1}] [rank{0}]: node0:1:2 [3]",
        "node{}: [0] x.cc:{} ", "2026-03-04T{1}-07:00node{0}:1:2 [0]", "{1}-node{0}:12:13 [0]",
    ],
)  # fmt: skip
def test_many_heads_are_parsed_as_each_is(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    heads = [form.format(n % 2, f"05:0{n}:10{',.'[n % 2]}{'1234567'[: n + 1]}") for n in range(6)]
    monkeypatch.setattr(head, "_KNOWN_MOST", 3)
    many = head.Heads().parsed(pl.Series([*heads, heads[0]]))
    each = [parse_heads(pl.Series([one])) for one in [*heads, heads[0]]]
    assert many.rows() == pl.concat(each).rows()


@pytest.mark.parametrize(
    ("label", "host"),
    [
        ("worker-1: ", "worker-1"), ("10.0.0.7: ", "10.0.0.7"), ("gpu01 ", "gpu01"), ("x | gpu01: ", "gpu01"),
        ("3: ", None), ("2025-06-01T10:00:02.123456Z ", None), ("2025-06-01 10:00:02: ", None), ("INFO: ", None),
        ("trainer-0 pytorch ", None), ("[rank3]: ", None), ("rank3: ", None), ("app - - ", None),
    ],
)  # fmt: skip
def test_the_label_in_front_of_a_head_without_host(label: str, host: str | None) -> None:
    heads = pl.Series([f"{label}[0] misc/socket.cc:71 ", f"{label}[0] "])
    read = parse_heads(heads)
    assert read["host"].to_list() == [host, host]
    assert read["dev"].to_list() == [0, 0]
    assert read["source"].to_list() == ["misc/socket.cc:71", None]

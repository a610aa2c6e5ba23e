"""Numbers that stand for names."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.tables.normalise.codes import DTYPES, PROTOCOLS, name_of, plugin_name, plugin_not_found


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("libnccl-net.so: cannot open shared object file: No such file or directory", "not_found"),
        ("libcudart.so.12: cannot open shared object file: No such file or directory", "failed"),
        ("/opt/net/libnccl-net.so: undefined symbol: fi_getinfo", "failed"),
    ],
)
def test_a_plugin_that_is_there_and_cannot_be_linked_failed(error: str, outcome: str) -> None:
    frame = pl.DataFrame({"library": ["libnccl-net.so"], "dl_error": [error], "outcome": ["not_found"]})
    assert plugin_name(frame).select("name", "outcome", "detail").rows() == [("libnccl-net.so", outcome, error)]


@pytest.mark.parametrize("tail", [".", ". Using internal network plugin.", ""])
def test_what_was_looked_for_without_the_sentence(tail: str) -> None:
    frame = pl.DataFrame(
        {"plugin_kind": ["NET"], "plugin_list": [f" libnccl-net-x.so{tail}"], "outcome": ["not_found"]}
    )
    assert plugin_not_found(frame).select("kind", "name").rows() == [("net", "libnccl-net-x.so")]


def test_numbers_of_nccl_are_names_and_later_ones_stay_numbers() -> None:
    """ncclFloat32 is 7 and ncclBfloat16 is 9 in nccl.h; NCCL_PROTO_SIMPLE is 2."""
    codes = pl.DataFrame({"dtype": [7, 9, 99, None], "proto": [2, 0, 1, 3]})
    rows = codes.select(name_of(pl.col("dtype"), DTYPES), name_of(pl.col("proto"), PROTOCOLS))
    assert rows["dtype"].to_list() == ["float32", "bfloat16", "99", None]
    assert rows["proto"].to_list() == ["SIMPLE", "LL", "LL128", "3"]

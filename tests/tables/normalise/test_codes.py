"""Numbers that stand for names."""

from __future__ import annotations

import polars as pl
import pytest

from nccl_insight.tables.normalise.codes import plugin_name, plugin_not_found


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
